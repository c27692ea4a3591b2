"""A real Kafka on this machine, one process: ``python -m demo.kafka`` starts one to try things with.

The jars come from Maven (``scripts/setup-jars.sh kafka``). The process is broker and controller (KRaft) and listens on
127.0.0.1 only, on ports that were free; what it stores lies in one folder. A ``secure`` one has two more listeners: one
with TLS and SASL, one with TLS that asks clients for certificates. On both a client may do what an ACL allows.
"""

from __future__ import annotations

import argparse
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from demo.certificates import Certificates
from demo.java_servers import START_SECONDS, NoServer, formatted, free_ports, jars, java_command, launched, serve

BROKER = "kafka.Kafka"
FORMAT = "kafka.tools.StorageTool"

_LOGGING = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info",
)

STOP_SECONDS = 30.0

STARTED = "Kafka Server started"

ADMIN = "admin"
"""The user that may do everything on the secure listeners; there as on the plain one, everybody else needs ACLs."""

# A line of server.properties for us: another process finds the one in a folder by it.
_PORTS = "demo.ports"

_QUICK = {
    "num.partitions": "2",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    # Messages with old event times are not deleted by the clock.
    "log.retention.ms": "-1",
    # Looks for segments to delete or compact soon after a test has asked for it.
    "log.retention.check.interval.ms": "1000",
    "log.cleaner.backoff.ms": "500",
    "log.initial.task.delay.ms": "500",
}


class Kafka:
    """One Kafka in a folder, new or the one that lies there; ``settings`` are further ones of server.properties.

    ``secure``: it has the two listeners with TLS, too, and ``users`` are those that log in there with a password
    (SASL PLAIN and SCRAM-SHA-512), beside :data:`ADMIN`. ``proxied``: it has a plain listener behind a proxy, which
    whoever wants one starts: clients are sent to ``proxy_port``, and the proxy to ``proxied_port``.
    """

    name = "Kafka"

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, str] | None = None,
        *,
        secure: bool = False,
        proxied: bool = False,
        users: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.settings = dict(settings or {})
        self.secure = secure
        self.proxied = proxied
        self.users = {ADMIN: "admin-secret", **(users or {})} if secure else {}
        self.port, self.sasl_port, self.mtls_port, self._controller_port, *behind = self._ports()
        self.proxied_port, self.proxy_port = behind
        self.process: subprocess.Popen[bytes] | None = None
        self._from = 0
        self._jars = jars("kafka")

    @property
    def address(self) -> str:
        """``bootstrap.servers`` of the plain listener, on which everybody may do everything."""
        return f"127.0.0.1:{self.port}"

    @property
    def sasl_address(self) -> str:
        """``bootstrap.servers`` of the listener with TLS, and PLAIN, SCRAM-SHA-512 or OAUTHBEARER."""
        return f"127.0.0.1:{self.sasl_port}"

    @property
    def mtls_address(self) -> str:
        """``bootstrap.servers`` of the listener with TLS that asks clients for certificates."""
        return f"127.0.0.1:{self.mtls_port}"

    @property
    def certificates(self) -> Certificates:
        """The files for TLS: the authority's certificate, the broker's and those of clients."""
        return Certificates(self.folder / "tls")

    @property
    def log(self) -> Path:
        """The file with the broker's messages."""
        return self.folder / "broker.log"

    def start(self) -> None:
        """Starts it, and returns when topics can be made."""
        self.prepare()
        self.launch()
        self.await_ready()

    def prepare(self) -> None:
        """Writes its configuration, and what a broker starts with."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self._properties.exists():
            if self.secure:
                self.certificates.make()
            _write_settings(self._properties, self._configuration())
            shutil.copytree(formatted(self._jars, "data", self._format), self.folder / "data")

    def launch(self) -> None:
        """Starts the process, which is ready some seconds later."""
        self._from = self.log.stat().st_size if self.log.exists() else 0
        self.process = launched(self._java(BROKER, str(self._properties)), self.log)

    def await_ready(self) -> None:
        """Waits until it has started, and the users of SCRAM are known to it."""
        deadline = time.monotonic() + START_SECONDS
        while STARTED not in (written := self.log.read_bytes()[self._from :].decode(errors="replace")):
            if self.process is None or self.process.poll() is not None:
                raise NoServer(f"Kafka did not start; the end of {self.log}:\n{written[-2000:]}")
            if time.monotonic() > deadline:
                raise NoServer(f"Kafka was not ready after {START_SECONDS:.0f} s; its log is {self.log}.")
            time.sleep(0.02)
        if self.secure:
            self._add_users()

    def stop(self) -> None:
        """Stops it in order: it hands its partitions over, writes all to disk and ends."""
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        """Ends it at once, as a loss of its host would; what it stored is there for :meth:`restart`."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def freeze(self) -> None:
        """Stops it where it is: connections stay open, and nothing answers."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Lets a frozen one go on."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def restart(self) -> None:
        """Starts it again after :meth:`stop` or :meth:`kill`, on the same ports with what it has stored."""
        self.launch()
        self.await_ready()

    def wait(self) -> None:
        """Returns when it has ended."""
        assert self.process is not None
        self.process.wait()

    def facts(self) -> str:
        """Return its addresses; of a secure one a user and certificates, too."""
        lines = [f"bootstrap.servers          {self.address}"]
        if self.secure:
            lines += [
                f"with TLS and SASL          {self.sasl_address}   user {ADMIN}, password {self.users[ADMIN]}",
                f"with TLS for clients       {self.mtls_address}   certificate {self.certificates.client(ADMIN)}",
                f"the authority of TLS       {self.certificates.authority}",
            ]
        return "\n".join(f"  {line}" for line in lines)

    def _java(self, program: str, *arguments: str) -> list[str]:
        return java_command([f"{self._jars}/*"], *_LOGGING, program, *arguments)

    def _format(self, folder: Path) -> Sequence[str]:
        properties = folder / "server.properties"
        _write_settings(
            properties,
            {
                "process.roles": "broker,controller",
                "node.id": "1",
                "controller.quorum.voters": "1@127.0.0.1:9093",
                "controller.listener.names": "CONTROLLER",
                "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
                "log.dirs": f"{folder}/data",
            },
        )
        return self._java(FORMAT, "format", "--cluster-id", "YWlyZmxvd19zYW16YS4uLg", "--config", str(properties))

    @property
    def _properties(self) -> Path:
        return self.folder / "server.properties"

    def _ports(self) -> list[int]:
        """The ports of the one that lies in the folder, or free ones."""
        if not self._properties.exists():
            return free_ports(6)
        found = re.search(rf"^{_PORTS}=(.*)$", self._properties.read_text(), re.MULTILINE)
        assert found is not None
        return [int(port) for port in found[1].split(",")]

    def _configuration(self) -> dict[str, str]:
        listeners = {"PLAIN": self.port}
        protocols = {"PLAIN": "PLAINTEXT", "CONTROLLER": "PLAINTEXT"}
        if self.secure:
            listeners |= {"SASL": self.sasl_port, "MTLS": self.mtls_port}
            protocols |= {"SASL": "SASL_SSL", "MTLS": "SSL"}
        if self.proxied:
            listeners["PROXIED"] = self.proxied_port
            protocols["PROXIED"] = "PLAINTEXT"
        open_ports = [f"{name}://127.0.0.1:{port}" for name, port in listeners.items()]
        ports = (self.port, self.sasl_port, self.mtls_port, self._controller_port, self.proxied_port, self.proxy_port)
        advertised = {**listeners, "PROXIED": self.proxy_port} if self.proxied else listeners
        return {
            _PORTS: ",".join(map(str, ports)),
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listeners": ",".join([*open_ports, f"CONTROLLER://127.0.0.1:{self._controller_port}"]),
            "advertised.listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in advertised.items()),
            "listener.security.protocol.map": ",".join(f"{name}:{value}" for name, value in protocols.items()),
            "inter.broker.listener.name": "PLAIN",
            "log.dirs": str(self.folder / "data"),
            **_QUICK,
            **(self._security() if self.secure else {}),
            **self.settings,
        }

    def _security(self) -> dict[str, str]:
        passwords = " ".join(f'user_{name}="{password}"' for name, password in self.users.items())
        modules = "org.apache.kafka.common.security"
        sasl = "listener.name.sasl."
        stores = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.certificates.broker),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.certificates.authority),
        }
        return {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:ANONYMOUS;User:{ADMIN}",
            **stores,
            f"{sasl}sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512,OAUTHBEARER",
            f"{sasl}plain.sasl.jaas.config": f"{modules}.plain.PlainLoginModule required {passwords};",
            f"{sasl}scram-sha-512.sasl.jaas.config": f"{modules}.scram.ScramLoginModule required;",
            # Takes tokens that nobody has signed: it stands for a broker that asks somebody about them.
            f"{sasl}oauthbearer.sasl.jaas.config": f"{modules}.oauthbearer.OAuthBearerLoginModule required;",
            f"{sasl}oauthbearer.sasl.server.callback.handler.class": f"{modules}.oauthbearer.internals.unsecured."
            "OAuthBearerUnsecuredValidatorCallbackHandler",
            # A session ends with its token, unless the client shows a new one; by default it goes on for ever.
            f"{sasl}oauthbearer.connections.max.reauth.ms": "3600000",
            "listener.name.mtls.ssl.client.auth": "required",
            # A user of TLS is named by the certificate's common name.
            "listener.name.mtls.ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/,DEFAULT",
        }

    def _add_users(self) -> None:
        from confluent_kafka.admin import (
            AdminClient,
            ScramCredentialInfo,
            ScramMechanism,
            UserScramCredentialAlteration,
            UserScramCredentialUpsertion,
        )

        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        changes: list[UserScramCredentialAlteration] = [
            UserScramCredentialUpsertion(name, info, password.encode()) for name, password in self.users.items()
        ]
        admin = AdminClient({"bootstrap.servers": self.address})
        for done in admin.alter_user_scram_credentials(changes).values():
            done.result(START_SECONDS)


def _write_settings(file: Path, settings: Mapping[str, str]) -> None:
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))


def main(arguments: list[str] | None = None) -> int:
    """Starts one, prints its addresses, and stops it at Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m demo.kafka", description=__doc__.partition("\n")[0])
    parser.add_argument("--secure", action="store_true", help="with listeners for TLS and SASL, too")
    return serve(parser, lambda folder, options: Kafka(folder, secure=options.secure), arguments)


if __name__ == "__main__":
    sys.exit(main())

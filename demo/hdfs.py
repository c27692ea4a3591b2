"""A real HDFS on this machine, one NameNode and one DataNode: ``python -m demo.hdfs`` starts one to try things with.

The jars come from Maven (``scripts/setup-jars.sh hdfs``). Both servers are processes of their own and listen on
127.0.0.1 only, on ports that were free; what they store lies in one folder.
"""

from __future__ import annotations

import argparse
import contextlib
import getpass
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "setup-jars.sh"

NAMENODE = "org.apache.hadoop.hdfs.server.namenode.NameNode"
DATANODE = "org.apache.hadoop.hdfs.server.datanode.DataNode"

# They serve one test, and should start soon: the second compiler and the parallel collector only cost time here.
_JAVA_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m")

# Four seconds on an idle machine, ten when all its cores are busy.
START_SECONDS = 120.0

_LOGGING = """\
log4j.rootLogger=INFO,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{ISO8601} %p %c{1}: %m%n
"""


class NoHdfs(RuntimeError):
    """There is no HDFS to be had; the message says why and what to do."""


def jars(name: str) -> Path:
    """The folder of the jars that ``scripts/jars/<name>`` lists, fetched if need be."""
    done = subprocess.run([str(SCRIPT), name], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NoHdfs(done.stderr.strip())
    return Path(done.stdout.strip())


class Hdfs:
    """One HDFS in a folder. ``settings`` are further ones of hdfs-site.xml."""

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.conf_dir = folder / "conf"
        self.rpc_port, self.http_port = free_ports(2)
        self.namenode: subprocess.Popen[bytes] | None = None
        self.datanode: subprocess.Popen[bytes] | None = None
        self.settings = dict(settings or {})
        self._jars = jars("hdfs")

    @property
    def webhdfs(self) -> str:
        """Its address for WebHDFS."""
        return f"webhdfs://127.0.0.1:{self.http_port}"

    @property
    def hdfs(self) -> str:
        """Its address for Hadoop's own clients, Spark's among them."""
        return f"hdfs://127.0.0.1:{self.rpc_port}"

    def start(self) -> None:
        """Starts both servers, and returns when files can be written."""
        self.prepare()
        self.start_namenode()
        self.start_datanode()
        self.await_ready()

    def prepare(self) -> None:
        """Writes the configuration and what a NameNode starts with."""
        self._configure()
        shutil.copytree(_formatted(self._jars), self.folder / "name")

    def start_namenode(self) -> None:
        """Starts the NameNode, which is ready some seconds later."""
        self.namenode = self._java(NAMENODE, "namenode.log")

    def start_datanode(self) -> None:
        """Starts the DataNode."""
        self.datanode = self._java(DATANODE, "datanode.log")

    def await_ready(self, datanodes: int = 1) -> None:
        """Waits until the NameNode has left safe mode, and the DataNode has reported."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            state = self._state()
            if state.get("FSState") == "Operational" and int(str(state.get("NumLiveDataNodes", 0))) >= datanodes:
                return
            for server, log in ((self.namenode, "namenode.log"), (self.datanode, "datanode.log")):
                if server is not None and server.poll() is not None:
                    raise NoHdfs(
                        "HDFS did not start; the end of "
                        f"{self.folder / log}:\n{(self.folder / log).read_text()[-2000:]}"
                    )
            time.sleep(0.05)
        raise NoHdfs(f"HDFS was not ready after {START_SECONDS:.0f} s; its logs are in {self.folder}.")

    def admin(self, *arguments: str) -> str:
        """Return the output of ``hdfs dfsadmin``."""
        command = self._command("org.apache.hadoop.hdfs.tools.DFSAdmin", *arguments)
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def stop(self) -> None:
        """Stops both servers."""
        for server in (self.datanode, self.namenode):
            if server is not None:
                server.kill()  # nobody needs what they store
                server.wait()

    def _configure(self) -> None:
        # The servers look for the files of their pages, and need the folders at least.
        for page in ("hdfs", "datanode", "static"):
            (self.conf_dir / "webapps" / page).mkdir(parents=True)
        (self.conf_dir / "log4j.properties").write_text(_LOGGING)
        _write_settings(
            self.conf_dir / "core-site.xml", {"fs.defaultFS": self.hdfs, "hadoop.tmp.dir": str(self.folder)}
        )
        settings = {
            "dfs.namenode.rpc-address": f"127.0.0.1:{self.rpc_port}",
            "dfs.namenode.http-address": f"127.0.0.1:{self.http_port}",
            "dfs.namenode.name.dir": f"file://{self.folder / 'name'}",
            "dfs.namenode.safemode.extension": "0",
            "dfs.datanode.data.dir": f"file://{self.folder / 'data'}",
            "dfs.datanode.hostname": "127.0.0.1",
            **{f"dfs.datanode.{server}address": "127.0.0.1:0" for server in ("", "http.", "ipc.")},
            "dfs.replication": "1",
            # Small files are written one after the other here: a writer looks again soon whether a block is known.
            "dfs.client.block.write.locateFollowingBlock.initial.delay.ms": "5",
            **self.settings,
        }
        _write_settings(self.conf_dir / "hdfs-site.xml", settings)

    def _state(self) -> dict[str, object]:
        url = f"http://127.0.0.1:{self.http_port}/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState"
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                beans = json.load(answer)["beans"]
        except (OSError, ValueError, urllib.error.URLError):
            return {}
        return dict(beans[0]) if beans else {}

    def _command(self, program: str, *arguments: str) -> list[str]:
        return _java_command([str(self.conf_dir), f"{self._jars}/*"], program, *arguments)

    def _java(self, program: str, log: str) -> subprocess.Popen[bytes]:
        with open(self.folder / log, "ab") as output:
            return subprocess.Popen(
                self._command(program), stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )


def java_program() -> str:
    """The Java of ``JAVA_HOME``, or the one on the path."""
    return str(Path(os.environ["JAVA_HOME"]) / "bin" / "java") if os.environ.get("JAVA_HOME") else "java"


def _java_command(classpath: list[str], program: str, *arguments: str) -> list[str]:
    return [java_program(), *_JAVA_OPTIONS, "-cp", os.pathsep.join(classpath), program, *arguments]


def _formatted(folder: Path) -> Path:
    """Return the folder that a NameNode starts with; made once, since formatting takes as long as starting."""
    kept = folder.with_name(f"{folder.name}-formatted")
    if not kept.is_dir():
        with tempfile.TemporaryDirectory(dir=folder.parent) as made:
            _write_settings(Path(made) / "core-site.xml", {"fs.defaultFS": "hdfs://127.0.0.1:8020"})
            _write_settings(Path(made) / "hdfs-site.xml", {"dfs.namenode.name.dir": f"file://{made}/name"})
            command = _java_command([made, f"{folder}/*"], NAMENODE, "-format", "-force", "-nonInteractive")
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise NoHdfs(f"A NameNode could not be formatted:\n{done.stderr[-2000:]}")
            with contextlib.suppress(OSError):  # another process was quicker
                os.rename(Path(made) / "name", kept)
    return kept


def _write_settings(file: Path, settings: Mapping[str, str]) -> None:
    lines = [f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items()]
    file.write_text("\n".join(["<configuration>", *lines, "</configuration>", ""]))


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nobody listens on; all of them differ."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


def main(arguments: list[str] | None = None) -> int:
    """Starts one, prints its addresses, and stops it at Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m demo.hdfs", description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path, help="where it stores what it is given (a new temporary folder)")
    folder = parser.parse_args(arguments).folder
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ended by whatever: the servers end, too
    with contextlib.ExitStack() as held:
        if folder is None:
            folder = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="hdfs-")))
        else:
            folder.mkdir(parents=True)
        held.enter_context(contextlib.suppress(KeyboardInterrupt))
        try:
            found = Hdfs(folder.resolve())
            held.callback(found.stop)
            began = time.monotonic()
            found.start()
        except NoHdfs as error:
            print(error, file=sys.stderr)
            return 1
        print(f"HDFS is up, after {time.monotonic() - began:.1f} s. Ctrl-C stops it.\n")
        print(f"  a root for airflow_samza   {found.webhdfs}/samza")
        print(f"  for Spark                  {found.hdfs}/")
        print(
            f"  for Hadoop's clients       export HADOOP_CONF_DIR={found.conf_dir} "
            f"HADOOP_USER_NAME={getpass.getuser()}",
            flush=True,
        )
        assert found.namenode is not None
        found.namenode.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Sentences for connections to brokers that fail: who is not let in, what is not trusted, who is not there.

librdkafka tries for ever and reports each failure of a connection; :func:`connection_failure` turns one of its reports
into the error for a person, with the setting to look at. What it does not report is looked at with TLS alone. Questions
to brokers and writers raise by it.
"""

from __future__ import annotations

import re
import socket
import ssl
import struct
from collections.abc import Iterator
from contextlib import suppress

from confluent_kafka import KafkaError

from airflow_samza.errors import ConfigError, SamzaError, StorageUnavailable, TopicError
from airflow_samza.systems.kafka.access import PASSWORD, PROTOCOL, USER, KafkaAccess

_SECONDS = 3.0
_PORT = 9092


def certificate_problem(access: KafkaAccess) -> str:
    """Return why the certificate of a listener is not trusted, as OpenSSL says it."""
    settings = access.settings
    file = settings.get("ssl.ca.location")
    try:
        context = ssl.create_default_context(
            cafile=None if file == "probe" else file, cadata=settings.get("ssl.ca.pem") or None
        )
    except (OSError, ssl.SSLError):
        return "its authority is not known here"
    context.check_hostname = settings.get("ssl.endpoint.identification.algorithm", "https") != "none"
    for host, connection in _connections(access):
        try:
            context.wrap_socket(connection, server_hostname=host).close()
        except ssl.SSLCertVerificationError as error:
            return str(error.verify_message).rstrip(".")
        except OSError:
            continue
    return "its authority is not known here"


def speaks_tls(access: KafkaAccess) -> bool | None:
    """Return whether a listener speaks TLS; None when none can be reached."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # nothing is sent or believed: only whether it answers in TLS counts
    for host, connection in _connections(access):
        try:
            context.wrap_socket(connection, server_hostname=host).close()
        except OSError:
            return False
        return True
    return None


_API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)
"""The request with which a client of Kafka begins, with its length: kind 18, version 0, number 1, no name."""


def speaks_plaintext(access: KafkaAccess) -> bool:
    """Return whether a listener answers a request of Kafka's without TLS."""
    for _, connection in _connections(access):
        with suppress(OSError):
            connection.sendall(_API_VERSIONS)
            answer = connection.recv(8)
            return len(answer) == 8 and struct.unpack(">ii", answer)[1] == 1
    return False


def has_other_protocol(access: KafkaAccess) -> bool:
    """Return whether a listener speaks TLS where the settings say that it does not, or the other way round."""
    return speaks_plaintext(access) if access.protocol.endswith("ssl") else bool(speaks_tls(access))


def _connections(access: KafkaAccess) -> Iterator[tuple[str, socket.socket]]:
    """Yield a connection to each address that can be reached, behind the name of its host."""
    for address in access.addresses.split(","):
        _, _, place = address.strip().rpartition("://")
        host, _, port = place.rpartition(":") if ":" in place.rpartition("]")[2] else (place, "", "")
        host, number = host.strip("[]"), int(port) if port.isdigit() else _PORT
        if host:
            with suppress(OSError), socket.create_connection((host, number), _SECONDS) as connection:
                yield host, connection


LASTING = frozenset({KafkaError._AUTHENTICATION, KafkaError._SSL})
"""Codes of failures that no later try fixes."""

READ, WRITE, CREATE, DELETE = "read", "write", "create", "delete"
TOPIC, GROUP, TRANSACTION = "topic", "group", "transactional-id"
_KINDS = {TOPIC: "topic", GROUP: "consumer group", TRANSACTION: "transactional id"}

_AFTER = re.compile(r" \(after \d+ms in state \w+.*$")
_ADDRESS = re.compile(r"^(?:\w+://)?[^\s/]+/\S+: ")
_MECHANISMS = re.compile(r"broker's supported mechanisms: ([\w,-]+)")
_AWAY = ("connect", "timed out", "resolve")


def rejected_setting(access: KafkaAccess, error: KafkaError) -> ConfigError:
    """Return the error for settings that the client rejects before it asks anybody."""
    reason = access.without_secrets(error.str()).partition(": ")
    shown = reason[2] if reason[0].startswith("Failed to create") else "".join(reason)
    return ConfigError(
        f"The settings of the system {access.system!r} are rejected by Kafka's client: {shown.rstrip('.')}.",
        hint="Names and values are those of librdkafka (CONFIGURATION.md there), not those of Kafka's Java clients.",
        key=f"systems.{access.system}",
        value=access.addresses,
    )


def missing_right(access: KafkaAccess, kind: str, name: str, operation: str, prefix: str | None = None) -> TopicError:
    """Return the error for a right that brokers do not give on a topic, a group or a transactional id.

    ``prefix``: the beginning of all names for which the right is needed, where it is not for this one alone.
    """
    principal = f"User:{access.settings[USER]}" if USER in access.settings else "<principal>"
    same = " Brokers give the same answer if the topic does not exist, and the user may not know."
    hidden = same if kind == TOPIC else ""
    use = {TOPIC: operation, GROUP: "commit offsets of", TRANSACTION: "send messages with"}[kind]
    return TopicError(
        f"The brokers {access.addresses} of the system {access.system!r} do not let {access.identity} {use} the "
        f"{_KINDS[kind]} {name!r}.",
        hint=f"Grant it: kafka-acls --add --allow-principal {principal} --operation {operation.title()} "
        + (f"--{kind} {name}." if prefix is None else f"--resource-pattern-type prefixed --{kind} {prefix}")
        + hidden,
        system=access.system,
        denied=operation,
    )


def connection_failure(access: KafkaAccess, error: KafkaError | None, seconds: float) -> SamzaError:
    """Return the error for brokers that could not be asked; ``error``: the last report, None without one."""
    reason = "" if error is None else _plain(access.without_secrets(error.str()))
    code = None if error is None else error.code()
    if code == KafkaError._AUTHENTICATION:
        return _not_let_in(access, reason)
    if code == KafkaError._SSL or "SSL" in reason:
        return _no_tls(access, reason)
    if code == KafkaError._RESOLVE:
        return _unavailable(access, reason, "Correct the name, or check that this host can resolve it.")
    if code == KafkaError._ALL_BROKERS_DOWN:
        return _closed(access)
    if code is None:
        return _unavailable(
            access,
            f"no answer for {seconds:.0f} s",
            "Check that brokers listen there, and whether a firewall drops what this host sends.",
        )
    return _unavailable(access, reason, "Check that they run, and that this host can reach them.")


def _plain(reason: str) -> str:
    """Return a report without the address before it and the time behind it.

    >>> _plain("sasl_ssl://broker:9093/bootstrap: SASL authentication error: Unknown user (after 0ms in state X)")
    'SASL authentication error: Unknown user'
    """
    return _ADDRESS.sub("", _AFTER.sub("", reason)).rstrip(".")


def _not_let_in(access: KafkaAccess, reason: str) -> SamzaError:
    where = f"The brokers {access.addresses} of the system {access.system!r}"
    if reason.startswith("Failed to acquire"):
        sentence = f"There is no token for the brokers {access.addresses} of the system {access.system!r}: {reason}."
        hint = "Look at sasl.oauthbearer.token.endpoint.url, …client.id and …client.secret, and at who answers there."
        if any(word in reason for word in _AWAY):
            return StorageUnavailable(sentence, hint=hint, system=access.system)
        return TopicError(sentence, hint=hint, system=access.system)
    if mechanisms := _MECHANISMS.search(reason):
        return TopicError(
            f"{where} do not take the mechanism {access.mechanism}.",
            hint=f"Set sasl.mechanism to one that they take: {', '.join(mechanisms[1].split(','))}.",
            system=access.system,
        )
    hint = f"Correct {USER} and {PASSWORD} of the connection; are these the brokers that they are for?"
    if access.mechanism == "OAUTHBEARER":
        hint = "Look at what the token is made from (sasl.oauthbearer.…), and at the brokers' log."
    return TopicError(
        f"{where} do not let {access.identity} in by {access.mechanism}: {reason.partition(': ')[2] or reason}.",
        hint=hint,
        system=access.system,
    )


def _no_tls(access: KafkaAccess, reason: str) -> SamzaError:
    where = f"The brokers {access.addresses} of the system {access.system!r}"
    if "certificate verify failed" in reason:
        problem = certificate_problem(access)
        return TopicError(
            f"{where} show a certificate that is not trusted: {problem}.",
            hint="Name them as their certificate does."
            if "mismatch" in problem
            else "Give the certificate of the authority that signed theirs: ssl.ca.location (a file) or ssl.ca.pem "
            "(its text).",
            system=access.system,
        )
    closed = "closed by peer" in reason
    if "PLAINTEXT" in reason or "wrong version number" in reason or (closed and speaks_plaintext(access)):
        return TopicError(
            f"{where} speak no TLS at this address, and {PROTOCOL} is {access.protocol}.",
            hint=f"Name the address of their listener for TLS, or set {PROTOCOL} to "
            f"{access.protocol.replace('ssl', 'plaintext')}.",
            system=access.system,
        )
    if "alert" in reason:
        alert = reason.partition("alert ")[2].partition(":")[0] or "rejected"
        return TopicError(
            f"{where} do not accept the certificate of the client, or the lack of one: {alert}.",
            hint="Give one that an authority of theirs has signed: ssl.certificate.location and ssl.key.location "
            "(files), ssl.certificate.pem and ssl.key.pem (texts), or ssl.keystore.location.",
            system=access.system,
        )
    if closed:
        return _unavailable(access, reason, "Check that they run, and read their log.")
    return TopicError(
        f"{where} and this client do not agree on TLS: {reason}.",
        hint="Look at the settings ssl.… of the system, and at the brokers' log.",
        system=access.system,
    )


def _closed(access: KafkaAccess) -> SamzaError:
    """Return the error for brokers that closed each connection without a word; those that stop do so, too."""
    with_tls = speaks_tls(access)
    if with_tls and not access.protocol.endswith("ssl"):
        return TopicError(
            f"The brokers {access.addresses} of the system {access.system!r} ask for TLS, and {PROTOCOL} is "
            f"{access.protocol}.",
            hint=f"Set {PROTOCOL} to {'sasl_ssl' if access.protocol.startswith('sasl') else 'ssl, or sasl_ssl'}.",
            system=access.system,
        )
    if with_tls is not None and not access.protocol.startswith("sasl"):
        return _unavailable(
            access,
            f"they close the connection of a client that does not log in ({PROTOCOL} is {access.protocol})",
            f"If they ask for SASL, set {PROTOCOL} to {'sasl_ssl' if with_tls else 'sasl_plaintext'}; else look at "
            "their log.",
        )
    return _unavailable(access, "they close connections without a word", "Look at their log.")


def _unavailable(access: KafkaAccess, reason: str, hint: str) -> StorageUnavailable:
    return StorageUnavailable(
        f"The brokers {access.addresses} of the system {access.system!r} cannot be asked: {reason}.",
        hint=hint,
        system=access.system,
    )

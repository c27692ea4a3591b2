"""Looks at listeners of brokers by TLS alone: for what librdkafka does not report of a connection that failed."""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Iterator

from airflow_samza.systems.kafka.access import KafkaAccess

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
    for host, port in _addresses(access):
        try:
            with socket.create_connection((host, port), _SECONDS) as connection:
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
    for host, port in _addresses(access):
        try:
            connection = socket.create_connection((host, port), _SECONDS)
        except OSError:
            continue
        with connection:
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
    for host, port in _addresses(access):
        try:
            with socket.create_connection((host, port), _SECONDS) as connection:
                connection.sendall(_API_VERSIONS)
                answer = connection.recv(8)
        except OSError:
            continue
        return len(answer) == 8 and struct.unpack(">ii", answer)[1] == 1
    return False


def has_other_protocol(access: KafkaAccess) -> bool:
    """Return whether a listener speaks TLS where the settings say that it does not, or the other way round."""
    return speaks_plaintext(access) if access.protocol.endswith("ssl") else bool(speaks_tls(access))


def _addresses(access: KafkaAccess) -> Iterator[tuple[str, int]]:
    for address in access.addresses.split(","):
        _, _, place = address.strip().rpartition("://")
        host, _, port = place.rpartition(":") if ":" in place.rpartition("]")[2] else (place, "", "")
        if host:
            yield host.strip("[]"), int(port) if port.isdigit() else _PORT

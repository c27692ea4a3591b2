"""Quotas of a real Kafka, set by a request of its own protocol: the client has none for them."""

from __future__ import annotations

import socket
import struct

_ALTER_CLIENT_QUOTAS = 49


def set_quotas(address: str, client_id: str, **bytes_per_second: float) -> None:
    """Bound what clients with an id may do: ``producer_byte_rate``, ``consumer_byte_rate``."""
    entity = struct.pack(">i", 1) + _text("client-id") + _text(client_id)
    changes = struct.pack(">i", len(bytes_per_second)) + b"".join(
        _text(name) + struct.pack(">d?", value, False) for name, value in bytes_per_second.items()
    )
    body = struct.pack(">i", 1) + entity + changes + struct.pack(">?", False)
    header = struct.pack(">hhi", _ALTER_CLIENT_QUOTAS, 0, 1) + _text("tests")
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), 30) as connection:
        connection.sendall(struct.pack(">i", len(header + body)) + header + body)
        answer = _exactly(connection, struct.unpack(">i", _exactly(connection, 4))[0])
    _, _, entries, error = struct.unpack_from(">iiih", answer)
    assert (entries, error) == (1, 0), answer


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _exactly(connection: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        part = connection.recv(count - len(found))
        assert part, "the broker has closed the connection"
        found += part
    return found

"""Messages between a warm runner and those who ask it: JSON with its length before it, over a Unix socket.

Submissions and the command line ask by them; the keeper of a warm runner answers.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Mapping
from typing import Any

SERVE = "serve"
"""Run a run: ``arguments``, ``settings`` and ``environment`` of its stage runner."""
END = "end"
"""End, unless a run is there; with ``now`` also then."""
STATE = "state"
"""Tell how it is."""
LEND = "lend"
"""Lend Spark: of a driver process, to the keeper that serves its run."""

_LENGTH = struct.Struct(">Q")
_MOST_BYTES = 1 << 30


def send(channel: socket.socket, message: Mapping[str, Any]) -> None:
    """Send a message whole."""
    data = json.dumps(message).encode()
    channel.sendall(_LENGTH.pack(len(data)) + data)


def receive(channel: socket.socket) -> dict[str, Any] | None:
    """Return the next message; None when the other side has gone, is silent for too long, or has sent what is none."""
    try:
        head = _exactly(channel, _LENGTH.size)
        if head is None:
            return None
        (length,) = _LENGTH.unpack(head)
        data = _exactly(channel, length) if length < _MOST_BYTES else None
        message = json.loads(data) if data is not None else None
    except (OSError, ValueError):
        return None
    return message if isinstance(message, dict) else None


def _exactly(channel: socket.socket, count: int) -> bytes | None:
    parts: list[bytes] = []
    while count:
        part = channel.recv(min(count, 1 << 20))
        if not part:
            return None
        parts.append(part)
        count -= len(part)
    return b"".join(parts)

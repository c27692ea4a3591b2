"""A proxy before a broker that loses the requests, answers or connections that a test names.

It knows the frames of Kafka's protocol, so a fault can be that of one kind of request: the answer to a commit is lost,
and the commit itself has happened.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType

from typing_extensions import Self

PRODUCE, FETCH, LIST_OFFSETS, METADATA, FIND_COORDINATOR = 0, 1, 2, 3, 10
INIT_PRODUCER_ID, ADD_PARTITIONS, END_TXN = 22, 24, 26
"""Kinds of requests, by their number in Kafka's protocol."""

PASS = ""
DROP_ANSWER = "drop the answer"
"""The request is done; its answer never comes, and the connection stays open."""
CLOSE_AFTER = "close after the request"
"""The request is done; the connection ends instead of its answer."""
CLOSE_BEFORE = "close before the request"
"""The broker never sees the request; the connection ends."""
SILENCE = "silence"
"""The request is done; no byte comes over the connection any more, in either direction, and nobody closes it."""


@dataclass(frozen=True)
class Asked:
    """One request: its kind, and how many of this kind came before."""

    kind: int
    earlier: int


Fault = Callable[[Asked], str]


def first(kind: int, fault: str) -> Fault:
    """The first request of a kind has a fault, all others pass."""
    return lambda asked: fault if (asked.kind, asked.earlier) == (kind, 0) else PASS


class KafkaProxy:
    """A proxy on a port of 127.0.0.1, before the broker on another one; ``fault`` says what happens to a request."""

    def __init__(self, port: int, broker_port: int) -> None:
        self.port = port
        self.fault: Fault = lambda asked: PASS
        self.faults: list[Asked] = []
        self.happened = threading.Event()
        self._broker_port = broker_port
        self._lock = threading.Lock()
        self._counts: dict[int, int] = {}
        self._connections: set[socket.socket] = set()
        self._silent: set[socket.socket] = set()
        self._open = True
        self._listener = socket.create_server(("127.0.0.1", port))

    @property
    def address(self) -> str:
        """``bootstrap.servers`` of the broker behind it."""
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def cut(self) -> None:
        """End all connections that there are; new ones are taken."""
        with self._lock:
            ended, self._connections = self._connections, set()
            self._silent = set()
        for each in ended:
            _end(each)

    def silence(self) -> int:
        """Lose all that comes over the connections that there are, which stay open; new ones are taken.

        Returns how many there are.
        """
        with self._lock:
            self._silent |= self._connections
            return len(self._connections) // 2

    def unplug(self) -> None:
        """End all connections, and each new one at once, until :meth:`plug`."""
        self._open = False
        self.cut()

    def plug(self) -> None:
        """Let connections through again."""
        self._open = True

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if not self._open:
                _end(client)
                continue
            try:
                broker = socket.create_connection(("127.0.0.1", self._broker_port))
            except OSError:  # it is away
                _end(client)
                continue
            with self._lock:
                self._connections |= {client, broker}
            lost: set[int] = set()
            for forward in (self._requests, self._answers):
                threading.Thread(target=self._forwarding, args=[forward, client, broker, lost], daemon=True).start()

    def _forwarding(
        self, forward: Callable[..., None], client: socket.socket, broker: socket.socket, lost: set[int]
    ) -> None:
        with suppress(OSError):
            forward(client, broker, lost)
        with self._lock:
            self._connections -= {client, broker}
            self._silent -= {client, broker}
        _end(client)
        _end(broker)

    def _requests(self, client: socket.socket, broker: socket.socket, lost: set[int]) -> None:
        while (frame := _frame(client)) is not None:
            kind, _, correlation = struct.unpack_from(">hhi", frame, 4)
            fault = self._fault_of(kind)
            if fault == CLOSE_BEFORE:
                return
            if fault in (DROP_ANSWER, CLOSE_AFTER):
                lost.add(correlation if fault == DROP_ANSWER else -correlation - 1)
            if broker not in self._silent:
                broker.sendall(frame)
            if fault == SILENCE:
                with self._lock:
                    self._silent |= {client, broker}

    def _answers(self, client: socket.socket, broker: socket.socket, lost: set[int]) -> None:
        while (frame := _frame(broker)) is not None:
            (correlation,) = struct.unpack_from(">i", frame, 4)
            if -correlation - 1 in lost:
                return
            if correlation not in lost and client not in self._silent:
                client.sendall(frame)

    def _fault_of(self, kind: int) -> str:
        with self._lock:
            asked = Asked(kind, self._counts.get(kind, 0))
            self._counts[kind] = asked.earlier + 1
            fault = self.fault(asked)
            if fault:
                self.faults.append(asked)
                self.happened.set()
        return fault


def _frame(source: socket.socket) -> bytes | None:
    """The next frame with its length; None at the end of a connection."""
    head = _exactly(source, 4)
    if head is None:
        return None
    body = _exactly(source, struct.unpack(">i", head)[0])
    return None if body is None else head + body


def _exactly(source: socket.socket, count: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < count:
        part = source.recv(min(count - len(parts), 1 << 16))
        if not part:
            return None
        parts += part
    return bytes(parts)


def _end(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()

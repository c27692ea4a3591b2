"""Clients that a process keeps warm, by what they were made for: closed before a fork, and never those of a parent.

A client of librdkafka has threads, which a fork does not copy: what the parent made neither works in the child nor can
be closed there. So idle ones are closed before a fork, and parent and child make new ones.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, Protocol, TypeVar

from airflow_samza.systems.kafka.forks import closed_before_forks, released


class WarmClient(Protocol):
    """A client that one at a time uses."""

    def rest(self) -> bool:
        """Put it to rest behind a use; return whether it may be used again."""

    def close(self) -> None:
        """Close its connections."""


Key = TypeVar("Key", bound=Hashable)
Client = TypeVar("Client")
Lent = TypeVar("Lent", bound=WarmClient)


class Pool(Generic[Key, Lent]):
    """Clients that are lent to one at a time."""

    def __init__(self) -> None:
        self.forget()
        closed_before_forks(self)

    def take(self, key: Key, make: Callable[[], Lent]) -> Lent:
        """Return a client that nobody else uses until it is given back, or discarded."""
        with self._lock:
            idle = self._idle.get(key)
            found = idle.pop() if idle else None
        found = found or make()
        with self._lock:
            self._lent[id(found)] = key
        return found

    def give_back(self, client: Lent) -> None:
        """Keep a client for the next one who needs it; what a parent process has lent is left alone."""
        if id(client) not in self._lent:
            return
        if not client.rest():
            self.discard(client)
            return
        with self._lock:
            self._idle.setdefault(self._lent.pop(id(client)), []).append(client)

    def discard(self, client: Lent) -> None:
        """Close a client that has failed; what a parent process has lent is left alone."""
        with self._lock:
            mine = self._lent.pop(id(client), None) is not None
        if mine:
            client.close()

    @contextmanager
    def lent(self, key: Key, make: Callable[[], Lent]) -> Iterator[Lent]:
        """Lend a client; one that failed is discarded."""
        found = self.take(key, make)
        try:
            yield found
        except GeneratorExit:  # whoever read had enough
            self.give_back(found)
            raise
        except BaseException:
            self.discard(found)
            raise
        self.give_back(found)

    def close_idle(self) -> None:
        """Close the clients that nobody uses."""
        with self._lock:
            found = [client for clients in self._idle.values() for client in clients]
            self._idle.clear()
        for client in found:
            client.close()

    def forget(self) -> None:
        """Begin without clients, and with a lock that no other thread can hold: threads are not copied."""
        self._lock = threading.Lock()
        self._idle: dict[Key, list[Lent]] = {}
        self._lent: dict[int, Key] = {}


class Shared(Generic[Key, Client]):
    """Clients that all threads use at the same time."""

    def __init__(self) -> None:
        self.forget()
        closed_before_forks(self)

    def get(self, key: Key, make: Callable[[], Client]) -> Client:
        """Return the process's client."""
        with self._lock:
            found = self._clients.get(key)
        if found is not None:
            return found
        made = make()
        with self._lock:
            kept = self._clients.setdefault(key, made)
        if kept is not made:  # another thread was quicker
            released(made)
        return kept

    def drop(self, key: Key) -> None:
        """Let one client go: who uses it at this moment holds it."""
        with self._lock:
            found = self._clients.pop(key, None)
        if found is not None:
            released(found)

    def close_idle(self) -> None:
        """Let the clients go: who uses one at this moment holds it."""
        with self._lock:
            found: list[Any] = list(self._clients.values())
            self._clients.clear()
        for client in found:
            released(client)

    def forget(self) -> None:
        """Begin without clients, and with a lock that no other thread can hold: threads are not copied."""
        self._lock = threading.Lock()
        self._clients: dict[Key, Client] = {}

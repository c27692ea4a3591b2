"""Clients that a process keeps warm, by what they were made for: closed before a fork, and never those of a parent.

A client of librdkafka has threads, which a fork does not copy: what the parent made neither works in the child nor can
be closed there. So idle ones are closed before a fork, and parent and child make new ones. A child keeps those in use
until it ends: to destroy a client waits for its threads, so a child that did so would hang, at the latest when its
interpreter ends and clears its modules. And a thread of a client may hold a lock at the fork that nobody gives back in
the child: glibc has one in getaddrinfo, behind which no later client would find its brokers. Consumers, producers and
writers of runs' own topics are kept in them.
"""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, Protocol, TypeVar

_alive: dict[int, Any] = {}

Client = TypeVar("Client")


def guarded(client: Client) -> Client:
    """Return the client, which no child of this process destroys; it lives until it is given to :func:`released`."""
    _alive[id(client)] = client
    return client


def released(client: object) -> None:
    """Let a client go that this process has closed."""
    _alive.pop(id(client), None)


class Holder(Protocol):
    """Holder of clients of this process."""

    def close_idle(self) -> None:
        """Close the clients that nobody uses: this process forks."""

    def forget(self) -> None:
        """Leave all clients to the parent: this process is its child."""


_holders = weakref.WeakSet[Holder]()


def closed_before_forks(holder: Holder) -> None:
    """Have the idle clients of a holder closed before each fork, and forgotten by children."""
    _holders.add(holder)


def _close_idle() -> None:
    for holder in list(_holders):
        holder.close_idle()


def _forget_inherited() -> None:
    for holder in list(_holders):
        holder.forget()


def _keep_inherited() -> None:
    """Count a reference to each inherited client that nobody gives back."""
    for client in _alive.values():
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(client))
    _alive.clear()


os.register_at_fork(before=_close_idle, after_in_child=_keep_inherited)
os.register_at_fork(after_in_child=_forget_inherited)


class WarmClient(Protocol):
    """A client that one at a time uses."""

    def rest(self) -> bool:
        """Put it to rest behind a use; return whether it may be used again."""

    def close(self) -> None:
        """Close its connections."""


Key = TypeVar("Key", bound=Hashable)
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
            client = idle.pop() if idle else None
        client = client or make()
        with self._lock:
            self._lent[id(client)] = key
        return client

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
        client = self.take(key, make)
        try:
            yield client
        except GeneratorExit:  # whoever read had enough
            self.give_back(client)
            raise
        except BaseException:
            self.discard(client)
            raise
        self.give_back(client)

    def close_idle(self) -> None:
        """Close the clients that nobody uses."""
        with self._lock:
            idle = [client for clients in self._idle.values() for client in clients]
            self._idle.clear()
        for client in idle:
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
            client = self._clients.get(key)
        if client is not None:
            return client
        new = make()
        with self._lock:
            kept = self._clients.setdefault(key, new)
        if kept is not new:  # another thread was quicker
            released(new)
        return kept

    def drop(self, key: Key) -> None:
        """Let one client go: who uses it at this moment holds it."""
        with self._lock:
            client = self._clients.pop(key, None)
        if client is not None:
            released(client)

    def close_idle(self) -> None:
        """Let the clients go: who uses one at this moment holds it."""
        with self._lock:
            idle: list[Any] = list(self._clients.values())
            self._clients.clear()
        for client in idle:
            released(client)

    def forget(self) -> None:
        """Begin without clients, and with a lock that no other thread can hold: threads are not copied."""
        self._lock = threading.Lock()
        self._clients: dict[Key, Client] = {}

"""Clients of librdkafka around a fork: idle ones are closed before it, and a child keeps those in use until it ends.

A fork copies no threads. To destroy a client waits for its threads, so a child that did so would hang, at the latest
when its interpreter ends and clears its modules. And a thread of a client may hold a lock at that moment that nobody
gives back in the child: glibc has one in getaddrinfo, behind which no later client would find its brokers.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from typing import Any, Protocol, TypeVar

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

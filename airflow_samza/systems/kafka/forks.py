"""Clients of librdkafka behind a fork: a child keeps what it inherits until it ends.

A fork copies no threads, and to destroy a client waits for its threads: a child that did so would hang, at the latest
when its interpreter ends and clears its modules.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any, TypeVar

_alive: dict[int, Any] = {}

Client = TypeVar("Client")


def guarded(client: Client) -> Client:
    """Return the client, which no child of this process destroys; it lives until it is given to :func:`released`."""
    _alive[id(client)] = client
    return client


def released(client: object) -> None:
    """Let a client go that this process has closed."""
    _alive.pop(id(client), None)


def _keep_inherited() -> None:
    """Count a reference to each inherited client that nobody gives back."""
    for client in _alive.values():
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(client))
    _alive.clear()


os.register_at_fork(after_in_child=_keep_inherited)

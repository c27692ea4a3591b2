"""Liveness of processes that wrote a record: by the process id where it can be looked up, and by the last heartbeat.

A process id alone proves nothing: it is used again, and means something else in another container. So the record also
holds the place (host and process namespace) and the moment when the process started. That a process is there proves
little, too: one that is frozen does nothing. Who gives no sign of life for long enough is taken for dead, and what
takes its place is fenced from it.
"""

from __future__ import annotations

import os
import socket
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import psutil

STALE_AFTER_SECONDS = 30.0
"""A heartbeat is written every second, or every few seconds where each costs something.

A busy shared filesystem may hold one up for many seconds, and taking a living runner for dead costs a second run of the
work, so the silence that counts as death is long.
"""

FROZEN_AFTER_SECONDS = 40.0
"""The same for a process that is seen to be there.

It has not died, but does nothing (a SIGSTOP, a share that hangs).
"""

# Two readings of one process's start time may differ by rounding, never by a second.
_SAME_START_SECONDS = 1.0


_NOWHERE = uuid.uuid4().hex
"""The place of processes of which this one can say nothing: not even they are known to be beside it."""


def place() -> str:
    """The host and process namespace in which process ids of this process mean something.

    Containers may have one name and one boot between them, and each has a process 1. So where Linux does not say which
    process namespace this is (a sandbox hides it), no other process is known to share it, and heartbeats decide.
    """
    try:
        namespace = os.readlink("/proc/self/ns/pid")
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
    except OSError:
        namespace, boot = "", _NOWHERE if sys.platform == "linux" else ""
    return f"{socket.gethostname()}/{boot}/{namespace}"


def identity(pid: int | None = None) -> dict[str, Any]:
    """Return the identity of this process, or another, for a record that others will judge by :func:`is_alive`."""
    process = psutil.Process(pid)
    return {"host": socket.gethostname(), "place": place(), "pid": process.pid, "started": process.create_time()}


def process_is_there(who: Mapping[str, Any]) -> bool | None:
    """Return whether the process of a record is there; None where it cannot be looked up from here."""
    if who.get("place") != place():
        return None
    try:
        process = psutil.Process(int(who["pid"]))
        same = abs(process.create_time() - float(who["started"])) < _SAME_START_SECONDS
        return same and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True


def named_by_processes(texts: Sequence[str]) -> set[str]:
    """Return the texts that stand among the arguments of a process of this user that is there."""
    named: set[str] = set()
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.uids().real == os.geteuid():
                words = " ".join(process.cmdline())
                named |= {text for text in texts if text in words}
    return named


def is_alive(who: Mapping[str, Any], heartbeat: float | None, *, now: float | None = None) -> bool:
    """Return whether the process lives: looked up where possible, judged by its last heartbeat (seconds since 1970).

    A process of this host that writes no heartbeats (None) lives as long as it is there.
    """
    exists = process_is_there(who)
    if exists is False or (exists and heartbeat is None):
        return exists
    if heartbeat is None:
        heartbeat = float(who.get("claimed_at", 0.0))
    return (time.time() if now is None else now) - heartbeat < (FROZEN_AFTER_SECONDS if exists else STALE_AFTER_SECONDS)

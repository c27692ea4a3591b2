"""Whether a process that wrote a record still lives: by its id where it can be looked up, else by its heartbeat.

A process id alone proves nothing: it is used again, and means something else in another container. So the record also holds
the place (host and process namespace) and the moment when the process started.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from typing import Any

import psutil

# A heartbeat is written every second; a busy shared filesystem may hold one up for many seconds, and taking a living runner for
# dead costs a second run of the work, so the silence that counts as death is long.
STALE_AFTER_SECONDS = 30.0

# Two readings of one process's start time may differ by rounding, never by a second.
_SAME_START_SECONDS = 1.0


def place() -> str:
    """The host and process namespace in which process ids of this process mean something."""
    try:
        namespace = os.readlink("/proc/self/ns/pid")
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
    except OSError:
        namespace = boot = ""
    return f"{socket.gethostname()}/{boot}/{namespace}"


def identity() -> dict[str, Any]:
    """Who this process is, for a record that others will judge by :func:`is_alive`."""
    process = psutil.Process()
    return {"host": socket.gethostname(), "place": place(), "pid": process.pid, "started": process.create_time()}


def is_alive(who: Mapping[str, Any], heartbeat: float | None, *, now: float | None = None) -> bool:
    """Whether the process lives: looked up where possible, else judged by its last heartbeat (seconds since the epoch)."""
    if who.get("place") == place():
        try:
            process = psutil.Process(int(who["pid"]))
            same = abs(process.create_time() - float(who["started"])) < _SAME_START_SECONDS
            return same and process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False
        except psutil.AccessDenied:
            return True
    if heartbeat is None:
        heartbeat = float(who.get("claimed_at", 0.0))
    return (time.time() if now is None else now) - heartbeat < STALE_AFTER_SECONDS

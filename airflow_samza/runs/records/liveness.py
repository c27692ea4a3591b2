"""Liveness of processes that wrote a record: by the process id where it can be looked up, and by the last heartbeat.

A process id alone proves nothing: it is used again, and means something else in another container. So the record also
holds the place (host and process namespace) and the moment when the process started. That a process is there proves
little, too: one that is frozen does nothing. Who gives no sign of life for long enough is taken for dead, and what
takes its place is fenced from it.

A heartbeat holds the time of its writer's clock, which is all that a first look has. Who looks again sees whether it
has moved, by a clock that does not jump: one that jumps neither kills a runner nor keeps a dead one. And a silence on
this host has to last a moment longer than it takes to be noticed: when the whole machine has slept, the runner wakes
together with whoever judges it.
"""

from __future__ import annotations

import os
import socket
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
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


CONFIRM_SECONDS = 3.0
"""Seconds that a silence on this host has to last after it was first noticed: three heartbeats, which may be longer."""

FRESH_SECONDS = 3.0
"""A heartbeat that was seen to be written this short a while ago is a sign of life now; or two heartbeats ago."""

_MOST = 10_000
"""Of runners that are remembered: a triggerer lives for months."""


@dataclass
class _Seen:
    """The last heartbeat (``at``, its writer's clock), since when it is known here, and whether one was seen before."""

    at: float
    since: float
    has_moved: bool
    silent_since: float | None = None


class Heartbeats:
    """The heartbeats of runners that one process has seen, by the path of their records."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def is_alive(self, path: str, who: Mapping[str, Any], at: float, beat: float = 0.0) -> bool:
        """Return whether the runner ``who`` lives, whose last heartbeat says the time ``at`` (seconds since 1970).

        ``beat`` are the seconds between two heartbeats where they are no second.
        """
        exists = process_is_there(who)
        if exists is False:
            self._seen.pop(path, None)
            return False
        now = time.monotonic()
        seen = self._look(path, at, now)
        limit = STALE_AFTER_SECONDS if exists is None else FROZEN_AFTER_SECONDS
        heard_for = now - seen.since
        if heard_for < limit and (seen.has_moved or time.time() - at < limit):
            seen.silent_since = None
            return True
        if exists is None:
            return False
        if seen.silent_since is None:
            seen.silent_since = now
        return now - seen.silent_since < max(CONFIRM_SECONDS, 3 * beat)

    def is_fresh(self, path: str, who: Mapping[str, Any], at: float, beat: float = 0.0) -> bool:
        """Return whether that heartbeat is a sign of life now: it was seen to move, or this host's clock says so."""
        now = time.monotonic()
        seen = self._look(path, at, now)
        fresh = max(FRESH_SECONDS, 2 * beat)
        if seen.has_moved and now - seen.since < fresh:
            return True
        return bool(process_is_there(who)) and 0 <= time.time() - at < fresh and now - seen.since < fresh

    def silent_for(self, path: str) -> float:
        """Return the seconds since the last heartbeat, as it was last looked at; 0.0: nobody has looked.

        Of one that was not seen to move its writer's clock counts, too.
        """
        seen = self._seen.get(path)
        if seen is None:
            return 0.0
        here = time.monotonic() - seen.since
        return here if seen.has_moved else max(here, time.time() - seen.at)

    def was_heard(self, path: str, seconds: float) -> bool:
        """Return whether a heartbeat was seen to move this short a while ago, so that no look at it is needed."""
        seen = self._seen.get(path)
        return seen is not None and seen.has_moved and time.monotonic() - seen.since < seconds

    def _look(self, path: str, at: float, now: float) -> _Seen:
        seen = self._seen.get(path)
        if seen is None or seen.at != at:
            if len(self._seen) >= _MOST:
                self._seen.clear()
            seen = self._seen[path] = _Seen(at, now, has_moved=seen is not None)
        return seen


SEEN = Heartbeats()
"""Heartbeats that this process has seen."""

"""Heartbeats as this process sees them; a clock that jumps neither kills a runner nor keeps a dead one.

A heartbeat holds the time of its writer's clock, which is all that a first look has. Who looks again sees whether it
has moved, by a clock that does not jump. And a silence on this host has to last a moment longer than it takes to be
noticed: when the whole machine has slept, the runner wakes together with whoever judges it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_samza.runs.records import liveness

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
        exists = liveness.process_is_there(who)
        if exists is False:
            self._seen.pop(path, None)
            return False
        now = time.monotonic()
        seen = self._look(path, at, now)
        limit = liveness.STALE_AFTER_SECONDS if exists is None else liveness.FROZEN_AFTER_SECONDS
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
        return bool(liveness.process_is_there(who)) and 0 <= time.time() - at < fresh and now - seen.since < fresh

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

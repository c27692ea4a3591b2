"""Waiting without a busy loop: short pauses at first, longer ones when nothing comes."""

from __future__ import annotations

import time

from airflow_samza.systems.filesystems.pace import FREE, Looks, Pace

# A look at the folders of a local root costs some tens of microseconds; what comes soon after something else is seen
# soon.
SHORTEST_SECONDS = 0.01
LONGEST_SECONDS = 0.1

LONG_SECONDS = 0.25


class Waiting:
    """Pauses that grow while nothing comes, at the pace of the storage that is looked at."""

    def __init__(self, pace: Pace = FREE) -> None:
        self._looks = Looks(pace)
        self._pause = SHORTEST_SECONDS
        self._looked = time.monotonic()

    @property
    def is_long(self) -> bool:
        """Return whether it is time again to look at what seldom changes; true once per quarter of a second."""
        now = time.monotonic()
        if now - self._looked < self._looks.pause(LONG_SECONDS):
            return False
        self._looked = now
        return True

    def pause(self) -> None:
        """Sleep for a moment."""
        time.sleep(self._looks.pause(self._pause))
        self._pause = min(self._pause * 1.2, LONGEST_SECONDS)

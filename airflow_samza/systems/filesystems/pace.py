"""The pace at which a storage is looked at: a look's cost there decides how often one is fitting (decision 81).

On a disk a look costs microseconds, and every wait has its own short interval. An object store charges each look and
answers in milliseconds: there a wait is as long as the storage says, and grows while nothing happens. This module alone
knows how it grows. Used wherever somebody waits for a storage: by tasks in Airflow, triggers, the launcher and runners.
"""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass(frozen=True)
class Pace:
    """The least and the longest time between two looks, and between two signs of life, in seconds.

    A pause is ``share`` of the time in which nothing has happened, so that whatever happens is seen that much later at
    most; not under ``first`` and not over ``most``. ``beat`` is the time between two signs of life of a process. All
    are 0 where looks cost nothing.
    """

    first: float = 0.0
    most: float = 0.0
    share: float = 0.25
    beat: float = 0.0

    @property
    def is_free(self) -> bool:
        """Return whether looks cost nothing."""
        return self.most == 0.0

    def pause(self, own: float, quiet: float) -> float:
        """Return the seconds until the next look; ``own`` are the caller's, ``quiet`` those without any news."""
        return max(own, min(max(self.first, self.share * quiet), self.most))

    def beats(self, own: float) -> float:
        """Return the seconds between two signs of life; ``own`` are the caller's."""
        return max(own, self.beat)

    def seldom(self, own: float) -> float:
        """Return the seconds between two looks at what hardly ever changes; ``own`` are the caller's."""
        return max(own, self.most)


FREE = Pace()
"""Of a disk, or of a server that is there for its users alone: a look costs nothing."""

CHARGED = Pace(first=1.0, most=10.0, beat=5.0)
"""Of a storage that charges each request."""


class Looks:
    """The pauses of one wait, which grow while nothing happens."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._since = time.monotonic()

    def news(self) -> None:
        """Note that something has happened: the next look comes soon."""
        self._since = time.monotonic()

    def pause(self, own: float) -> float:
        """Return the seconds until the next look; ``own`` are the caller's, on a storage where looks cost nothing."""
        return self._pace.pause(own, time.monotonic() - self._since)

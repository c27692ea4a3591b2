"""Waiting for brokers that are away: a line in the log says what is waited for, until when, and that it came."""

from __future__ import annotations

import logging
import time
from datetime import datetime, timedelta, timezone

log = logging.getLogger("airflow_samza.kafka")

_TOLD_AFTER_SECONDS = 5.0
"""Shorter absences are ordinary: a broker hands its partitions over, a connection is made anew."""


class Waiting:
    """One wait, for at most ``seconds``; ``what`` names what is to come, with the verb: ``Answers of … have``."""

    def __init__(self, what: str, seconds: float) -> None:
        self._what = what
        self._seconds = seconds
        self._since = time.monotonic()
        self._told = False

    @property
    def seconds(self) -> float:
        """The seconds since it began."""
        return time.monotonic() - self._since

    @property
    def is_over(self) -> bool:
        """Return whether nobody waits any longer."""
        return self.seconds > self._seconds

    def still(self, why: str) -> None:
        """Note that it has not come; ``why`` is the newest cause that is known."""
        left = self._seconds - self.seconds
        if self._told or self.seconds < min(_TOLD_AFTER_SECONDS, self._seconds / 2):
            return
        self._told = True
        until = datetime.now(timezone.utc) + timedelta(seconds=left)
        log.warning(
            "%s not come for %.0f s (%s): waiting until %s UTC, then this try fails",
            self._what,
            self.seconds,
            why,
            f"{until:%H:%M:%S}",
        )

    def over(self) -> None:
        """Note that it has come."""
        if self._told:
            log.warning("%s come, after %.0f s", self._what, self.seconds)

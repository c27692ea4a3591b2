"""Failures that pass by themselves: the first is logged, then one a minute, and their end."""

from __future__ import annotations

import logging
import time

LOG_SECONDS = 60.0


class RepeatedFailures:
    """The failures of one thing that is tried again and again.

    The log may lie on the very disk that is full, so little is logged.
    """

    def __init__(self, log: logging.Logger, doing: str) -> None:
        self._log = log
        self._doing = doing
        self._count = 0
        self._began = self._said = 0.0

    def met(self, error: BaseException) -> None:
        """Note a failure."""
        now = time.monotonic()
        if not self._count:
            self._began = now
        self._count += 1
        if self._count == 1 or now - self._said >= LOG_SECONDS:
            self._said = now
            self._log.warning("%s failed, and is tried again (%d times so far): %s", self._doing, self._count, error)

    def over(self) -> None:
        """Note that it works, and log that if it did not before."""
        if self._count:
            self._log.info("%s works again, after %.0f s and %d failures", self._doing, self.seconds, self._count)
        self._count = 0

    @property
    def seconds(self) -> float:
        """For how long it has failed; 0.0: it works."""
        return time.monotonic() - self._began if self._count else 0.0

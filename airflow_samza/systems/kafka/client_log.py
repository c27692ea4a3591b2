"""The log of librdkafka: lines that differ in numbers only come once a minute.

A client that finds no broker writes several lines a second for as long as that lasts.
"""

from __future__ import annotations

import logging
import re
import time

SECONDS = 60.0
"""Time between two lines that differ in numbers only."""

_MOST_KNOWN = 1000


class Sparing(logging.Filter):
    """Filter that passes a line, and those like it once a minute."""

    def __init__(self) -> None:
        super().__init__()
        self._passed: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether no such line has come for a minute."""
        line, now = re.sub(r"\d+", "", record.getMessage()), time.monotonic()
        if now - self._passed.get(line, now - SECONDS) < SECONDS:
            return False
        if len(self._passed) >= _MOST_KNOWN:
            self._passed.clear()
        self._passed[line] = now
        return True


CLIENT_LOG = logging.getLogger("airflow_samza.kafka.client")
"""The logger for clients of librdkafka."""

CLIENT_LOG.addFilter(Sparing())

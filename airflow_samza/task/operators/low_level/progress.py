"""The progress of a low-level task in time, and the times for which it waits.

Timers, the watermark, the next call of ``window``.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from airflow_samza.control.watermarks import END_OF_TIME
from airflow_samza.task.operators.low_level.context import Context

_TIMERS, _TIMES = "timers", "times"
_WATERMARK, _WINDOW = "watermark", "window"


class TaskProgress:
    """A task's place in event time and processing time. ``window_ms`` None: ``window`` is never called."""

    def __init__(self, context: Context) -> None:
        self.window_ms: int | None = None
        self._context = context
        self._next_window = END_OF_TIME

    def begin(self) -> None:
        """Begin: without a former epoch, ``window`` is due a period from now."""
        if self.window_ms is not None and self._next_window == END_OF_TIME:
            self._next_window = self._context.now_ms() + self.window_ms

    @property
    def waits_for_time(self) -> bool:
        """Return whether a processing timer or ``window`` waits, or an event timer is due that a stop has put off."""
        timers = self._context.timers
        return min(timers.processing, self._next_window) < END_OF_TIME or timers.event <= self._context.watermark_ms

    def is_due(self) -> bool:
        """Return whether a timer or ``window`` is due. Looks at the clock only when something waits for it."""
        timers = self._context.timers
        if timers.event <= self._context.watermark_ms:
            return True
        following = min(timers.processing, self._next_window)
        return following < END_OF_TIME and following <= self._context.now_ms()

    def window_is_due(self) -> bool:
        """Return whether ``window`` is due; the next call is then due a period from now, however many were missed."""
        now = self._context.now_ms()
        if self.window_ms is None or now < self._next_window:
            return False
        self._next_window = now + self.window_ms
        return True

    def snapshot(self) -> dict[str, pa.Table]:
        """Timers, and the times that decide what is due; nothing for a task that has neither timers nor ``window``."""
        times = {}
        if self._context.timers.listener and self._context.watermark_ms >= 0:
            times[_WATERMARK] = self._context.watermark_ms
        if self.window_ms is not None and self._next_window < END_OF_TIME:
            times[_WINDOW] = self._next_window
        columns = {"name": pa.array(list(times), pa.string()), "ms": pa.array(list(times.values()), pa.int64())}
        return {_TIMERS: self._context.timers.snapshot(), _TIMES: pa.table(columns)}

    def restore(self, tables: Mapping[str, pa.Table]) -> None:
        """Takes over what :meth:`snapshot` gave."""
        if _TIMERS in tables:
            self._context.timers.restore(tables[_TIMERS])
        if _TIMES in tables:
            times = {row["name"]: row["ms"] for row in tables[_TIMES].to_pylist()}
            self._context.watermark_ms = times.get(_WATERMARK, self._context.watermark_ms)
            self._next_window = times.get(_WINDOW, self._next_window)

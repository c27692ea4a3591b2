"""A task's timers: which are set, which are due, and how they are kept from epoch to epoch (decision 27)."""

from __future__ import annotations

import heapq
import json
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pyarrow as pa

from airflow_samza.application.rejections import reject
from airflow_samza.control.watermarks import END_OF_TIME, NONE_YET
from airflow_samza.errors import StageError
from airflow_samza.quoting import quoted
from airflow_samza.task.messages.event_times import to_ms

EVENT, PROCESSING = "event", "processing"

_SCHEMA = pa.schema([pa.field("kind", pa.string()), pa.field("key", pa.string()), pa.field("time", pa.int64())])

_MOST = 1_000_000
"""Limit of how often one key's timer fires at one time, or at the input's end; a week of seconds is less."""


class TaskTimers:
    """The timers of one task (``Timers``).

    ``event`` and ``processing`` are the times of the next ones, END_OF_TIME for none. ``any``: whether there is one.
    ``listener``: whether the task has ``on_timer``.
    """

    def __init__(self) -> None:
        self.listener = True
        self.any = False
        self.event = END_OF_TIME
        self.processing = END_OF_TIME
        self.ending = False
        self._times: dict[tuple[str, Any], int] = {}
        self._waiting: dict[str, list[tuple[int, Any, Any]]] = {
            EVENT: [],
            PROCESSING: [],
        }  # heaps; what was moved or taken back stays

    def set(self, key: Any, time: int | datetime, *, kind: str = EVENT) -> None:
        """Asks for a call at a time; the same key again moves the timer."""
        self._check_kind(kind, "sets")
        order = _order(key)
        if not self.listener:
            reject(
                "The task sets a timer, and has no method on_timer",
                hint="Define on_timer(self, key, time, collector, coordinator).",
                kind=StageError,
            )
        self._put(kind, key, order, _milliseconds(time))

    def cancel(self, key: Any, *, kind: str = EVENT) -> bool:
        """Takes a timer back; False when there was none."""
        self._check_kind(kind, "cancels")
        _order(key)
        time = self._times.pop((kind, key), None)
        self._look()
        return time is not None

    def due(self, kind: str, until: int) -> Iterator[tuple[Any, int]]:
        """Takes the timers that are due one by one: (key, time), by time and key; also those that are set meanwhile."""
        waiting = self._waiting[kind]
        fired: Counter[Any] = Counter()
        while self._next(kind) <= until:
            time, _, key = heapq.heappop(waiting)
            del self._times[kind, key]
            self._look()
            fired[key] += 1
            if fired[key] > _MOST:
                self._reject_endless(key)
            yield key, time

    def end(self) -> Iterator[tuple[Any, int]]:
        """Takes all event timers: the input has ended for good. Processing timers are dropped."""
        self.ending = True
        self._waiting[PROCESSING].clear()
        self._times = {place: time for place, time in self._times.items() if place[0] == EVENT}
        yield from self.due(EVENT, END_OF_TIME - 1)
        self.ending = False

    def snapshot(self) -> pa.Table:
        """All timers, by kind, time and key."""
        rows = sorted((kind, time, _order(key), json.dumps(key)) for (kind, key), time in self._times.items())
        return pa.Table.from_pylist([{"kind": row[0], "key": row[3], "time": row[1]} for row in rows], schema=_SCHEMA)

    def restore(self, table: pa.Table) -> None:
        """Takes over what :meth:`snapshot` gave."""
        for row in table.to_pylist():
            key = _tuples(json.loads(row["key"]))
            self._put(row["kind"], key, _order(key), row["time"])

    def _reject_endless(self, key: Any) -> None:
        since = (
            "The input has ended, and the timer {} has fired {} times since"
            if self.ending
            else "The timer {} has fired {} times in a row"
        )
        end = (
            "when context.timers.ending is true, or when there is nothing left to wait for"
            if self.ending
            else "for a time that has passed"
        )
        reject(
            f"{since.format(repr(key), _MOST)}, set again each time",
            hint=f"Do not set it again {end}.",
            kind=StageError,
            key=repr(key),
        )

    def _put(self, kind: str, key: Any, order: Any, time: int) -> None:
        self._times[kind, key] = time
        heapq.heappush(self._waiting[kind], (time, order, key))
        self._look()

    def _look(self) -> None:
        self.event, self.processing = self._next(EVENT), self._next(PROCESSING)
        self.any = bool(self._times)

    def _next(self, kind: str) -> int:
        waiting = self._waiting[kind]
        while waiting and self._times.get((kind, waiting[0][2])) != waiting[0][0]:
            heapq.heappop(waiting)
        return waiting[0][0] if waiting else END_OF_TIME

    def _check_kind(self, kind: object, does: str) -> None:
        if kind not in (EVENT, PROCESSING):
            reject(
                f"The task {does} a timer of the kind {kind!r}, which is not known",
                hint='The kinds are "event" (by the watermark) and "processing" (by the clock).',
                kind=StageError,
                value=repr(kind),
            )


def _milliseconds(time: object) -> int:
    naive = isinstance(time, datetime) and time.tzinfo is None
    milliseconds = None if naive else to_ms(time)
    if milliseconds is not None and NONE_YET < milliseconds < END_OF_TIME:
        return milliseconds
    reject(
        f"The task sets a timer for {time!r}, which is {'a time without a zone' if naive else 'no time'}",
        hint="Give ms since 1970 in UTC (from 0), or a datetime with a zone."
        + (" Make it one: time.replace(tzinfo=timezone.utc)." if naive else ""),
        kind=StageError,
        value=repr(time),
    )


def _order(key: object) -> Any:
    """By what keys are sorted: integers before texts before tuples, so that keys of all kinds may be mixed."""
    if isinstance(key, int) and not isinstance(key, bool):
        return (0, key)
    if isinstance(key, str):
        return (1, key)
    if isinstance(key, tuple):
        return (2, tuple(_order(part) for part in key))
    reject(
        f"The key of a timer is {quoted(key, 80)}",
        hint="Use a text, an integer, or a tuple of them: it is kept from epoch to epoch.",
        kind=StageError,
        value=repr(key),
    )


def _tuples(key: Any) -> Any:
    return tuple(_tuples(part) for part in key) if isinstance(key, list) else key

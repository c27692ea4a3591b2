"""Open sessions with aggregations.

Messages that lie no further apart than the gap, and the sessions that they join, become one. As in Spark's
``session_window`` a session is [its first message, its last message + gap), and a message exactly at its end still
belongs to it. A message is late when the session that it would open by itself is closed: so it does not matter what was
read before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from airflow_samza.application.operator_specs import WindowOperatorSpec
from airflow_samza.task.operators.aggregation.accumulators import Accumulator, key_codes, same_key
from airflow_samza.task.operators.aggregation.grouping import Grouping
from airflow_samza.task.operators.aggregation.partial_groups import RAW_ROWS, part_names
from airflow_samza.task.operators.windows.early import EarlyResults, closed_windows
from airflow_samza.task.operators.windows.open_windows import END, START, Results, by_end, with_more

_READ = "read"


class SessionWindows:
    """The open sessions.

    Messages are collected, and become sessions when a result is asked for or many have come.
    """

    def __init__(self, spec: WindowOperatorSpec, accumulators: Sequence[Accumulator]) -> None:
        assert spec.window.gap_ms is not None
        self._spec = spec
        self._gap = spec.window.gap_ms * 1000
        self._grouping = Grouping(spec, accumulators)
        self._names = part_names(len(spec.key), len(self._grouping.parts))
        self._early = EarlyResults(spec.window, self._names[len(spec.key) :]) if spec.window.is_early else None
        self._open: pa.Table | None = None
        self._raw: list[pa.RecordBatch] = []
        self._times: list[Any] = []
        self._rows = 0
        self._read = 0  # messages so far: the place of the next one

    def late(self, times: Any, watermark: int) -> Any:
        """See :class:`.FixedWindows`."""
        return times + self._gap < watermark * 1000  # decision 37

    def add(self, batch: pa.RecordBatch, times: Any, watermark: int, now: int) -> Iterator[Results]:
        """See :class:`.FixedWindows`."""
        self._raw.append(batch.select(self._grouping.columns))
        self._times.append(times)
        self._rows += batch.num_rows
        if self._early is not None:
            self._condense(now)
            yield from self._emitted(self._early.full(self._open), final=False)
        elif self._rows >= max(RAW_ROWS, self._open.num_rows // 4 if self._open is not None else 0):
            self._condense(now)

    def _condense(self, now: int) -> None:
        """Makes sessions of what was collected, together with the open ones."""
        if not self._rows:
            return
        batch = pa.Table.from_batches(self._raw).combine_chunks().to_batches()[0]
        times = np.concatenate(self._times)
        sequence = pa.array(np.arange(self._read, self._read + self._rows))
        self._read += self._rows
        self._raw, self._times, self._rows = [], [], 0
        keys = [same_key(batch.column(name)) for name in self._spec.key]
        starts, ends, former = times, times + self._gap, 0
        if self._open is not None:
            former = self._open.num_rows
            keys = with_more(self._open, self._names[: len(keys)], keys)
            starts = np.concatenate([self._open.column(START).to_numpy(), starts])
            ends = np.concatenate([self._open.column(END).to_numpy(), ends])
        session, starts, ends = joined_intervals(key_codes(keys, len(starts)), starts, ends)
        (new,), parts = self._grouping.keys_and_parts([pa.array(session[former:])], batch, sequence)
        if self._open is not None:
            together = with_more(self._open, self._names[len(keys) :], parts)
            (new,), parts = self._grouping.merged([pa.concat_arrays([pa.array(session[:former]), new])], together)
        numbers = new.to_numpy()  # of every session
        firsts = _firsts(session, len(starts))[numbers]
        columns = [key.take(pa.array(firsts)) for key in keys]
        table = pa.table(
            [*columns, *parts, pa.array(starts[numbers]), pa.array(ends[numbers])], [*self._names, START, END]
        )
        if self._early is not None:
            table = self._early.carried(table, self._open, session, former, now)
        self._open = table

    def close(self, watermark: int | None) -> Iterator[Results]:
        """See :class:`.FixedWindows`."""
        if watermark is not None and not self._may_close(watermark):
            return
        self._condense(0)
        if self._open is None:
            return
        # a message exactly at the end of a session still belongs to it
        ready, self._open = closed_windows(self._open, None if watermark is None else watermark * 1000 - 1)
        if self._early is not None:
            ready = self._early.last(ready)
        yield from self._emitted(ready, final=True)

    def _may_close(self, watermark: int) -> bool:
        least = [int(times.min()) + self._gap for times in self._times if len(times)]
        if self._open is not None:
            least.append(int(self._open.column(END).to_numpy().min()))
        return bool(least) and min(least) < watermark * 1000

    def _emitted(self, ready: pa.Table | None, *, final: bool) -> Iterator[Results]:
        if ready is None or not ready.num_rows:
            return
        table = by_end(ready)
        yield Results(table, self._values(table, final), final)
        if not final and self._early is not None:
            assert self._open is not None
            self._open = self._early.after(self._open, ready)

    def _values(self, sessions: pa.Table, final: bool) -> Mapping[str, Any]:
        """Return the finished columns of sessions."""
        return self._grouping.final(sessions)

    def due(self, now: int) -> Iterator[Results]:
        """See :class:`.FixedWindows`."""
        if self._early is not None and self._open is not None:
            yield from self._emitted(self._early.due(self._open, now), final=False)

    def earliest(self, watermark: int) -> int:
        """See :class:`.FixedWindows`."""
        least = [watermark * 1000 - self._gap, *(int(times.min()) for times in self._times if len(times))]
        if self._open is not None:
            least.append(int(self._open.column(START).to_numpy().min()))
        return min(least)

    def snapshot(self) -> Mapping[str, pa.Table]:
        """See :class:`.FixedWindows`."""
        self._condense(0)
        counted = pa.table({_READ: pa.array([self._read])})
        return {"counted": counted} if self._open is None else {"windows": self._open, "counted": counted}

    def restore(self, tables: Mapping[str, pa.Table]) -> None:
        """See :class:`.FixedWindows`."""
        self._read = tables["counted"].column(_READ)[0].as_py()
        if "windows" in tables:
            self._open = tables["windows"] if self._early is None else self._early.restored(tables["windows"])


def joined_intervals(keys: Any, starts: Any, ends: Any) -> tuple[Any, Any, Any]:
    """Intervals of one key that overlap or touch become one.

    It returns the number of the joined one for each, and starts and ends by that number. Numbers count from 0 in the
    order in which the first of their intervals stand.
    """
    order = np.lexsort((starts, keys))
    key, start, end = keys[order], starts[order], ends[order]
    # The greatest end so far of the same key: ends as ranks, so that key and rank fit into one number whose maximum
    # runs on.
    values, ranks = np.unique(end, return_inverse=True)
    running = np.maximum.accumulate(key * len(values) + ranks)
    reached = values[running % len(values)]
    begins = np.ones(len(order), bool)
    begins[1:] = (key[1:] != key[:-1]) | (start[1:] > reached[:-1])
    number = np.cumsum(begins) - 1
    first_of, last_of = np.flatnonzero(begins), np.append(np.flatnonzero(begins[1:]), len(order) - 1)
    joined = np.empty(len(order), np.int64)
    joined[order] = number
    encoded = pa.array(joined).dictionary_encode()  # numbers them in the order in which they come
    turn = encoded.dictionary.to_numpy()
    return encoded.indices.to_numpy().astype(np.int64), start[first_of][turn], reached[last_of][turn]


def _firsts(numbers: Any, count: int) -> Any:
    """Return the first place of each number."""
    firsts = np.empty(count, np.int64)
    firsts[numbers[::-1]] = np.arange(len(numbers) - 1, -1, -1)
    return firsts

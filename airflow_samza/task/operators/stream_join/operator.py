"""The join of two streams by key within a time to live (an interval join)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_samza.application.operator_specs import StreamJoinSpec
from airflow_samza.control.watermarks import NONE_YET
from airflow_samza.schema import Schema
from airflow_samza.storage.key_index import as_rows
from airflow_samza.task.messages.conform import SchemaConformer, kept_messages
from airflow_samza.task.messages.event_times import micros
from airflow_samza.task.operators.operator import Operator
from airflow_samza.task.operators.stream_join.buffer import (
    BEHIND_ALL,
    Buffer,
    SortedRun,
    candidates,
)
from airflow_samza.task.operators.stream_join.keys import JoinKey, equal_rows
from airflow_samza.task.operators.stream_join.results import Beside, Called
from airflow_samza.task.tables.parts import rows_with_key

WORK = 1 << 16
"""Rows that wait before they are joined, at least.

It is also a quarter of what is buffered, so that each row is sorted few times.
"""

_SIDES = ("left", "right")


class StreamJoin(Operator[StreamJoinSpec]):
    """Messages of two streams with equal keys, whose times differ by at most the ttl.

    Outer joins give also those that never met any. Times are event times where the spec names their columns, else the
    time of arrival. A message waits until the watermark (else the clock) is past its time and the ttl: nothing may come
    any more that would join it. One that is older than the watermark is late: dropped and counted, as by a window. A
    null in the key or the time joins nothing.

    Rows are gathered and joined together (decision 35): when they are many, when event time moves on, and at the end of
    an epoch.
    """

    def __init__(
        self, spec: StreamJoinSpec, left: Schema, right: Schema, output: Schema, clock: Callable[[], int]
    ) -> None:
        super().__init__(spec, left, output)
        self.late = 0
        self._schemas = left, right
        self._clock = clock
        self._times = spec.left_time, spec.right_time
        self._by_event_time = spec.left_time is not None
        self._reach = min(spec.ttl_ms * 1000, 1 << 60)
        self._keys = JoinKey(spec.left_key, left), JoinKey(spec.right_key, right)
        self._exact = self._keys[0].exact
        self._outer = spec.how in ("left", "full"), spec.how in ("right", "full")
        self._buffers = Buffer(), Buffer()
        self._waiting: tuple[list[Any], list[Any]] = ([], [])
        self._waiting_rows = 0
        self._watermark = NONE_YET
        self._results: Beside | Called = (
            Beside(spec, right, output) if spec.function is None else Called(spec, left, right, output)
        )

    def start(self) -> None:
        """Set the handler of pairs on which the function fails."""
        if isinstance(self._results, Called):
            self._results.bad = self.bad

    def metrics(self) -> Mapping[str, float]:
        """Messages that came too late."""
        return {"late_messages": self.late} if self._by_event_time else {}

    # -- messages ------------------------------------------------------------------------------------------------------

    def process_from(self, batch: pa.RecordBatch, side: int) -> Iterator[pa.RecordBatch]:
        """Gather rows, and yield joined ones when enough wait; those without a key or a time come at once."""
        rows, times = self._on_time(batch, side)
        present = rows_with_key([*map(rows.column, self._keys[side].columns), times])
        if present is not None:
            if self._outer[side]:
                yield from self._results.alone(rows.filter(pa.array(~present)), side)
            chosen = pa.array(present)
            rows, times = rows.filter(chosen), times.filter(chosen)
        if rows.num_rows:
            self._waiting[side].append((rows, times))
            self._waiting_rows += rows.num_rows
            if self._waiting_rows >= max(WORK, sum(map(len, self._buffers)) // 4):
                yield from self._work()

    def _on_time(self, batch: pa.RecordBatch, side: int) -> tuple[pa.RecordBatch, pa.Array]:
        """The messages that are not late, and their times in µs."""
        column = self._times[side]
        if column is None:
            return batch, as_rows(np.full(batch.num_rows, self._clock() * 1000))
        times = micros(
            batch.column(column), self._schemas[side][column].type, f"column {column!r} of {self.spec.title}"
        )
        if self._watermark == NONE_YET:
            return batch, times
        on_time = pc.fill_null(pc.greater_equal(times, self._watermark * 1000), True)
        late = batch.num_rows - on_time.true_count
        if late:
            self.late += late
            batch, times = batch.filter(on_time), times.filter(on_time)
        return batch, times

    def _work(self) -> Iterator[pa.RecordBatch]:
        """Joins what waits with what is buffered and with each other, and buffers it."""
        new = [self._run(side) for side in (0, 1)]
        self._waiting, self._waiting_rows = ([], []), 0
        left, right = self._buffers
        if new[0] is not None:
            for former in right.runs:
                yield from self._joined(new[0], former, 0)
        if new[1] is not None:
            for former in left.runs:
                yield from self._joined(new[1], former, 1)
            if new[0] is not None:
                yield from self._joined(new[0], new[1], 0)
        for run, buffer in zip(new, self._buffers, strict=True):
            if run is not None:
                buffer.add(run)

    def _run(self, side: int) -> SortedRun | None:
        waiting = self._waiting[side]
        if not waiting:
            return None
        rows = pa.concat_batches([rows for rows, _ in waiting]) if len(waiting) > 1 else waiting[0][0]
        times = pa.concat_arrays([times for _, times in waiting])
        return self._sorted_run(rows, times.to_numpy(zero_copy_only=False), None, side)

    def _sorted_run(self, rows: pa.RecordBatch, times: Any, matched: Any, side: int) -> SortedRun:
        if matched is None and self._outer[side]:
            matched = np.zeros(rows.num_rows, np.bool_)
        return SortedRun(rows, self._keys[side].numbers(rows), times, matched)

    def _joined(self, asking: SortedRun, other: SortedRun, side: int) -> Iterator[pa.RecordBatch]:
        """The pairs of two runs; ``side`` is that of ``asking``."""
        for mine, theirs in candidates(asking, other, self._reach):
            rows, others = as_rows(mine), as_rows(theirs)
            if not self._exact:
                same = equal_rows(
                    self._keys[side].values(asking.rows, rows), self._keys[1 - side].values(other.rows, others)
                )
                if not same.all():
                    mine, theirs = mine[same], theirs[same]
                    rows, others = as_rows(mine), as_rows(theirs)
            if not len(rows):
                continue
            if asking.matched is not None:
                asking.matched[mine] = True
            if other.matched is not None:
                other.matched[theirs] = True
            if side == 0:
                yield from self._results.pairs(asking.rows, rows, other.rows, others)
            else:
                yield from self._results.pairs(other.rows, others, asking.rows, rows)

    # -- time ----------------------------------------------------------------------------------------------------------

    def on_watermark(self, timestamp: int) -> Iterator[pa.RecordBatch]:
        """Join what waits; drop rows that nothing can join any more, which an outer join emits by themselves."""
        if self._by_event_time and timestamp > self._watermark:
            yield from self._work()
            self._watermark = timestamp
            yield from self._evicted(timestamp * 1000 - self._reach)

    def output_watermark(self, timestamp: int) -> int:
        """Return the watermark less the ttl: no row of a pair, or one that stayed alone, is older."""
        return max(timestamp - self.spec.ttl_ms, NONE_YET) if self._by_event_time else timestamp

    def on_time(self, now: int) -> Iterator[pa.RecordBatch]:
        """Use the clock as the watermark where there is no event time."""
        if not self._by_event_time:
            yield from self._work()
            yield from self._evicted(now * 1000 - self._reach)

    def _evicted(self, bound: int) -> Iterator[pa.RecordBatch]:
        for side, buffer in enumerate(self._buffers):
            for rows in buffer.evict(bound):
                yield from self._results.alone(rows, side)

    def settle(self) -> Iterator[pa.RecordBatch]:
        """Join what waits."""
        yield from self._work()

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Join what waits; an outer join emits what stayed alone."""
        yield from self._work()
        yield from self._evicted(BEHIND_ALL)

    # -- state ---------------------------------------------------------------------------------------------------------

    def snapshot(self) -> Mapping[str, pa.Table]:
        """The buffered rows of both sides with their times and whether they had a partner, and the watermark."""
        assert not self._waiting_rows, "settle comes before snapshot"
        buffered = {
            name: buffer.table(schema.to_arrow())
            for name, buffer, schema in zip(_SIDES, self._buffers, self._schemas, strict=True)
        }
        return {**buffered, "watermark": pa.table({"ms": pa.array([self._watermark], pa.int64())})}

    def restore(self, tables: Mapping[str, pa.Table]) -> None:
        """Takes the rows over."""
        self._watermark = tables["watermark"].column("ms")[0].as_py()
        for side, name in enumerate(_SIDES):
            table = tables[name]
            if not table.num_rows:
                continue
            what = f"what {self.spec.title} kept of its {name} stream"
            rows = kept_messages(table, SchemaConformer(self._schemas[side], what))
            times = table.column("time").combine_chunks().to_numpy(zero_copy_only=False)
            matched = (
                table.column("matched").combine_chunks().to_numpy(zero_copy_only=False).copy()
                if self._outer[side]
                else None
            )
            self._buffers[side].add(self._sorted_run(rows, times, matched, side))

"""Tables of a task: the operator that writes one, and the joins that look messages up in one.

Rows of a join as of event times have times of their own, or its messages wait (rule S7; decision 127).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_samza.application.operator_specs import SendToTableSpec, TableJoinSpec
from airflow_samza.control.watermarks import NONE_YET
from airflow_samza.schema import Schema
from airflow_samza.storage.timed_rows import NEVER
from airflow_samza.task.messages.conform import SchemaConformer
from airflow_samza.task.messages.event_times import micros
from airflow_samza.task.messages.messages import MessageReader, MessageWriter, chunks
from airflow_samza.task.operators.calls import Failures, batch_of_each
from airflow_samza.task.operators.operator import Operator
from airflow_samza.task.tables.store import TableStore
from airflow_samza.task.tables.timed_store import TimedStore


class SendToTable(Operator[SendToTableSpec]):
    """Writes rows into the table, by its key."""

    def __init__(self, spec: SendToTableSpec, inputs: Schema, store: TableStore, clock: Callable[[], int]) -> None:
        super().__init__(spec, inputs, None)
        self._store = store
        self._now = clock
        what = f"what {spec.title} writes to table {spec.table.table_id!r}"
        self._conformer = SchemaConformer(store.schema, what, fills=True)

    def process(self, batch: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
        """Write the rows."""
        rows = self._conformer.conform(batch)
        self._store.write(rows, _row_times(self.spec, self.input, self._store, self._now, batch, _BEFORE_TIME))
        return ()

    def on_watermark(self, timestamp: int) -> Iterable[pa.RecordBatch]:
        """Let the table drop rows whose time to live is over by event time."""
        if self._store.by_event_time:
            self._store.expire(timestamp)
        return ()

    def settle(self) -> Iterable[pa.RecordBatch]:
        """Let the table drop rows whose time to live is over by now."""
        if self._store.ttl_ms is not None and not self._store.by_event_time:
            self._store.expire(self._now())
        return ()


def _row_times(
    spec: SendToTableSpec | TableJoinSpec,
    inputs: Schema,
    store: TableStore,
    now: Callable[[], int],
    batch: pa.RecordBatch,
    missing: int,
) -> Any:
    """Return when rows that messages write begin to live, or have to be alive that they look up (ms).

    That is the messages' time, where all operators of the table have event times, else now; None in a table without a
    time to live. ``missing`` stands for the time of messages that have none.
    """
    if store.ttl_ms is None:
        return None
    if spec.time_column is None or not store.by_event_time:
        return now()
    times = micros(batch.column(spec.time_column), inputs[spec.time_column].type, spec.title)
    moments = np.floor_divide(times.fill_null(0).to_numpy(zero_copy_only=False), 1000)
    if times.null_count:
        moments = np.where(times.is_valid().to_numpy(zero_copy_only=False), moments, missing)
    return moments


_BEFORE_TIME, _BEYOND_TIME = -(1 << 60), 1 << 60
"""The times of a row whose time to live is over at once, and of a lookup that finds no row.

In ms; far from the ends of an int64, so that a ttl can be taken off.
"""


class TableJoin(Operator[TableJoinSpec]):
    """Looks every message up by key; without a function the table's other columns are put beside the message's.

    ``one_by_one``: the table is written by what comes of this join, so each message must see what those before it
    wrote.
    """

    def __init__(
        self,
        spec: TableJoinSpec,
        inputs: Schema,
        output: Schema,
        store: TableStore,
        clock: Callable[[], int],
        *,
        one_by_one: bool = False,
    ) -> None:
        super().__init__(spec, inputs, output)
        self._store = store
        self._now = clock
        self._left = spec.how == "left"
        self._one_by_one = one_by_one
        self._arrow = output.to_arrow()
        self._added = [name for name in store.schema.names if name not in store.key]
        if spec.function is not None:
            self._messages = MessageReader(inputs)
            self._table_rows = MessageReader(store.schema)
            self._writer = MessageWriter(output)

    def process(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The joined messages, in the order in which they came."""
        if self._one_by_one and batch.num_rows > 1:
            for row in range(batch.num_rows):
                yield from self.process(batch.slice(row, 1))
            return
        for part in [batch] if self.spec.function is None else chunks(batch):
            messages, places = self._with_rows(part)
            if not messages.num_rows:
                continue
            joined = (
                self._beside(messages, places)
                if self.spec.function is None
                else self._called(self.spec.function, messages, places)
            )
            if joined is not None:
                yield joined

    def _with_rows(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Any]:
        """Return the messages that are joined, and the table row of each (-1: none)."""
        keys = [batch.column(name) for name in self.spec.key]
        if self.spec.as_of is not None:
            places = self._store.find_as_of(keys, self._moments(batch))
        else:
            alive_at = _row_times(self.spec, self.input, self._store, self._now, batch, _BEYOND_TIME)
            places = self._store.find(keys, alive_at)
        if self._left:
            return batch, places
        hit = places >= 0
        return (batch, places) if hit.all() else (batch.filter(pa.array(hit)), places[hit])

    def _moments(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the event times as of which messages are looked up (µs)."""
        column = self.spec.time_column
        assert column is not None
        return micros(batch.column(column), self.input[column].type, self.spec.title)

    def _beside(self, batch: pa.RecordBatch, places: Any) -> pa.RecordBatch:
        columns = [*batch.columns, *self._store.take(places, self._added)]
        return pa.RecordBatch.from_arrays(columns, schema=self._arrow)

    def _called(self, function: Callable[..., Any], batch: pa.RecordBatch, places: Any) -> pa.RecordBatch | None:
        messages = self._messages.read(batch)
        hits = places >= 0
        distinct, which = np.unique(places[hits], return_inverse=True)
        objects = self._table_rows.read(self._store.batch(distinct)) if len(distinct) else []
        rows: list[Any] = [None] * len(messages)
        for at, number in zip(np.flatnonzero(hits).tolist(), which.tolist(), strict=True):
            rows[at] = objects[number]
        failures = Failures(self.bad)
        joined = batch_of_each(self.spec, function, self._writer, messages, failures, arguments=(messages, rows))
        failures.reject(batch, None)
        return joined


_WAITING, _REACHED, _WATERMARK = "waiting", "reached", "watermark"


class TemporalJoin(TableJoin):
    """Looks each message up when the watermark is ``wait`` behind its event time, in the order of these times.

    Late messages are looked up at once; one that is older than the watermark less ``retain`` finds no row, and is
    counted in ``late``. ``waits`` is False where no input is unbounded: all rows are there before the first message.
    """

    def __init__(
        self,
        spec: TableJoinSpec,
        inputs: Schema,
        output: Schema,
        store: TableStore,
        clock: Callable[[], int],
        *,
        waits: bool,
    ) -> None:
        super().__init__(spec, inputs, output, store, clock)
        self.late = 0
        self._wait_ms = spec.wait_ms if waits else None
        self._retain_ms = spec.table.retain_ms
        self._watermark = NONE_YET
        self._waiting: list[pa.RecordBatch] = []
        self._settling = False
        self._keep_from(NEVER)

    def metrics(self) -> Mapping[str, float]:
        """Return the count of messages that came when the rows of their time were kept no longer."""
        return {"late_messages": self.late} if self._retain_ms is not None else {}

    def process(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Let messages wait; look up those that need not."""
        if self._wait_ms is not None:
            batch = self._kept_waiting(batch)
        if batch.num_rows:
            yield from super().process(batch)

    def on_watermark(self, timestamp: int) -> Iterator[pa.RecordBatch]:
        """Look up the messages that have waited long enough."""
        self._watermark = timestamp
        if self._wait_ms is not None:
            yield from self._settled(timestamp - self._wait_ms)

    def output_watermark(self, timestamp: int) -> int:
        """Return the watermark less the time that messages wait."""
        return timestamp if self._wait_ms is None else max(timestamp - self._wait_ms, NONE_YET)

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Look up all that wait."""
        yield from self._settled(None)

    def snapshot(self) -> Mapping[str, pa.Table]:
        """The messages that wait, and the watermark."""
        tables = {_REACHED: pa.table({_WATERMARK: pa.array([self._watermark], pa.int64())})}
        if self._waiting:
            tables[_WAITING] = pa.Table.from_batches(self._waiting)
        return tables

    def restore(self, tables: Mapping[str, pa.Table]) -> None:
        """Take both over; what no message looks up any more is left out from then on."""
        self._watermark = tables[_REACHED].column(_WATERMARK)[0].as_py()
        if _WAITING in tables:
            conformer = SchemaConformer(self.input, f"what {self.spec.title} kept")
            self._waiting = [conformer.conform(batch) for batch in tables[_WAITING].to_batches() if batch.num_rows]
        if self._watermark != NONE_YET and self._retain_ms is not None:
            # By what was committed only: another attempt may begin here again, with the same rows in memory.
            self._keep_from((self._watermark - self._retain_ms) * 1000)

    def _keep_from(self, time: int) -> None:
        if isinstance(self._store, TimedStore):
            self._store.keep_from({self.spec.op_id: time})

    def _moments(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the event times, without those of which rows are kept no longer (µs)."""
        times = super()._moments(batch)
        if self._settling or self._retain_ms is None or self._watermark == NONE_YET:
            return times
        old = pc.less(times, (self._watermark - self._retain_ms) * 1000).fill_null(False)
        self.late += pc.sum(old).as_py() or 0
        return pc.if_else(old, pa.scalar(None, times.type), times)

    def _event_times(self, batch: pa.RecordBatch) -> tuple[Any, Any]:
        """Return the event times (µs), and where there are any."""
        times = super()._moments(batch)
        return times.fill_null(0).to_numpy(zero_copy_only=False), times.is_valid().to_numpy(zero_copy_only=False)

    def _kept_waiting(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the messages that need not wait."""
        assert self._wait_ms is not None
        times, has_time = self._event_times(batch)
        waits = has_time
        if self._watermark != NONE_YET:
            waits = has_time & (times > (self._watermark - self._wait_ms) * 1000)
        if waits.any():
            self._waiting.append(batch if waits.all() else batch.filter(pa.array(waits)))
        return batch.filter(pa.array(~waits))

    def _settled(self, until: int | None) -> Iterator[pa.RecordBatch]:
        """Look up the messages up to a time (ms; None: all), in the order of their times."""
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        batch = pa.concat_batches(waiting)
        times, _ = self._event_times(batch)
        past = np.ones(len(times), bool) if until is None else times <= until * 1000
        if not past.all():
            self._waiting = [batch.filter(pa.array(~past))]
        which = np.flatnonzero(past)
        if len(which):
            self._settling = True  # they came in time
            yield from super().process(batch.take(pa.array(which[np.argsort(times[which], kind="stable")])))
            self._settling = False

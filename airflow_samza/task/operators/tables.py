"""Tables of a task: the operator that writes one, and the join that looks messages up in one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from airflow_samza.application.operator_specs import SendToTableSpec, TableJoinSpec
from airflow_samza.schema import Schema
from airflow_samza.task.messages.conform import SchemaConformer, with_missing
from airflow_samza.task.messages.event_times import micros
from airflow_samza.task.messages.messages import MessageReader, MessageWriter, chunks
from airflow_samza.task.operators.calls import Failures, call_each, write_each
from airflow_samza.task.operators.operator import Operator
from airflow_samza.task.tables.store import TableStore


class SendToTable(Operator[SendToTableSpec]):
    """Writes rows into the table, by its key."""

    def __init__(self, spec: SendToTableSpec, inputs: Schema, store: TableStore, clock: Callable[[], int]) -> None:
        super().__init__(spec, inputs, None)
        self._store = store
        self._times = RowTimes(spec, inputs, store, clock)
        self._conformer = SchemaConformer(store.schema, f"what {spec.title} writes to table {spec.table.table_id!r}")

    def process(self, batch: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
        """Write the rows."""
        self._store.write(self._conformer.conform(with_missing(batch, self._store.schema)), self._times.written(batch))
        return ()

    def on_watermark(self, timestamp: int) -> Iterable[pa.RecordBatch]:
        """Let the table drop rows whose time to live is over by event time."""
        if self._store.by_event_time:
            self._store.expire(timestamp)
        return ()

    def settle(self) -> Iterable[pa.RecordBatch]:
        """Let the table drop rows whose time to live is over by now."""
        if self._store.ttl_ms is not None and not self._store.by_event_time:
            self._store.expire(self._times.now())
        return ()


class RowTimes:
    """The times of rows of a table with a time to live.

    They are those of the messages, where all operators of the table have event times, else now.
    """

    def __init__(
        self, spec: SendToTableSpec | TableJoinSpec, inputs: Schema, store: TableStore, now: Callable[[], int]
    ) -> None:
        self.now = now
        self._spec = spec
        self._inputs = inputs
        self._store = store

    def written(self, batch: pa.RecordBatch) -> Any:
        """Return when the time to live of rows that messages write begins (ms).

        Where a message has no time, it is over at once.
        """
        return self._of(batch, _BEFORE_TIME)

    def alive_at(self, batch: pa.RecordBatch) -> Any:
        """Return when the rows that messages look up have to be alive (ms); a message without a time finds none."""
        return self._of(batch, _BEYOND_TIME)

    def _of(self, batch: pa.RecordBatch, missing: int) -> Any:
        if self._store.ttl_ms is None:
            return None
        column = self._spec.time_column
        if column is None or not self._store.by_event_time:
            return self.now()
        times = micros(batch.column(column), self._inputs[column].type, self._spec.title)
        moments = np.floor_divide(times.fill_null(0).to_numpy(zero_copy_only=False), 1000)
        if times.null_count:
            moments = np.where(times.is_valid().to_numpy(zero_copy_only=False), moments, missing)
        return moments


_BEFORE_TIME, _BEYOND_TIME = -(1 << 60), 1 << 60
"""In ms; far from the ends of an int64, so that a ttl can be taken off."""


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
        self._times = RowTimes(spec, inputs, store, clock)
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
        if self.spec.function is None:
            yield from self._beside(batch)
        else:
            for part in chunks(batch):
                yield from self._called(part)

    def _with_rows(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Any]:
        """Return the messages that are joined, and the table row of each (-1: none)."""
        keys = [batch.column(name) for name in self.spec.key]
        if self.spec.as_of is not None:
            places = self._store.find_as_of(keys, self._moments(batch))
        else:
            places = self._store.find(keys, self._times.alive_at(batch))
        if self._left:
            return batch, places
        hit = places >= 0
        return (batch, places) if hit.all() else (batch.filter(pa.array(hit)), places[hit])

    def _moments(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the event times as of which messages are looked up (µs)."""
        column = self.spec.time_column
        assert column is not None
        return micros(batch.column(column), self.input[column].type, self.spec.title)

    def _beside(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        batch, places = self._with_rows(batch)
        if not batch.num_rows:
            return
        columns = [*batch.columns, *self._store.take(places, self._added)]
        yield pa.RecordBatch.from_arrays(columns, schema=self._arrow)

    def _called(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        batch, places = self._with_rows(batch)
        if not batch.num_rows:
            return
        messages = self._messages.read(batch)
        hits = places >= 0
        distinct, which = np.unique(places[hits], return_inverse=True)
        objects = self._table_rows.read(self._store.batch(distinct)) if len(distinct) else []
        rows: list[Any] = [None] * len(messages)
        for at, number in zip(np.flatnonzero(hits).tolist(), which.tolist(), strict=True):
            rows[at] = objects[number]
        function = self.spec.function
        assert function is not None
        failures = Failures(self.bad)
        results = call_each(self.spec, function, messages, failures, arguments=(messages, rows))
        joined = write_each(self.spec, function, self._writer, results, messages, failures)
        failures.reject(batch, None)
        if joined is not None:
            yield joined

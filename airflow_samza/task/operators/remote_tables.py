"""Operators over remote tables: the join that looks messages up in one, and the end that writes one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from airflow_samza.application.operator_specs import SendToTableSpec, TableJoinSpec
from airflow_samza.schema import Schema
from airflow_samza.task.messages.bad_records import rows_at
from airflow_samza.task.messages.conform import SchemaConformer
from airflow_samza.task.messages.messages import MessageReader, MessageWriter, chunks
from airflow_samza.task.operators.calls import Failures, batch_of_each, chunks_of
from airflow_samza.task.operators.operator import Operator
from airflow_samza.task.tables.remote_table import RemoteTable, keys_of


class RemoteTableJoin(Operator[TableJoinSpec]):
    """Looks every message up by key, each distinct key of a batch once.

    Without a function the row's columns are put beside the message's. ``one_by_one``: the table is written by what
    comes of this join, so each message must see what those before it wrote.
    """

    def __init__(
        self, spec: TableJoinSpec, inputs: Schema, output: Schema, table: RemoteTable, *, one_by_one: bool = False
    ) -> None:
        super().__init__(spec, inputs, output)
        self._table = table
        self._one_by_one = one_by_one
        self._arrow = output.to_arrow()
        self._messages = MessageReader(inputs)
        self._writer = MessageWriter(output)
        schema = table.table.schema
        if spec.function is None and schema is not None:
            self._rows = MessageWriter(schema)
            self._added = [name for name in schema.names if name not in table.table.key]

    def process(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The joined messages, in the order in which they came."""
        if self.bad is not None:
            self.bad.begin(batch)
        step = 1 if self._one_by_one else max(batch.num_rows, 1)
        for first in range(0, batch.num_rows, step):
            part = batch.slice(first, step)
            keys = keys_of(part, self.input, self.spec.key)
            table_rows = self._table.find(keys, tolerant=self.bad is not None)
            start = 0
            for chunk in chunks(part):
                rows = [table_rows[key] for key in keys[start : start + chunk.num_rows]]
                yield from self._joined(chunk, rows, first + start)
                start += chunk.num_rows

    def _joined(self, batch: pa.RecordBatch, rows: list[Any], first: int) -> Iterator[pa.RecordBatch]:
        unread = Failures(self.bad)
        for place, row in enumerate(rows):
            if isinstance(row, BaseException):
                unread.add(place, row)
        places = [
            place
            for place, row in enumerate(rows)
            if not isinstance(row, BaseException) and (row is not None or self.spec.how == "left")
        ]
        taken = batch if len(places) == batch.num_rows else rows_at(batch, places)
        present = [rows[place] for place in places]
        failures = Failures(self.bad)
        joined: pa.RecordBatch | None = None
        if places and self.spec.function is None:
            joined = self._beside(taken, present)
        elif places and self.spec.function is not None:
            joined = self._called(self.spec.function, taken, present, failures)
        for place, error in failures.failed:
            unread.add(places[place], error)
        unread.reject(batch, first)
        if joined is not None:
            yield joined

    def _beside(self, batch: pa.RecordBatch, rows: list[Any]) -> pa.RecordBatch:
        is_found = np.array([row is not None for row in rows], bool)
        table = self._rows.write([row for row in rows if row is not None])
        places = pa.array(np.cumsum(is_found) - 1, pa.int64(), mask=~is_found)
        columns = [*batch.columns, *(table.column(name).take(places) for name in self._added)]
        return pa.RecordBatch.from_arrays(columns, schema=self._arrow)

    def _called(
        self, function: Callable[..., Any], batch: pa.RecordBatch, rows: list[Any], failures: Failures
    ) -> pa.RecordBatch | None:
        messages = self._messages.read(batch)
        copies = map(self._table.own_copy, rows)
        return batch_of_each(self.spec, function, self._writer, messages, failures, arguments=(messages, copies))


class SendToRemoteTable(Operator[SendToTableSpec]):
    """Writes every message to the table, in order, before the epoch commits.

    It writes at least once, as an epoch that is run again writes again. A message of which everything beside the key is
    null deletes the key's row: the writer gets None.
    """

    def __init__(self, spec: SendToTableSpec, inputs: Schema, table: RemoteTable) -> None:
        super().__init__(spec, inputs, None)
        self._table = table
        self._schema = table.table.schema or inputs
        what = f"what {spec.title} writes to table {table.table.table_id!r}"
        self._conformer = SchemaConformer(self._schema, what, fills=True)
        self._reader = MessageReader(self._schema)
        self._values = [name for name in self._schema.names if name not in table.table.key]

    def process(self, batch: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
        """Write the messages."""
        rows = self._conformer.conform(batch)
        for first, chunk in chunks_of(rows, self.bad):
            nulls = [chunk.column(name).is_null().to_numpy(zero_copy_only=False) for name in self._values]
            deletes = np.logical_and.reduce(nulls).tolist() if nulls else [False] * chunk.num_rows
            messages: list[Any] = self._reader.read(chunk)
            entries = [
                (key, None if is_deleted else message)
                for key, message, is_deleted in zip(
                    keys_of(chunk, self._schema, self._table.table.key), messages, deletes, strict=True
                )
            ]
            failures = Failures(self.bad)
            for place, error in sorted(self._table.write(entries, tolerant=self.bad is not None).items()):
                failures.add(place, error)
            failures.reject(batch.slice(first, chunk.num_rows), first)
        return ()

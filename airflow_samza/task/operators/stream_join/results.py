"""The results of a stream join.

They are the columns of both sides put together, or what the user's function makes of both messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from airflow_samza.application.operator_specs import StreamJoinSpec
from airflow_samza.schema import Schema
from airflow_samza.task.messages.bad_records import BadRecords
from airflow_samza.task.messages.messages import CHUNK, MessageReader, MessageWriter
from airflow_samza.task.operators.calls import Failures, batch_of_each


class Beside:
    """The left columns, then the right ones without the right key.

    The key columns hold the key of whichever side is there.
    """

    def __init__(self, spec: StreamJoinSpec, right: Schema, output: Schema) -> None:
        self._arrow = output.to_arrow()
        self._added = [name for name in right.names if name not in spec.right_key]
        self._key_of = dict(zip(spec.left_key, spec.right_key, strict=True))

    def pairs(
        self, left: pa.RecordBatch, left_rows: pa.Array, right: pa.RecordBatch, right_rows: pa.Array
    ) -> Iterator[pa.RecordBatch]:
        """Return both sides' columns of pairs, given as row numbers."""
        columns = [*left.take(left_rows).columns, *right.select(self._added).take(right_rows).columns]
        yield self._batch(columns)

    def alone(self, rows: pa.RecordBatch, side: int) -> Iterator[pa.RecordBatch]:
        """Return the columns of messages of one side (0: left) that have no partner, nulls beside them."""
        count = rows.num_rows
        if side == 0:
            yield self._batch([*rows.columns, *(pa.nulls(count, self._arrow.field(name).type) for name in self._added)])
            return
        columns = [
            rows.column(self._key_of[field.name]) if field.name in self._key_of else pa.nulls(count, field.type)
            for field in list(self._arrow)[: len(self._arrow) - len(self._added)]
        ]
        yield self._batch([*columns, *(rows.column(name) for name in self._added)])

    def _batch(self, columns: list[pa.Array]) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(columns, self._arrow.names).cast(self._arrow)


class _Both:
    """Both messages, for an error."""

    def __init__(self, left: object, right: object) -> None:
        self._sides = left, right

    def __repr__(self) -> str:
        return f"{self._sides[0]!r} with {self._sides[1]!r}"


class _Pairs(Sequence[Any]):
    """The messages of both sides in pairs, for errors."""

    def __init__(self, left: list[Any], right: list[Any]) -> None:
        self._sides = left, right

    def __len__(self) -> int:
        return len(self._sides[0])

    def __getitem__(self, place: Any) -> Any:
        return _Both(self._sides[0][place], self._sides[1][place])


class Called:
    """Results of the user's function, called once for each pair and each message without a partner."""

    def __init__(self, spec: StreamJoinSpec, left: Schema, right: Schema, output: Schema) -> None:
        assert spec.function is not None
        self.bad: BadRecords | None = None
        self._spec = spec
        self._function = spec.function
        self._readers = MessageReader(left), MessageReader(right)
        self._writer = MessageWriter(output)

    def pairs(
        self, left: pa.RecordBatch, left_rows: pa.Array, right: pa.RecordBatch, right_rows: pa.Array
    ) -> Iterator[pa.RecordBatch]:
        """The function's results, in batches."""
        for start in range(0, len(left_rows), CHUNK):
            yield from self._results(
                left.take(left_rows.slice(start, CHUNK)), right.take(right_rows.slice(start, CHUNK))
            )

    def alone(self, rows: pa.RecordBatch, side: int) -> Iterator[pa.RecordBatch]:
        """The function's results with None for the other side."""
        for start in range(0, rows.num_rows, CHUNK):
            part = rows.slice(start, CHUNK)
            yield from self._results(part, None) if side == 0 else self._results(None, part)

    def _results(self, left: pa.RecordBatch | None, right: pa.RecordBatch | None) -> Iterator[pa.RecordBatch]:
        present = left if left is not None else right
        assert present is not None
        sides: list[list[Any]] = [
            [None] * present.num_rows if batch is None else reader.read(batch)
            for reader, batch in zip(self._readers, (left, right), strict=True)
        ]
        pairs, failures = _Pairs(*sides), Failures(self.bad)
        joined = batch_of_each(self._spec, self._function, self._writer, pairs, failures, arguments=sides)
        for place, error in failures.in_order():
            assert self.bad is not None
            rows = {
                name: None if batch is None else batch.slice(place, 1)
                for name, batch in (("left", left), ("right", right))
            }
            self.bad.reject_pair(rows, error)
        if joined is not None:
            yield joined

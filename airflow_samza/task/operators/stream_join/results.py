"""What comes out of a stream join: the columns of both sides put together, or what the user's function makes of both messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from airflow_samza.application.operator_specs import StreamJoinSpec
from airflow_samza.schema import Schema
from airflow_samza.task.messages import CHUNK, MessageReader, MessageWriter, ShapeError
from airflow_samza.task.user_errors import callable_failed, wrong_shape

if TYPE_CHECKING:
    import pyarrow as pa


class Results(Protocol):
    """Makes batches of joined rows."""

    def pairs(self, left: pa.RecordBatch, left_rows: pa.Array, right: pa.RecordBatch, right_rows: pa.Array) -> Iterator[pa.RecordBatch]:
        """Those of pairs, given as row numbers."""
        ...

    def alone(self, rows: pa.RecordBatch, side: int) -> Iterator[pa.RecordBatch]:
        """Those of messages of one side (0: left) that have no partner."""
        ...


class Beside:
    """The left columns, then the right ones without the right key. The key columns hold the key of whichever side is there."""

    def __init__(self, spec: StreamJoinSpec, right: Schema, output: Schema) -> None:
        self._arrow = output.to_arrow()
        self._added = [name for name in right.names if name not in spec.right_key]
        self._key_of = dict(zip(spec.left_key, spec.right_key, strict=True))

    def pairs(self, left: pa.RecordBatch, left_rows: pa.Array, right: pa.RecordBatch, right_rows: pa.Array) -> Iterator[pa.RecordBatch]:
        """Both sides' columns."""
        columns = [*left.take(left_rows).columns, *right.select(self._added).take(right_rows).columns]
        yield self._batch(columns)

    def alone(self, rows: pa.RecordBatch, side: int) -> Iterator[pa.RecordBatch]:
        """One side's columns, nulls beside them."""
        import pyarrow as pa

        count = rows.num_rows
        if side == 0:
            yield self._batch([*rows.columns, *(pa.nulls(count, self._arrow.field(name).type) for name in self._added)])
            return
        columns = []
        for name in self._arrow.names[: len(self._arrow) - len(self._added)]:
            key = self._key_of.get(name)
            columns.append(rows.column(key) if key is not None else pa.nulls(count, self._arrow.field(name).type))
        yield self._batch([*columns, *(rows.column(name) for name in self._added)])

    def _batch(self, columns: list[pa.Array]) -> pa.RecordBatch:
        import pyarrow as pa

        wanted = [c if c.type.equals(field.type) else c.cast(field.type) for c, field in zip(columns, self._arrow, strict=True)]
        return pa.RecordBatch.from_arrays(wanted, schema=self._arrow)


class _Both:
    """Both messages, for an error."""

    def __init__(self, left: object, right: object) -> None:
        self._sides = left, right

    def __repr__(self) -> str:
        return f"{self._sides[0]!r} with {self._sides[1]!r}"


class Called:
    """What the user's function returns, called once for each pair and each message without a partner."""

    def __init__(self, spec: StreamJoinSpec, left: Schema, right: Schema, output: Schema) -> None:
        assert spec.function is not None
        self._spec = spec
        self._function = spec.function
        self._readers = MessageReader(left), MessageReader(right)
        self._writer = MessageWriter(output)

    def pairs(self, left: pa.RecordBatch, left_rows: pa.Array, right: pa.RecordBatch, right_rows: pa.Array) -> Iterator[pa.RecordBatch]:
        """The function's results, in batches."""
        for start in range(0, len(left_rows), CHUNK):
            one = self._readers[0].read(left.take(left_rows.slice(start, CHUNK)))
            other = self._readers[1].read(right.take(right_rows.slice(start, CHUNK)))
            yield self._called(one, other)

    def alone(self, rows: pa.RecordBatch, side: int) -> Iterator[pa.RecordBatch]:
        """The function's results with None for the other side."""
        for start in range(0, rows.num_rows, CHUNK):
            messages = self._readers[side].read(rows.slice(start, CHUNK))
            nothing = [None] * len(messages)
            yield self._called(messages, nothing) if side == 0 else self._called(nothing, messages)

    def _called(self, left: list[Any], right: list[Any]) -> pa.RecordBatch:
        function = self._function
        results: list[Any] = []
        for one, other in zip(left, right, strict=True):
            try:
                results.append(function(one, other))
            except Exception as error:
                raise callable_failed(self._spec, function, _Both(one, other), error) from error
        try:
            return self._writer.write(results)
        except ShapeError as error:
            at = error.index
            both = _Both(left[at], right[at])
            raise wrong_shape(self._spec, function, results[at], self._writer.expected, message=both, why=error.why) from None

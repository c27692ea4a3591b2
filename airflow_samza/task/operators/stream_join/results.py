"""The results of a stream join.

The columns of both sides put together, or what the user's function makes of both messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from airflow_samza.application.operator_specs import StreamJoinSpec
from airflow_samza.application.rejections import USER_ERRORS
from airflow_samza.schema import Schema
from airflow_samza.task.messages.bad_records import BadRecords
from airflow_samza.task.messages.messages import CHUNK, MessageReader, MessageWriter, ShapeError
from airflow_samza.task.messages.user_errors import callable_failed, wrong_shape
from airflow_samza.task.messages.writer import written_each

if TYPE_CHECKING:
    import pyarrow as pa


class Results(Protocol):
    """Makes batches of joined rows."""

    def pairs(
        self, left: pa.RecordBatch, left_rows: pa.Array, right: pa.RecordBatch, right_rows: pa.Array
    ) -> Iterator[pa.RecordBatch]:
        """Return the results of pairs, given as row numbers."""
        ...

    def alone(self, rows: pa.RecordBatch, side: int) -> Iterator[pa.RecordBatch]:
        """Return the results of messages of one side (0: left) that have no partner."""
        ...


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

        wanted = [
            c if c.type.equals(field.type) else c.cast(field.type)
            for c, field in zip(columns, self._arrow, strict=True)
        ]
        return pa.RecordBatch.from_arrays(wanted, schema=self._arrow)


class _Both:
    """Both messages, for an error."""

    def __init__(self, left: object, right: object) -> None:
        self._sides = left, right

    def __repr__(self) -> str:
        return f"{self._sides[0]!r} with {self._sides[1]!r}"


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
        sides: list[list[Any]] = []
        for reader, batch in zip(self._readers, (left, right), strict=True):
            sides.append([None] * present.num_rows if batch is None else reader.read(batch))
        if self.bad is None:
            yield self._called(*sides)
            return
        made, wrong = self._tolerantly(*sides)
        for place, error in sorted(wrong.items()):
            rows = {
                name: None if batch is None else batch.slice(place, 1)
                for name, batch in (("left", left), ("right", right))
            }
            self.bad.reject_pair(rows, error)
        if made is not None:
            yield made

    def _tolerantly(self, left: list[Any], right: list[Any]) -> tuple[pa.RecordBatch | None, dict[int, Exception]]:
        """The results, and the places of the pairs on which the function fails, with the errors."""
        results, fine, wrong = [], [], {}
        for place, (one, other) in enumerate(zip(left, right, strict=True)):
            try:
                results.append([self._function(one, other)])
                fine.append(place)
            except USER_ERRORS as error:
                wrong[place] = callable_failed(self._spec, self._function, _Both(one, other), error)
        made, misshapen = written_each(self._writer, results)
        for number, shape in misshapen:
            both = _Both(left[fine[number]], right[fine[number]])
            expected = self._writer.expected
            wrong[fine[number]] = wrong_shape(
                self._spec, self._function, results[number][0], expected, message=both, why=shape.why
            )
        return made, dict(wrong)

    def _called(self, left: list[Any], right: list[Any]) -> pa.RecordBatch:
        function = self._function
        results: list[Any] = []
        for one, other in zip(left, right, strict=True):
            try:
                results.append(function(one, other))
            except USER_ERRORS as error:
                raise callable_failed(self._spec, function, _Both(one, other), error) from error
        try:
            return self._writer.write(results)
        except ShapeError as error:
            at = error.index
            both = _Both(left[at], right[at])
            raise wrong_shape(
                self._spec, function, results[at], self._writer.expected, message=both, why=error.why
            ) from None

"""The messages that callables return → Arrow batches.

Columns are converted whole; the message that does not fit is looked for only when that fails. Operators that call a
user's Python write by it, and the test driver.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter, itemgetter
from typing import Any, Protocol

import pyarrow as pa

from airflow_samza.schema import Schema
from airflow_samza.task.messages.value_columns import Misfit, column_of, columns_differ, fields_of, misfit


class ShapeError(Exception):
    """Error for a value that does not fit the schema: ``index`` of the message, the fault as a half sentence."""

    def __init__(self, index: int, why: str) -> None:
        self.index = index
        self.why = why
        super().__init__(why)


class Source(Protocol):
    """The messages of which others were made."""

    def unchanged(self, name: str, kind: pa.DataType, values: list[Any]) -> pa.Array | None:
        """Return the Arrow column ``name`` of the source if ``values`` are its very objects, else None."""


class MessageWriter:
    """Makes batches of messages; what does not fit the schema is a :class:`ShapeError` with the message's index."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._arrow = schema.to_arrow()
        self._conversions = [column_of(field.type) for field in schema.fields]
        self._items = [itemgetter(name) for name in schema.names]
        self._attributes = [attrgetter(name) for name in schema.names]

    @property
    def expected(self) -> str:
        """Return the columns as errors show them."""
        kind = self.schema.python_class
        return f"the columns {self.schema.ddl()}" + (f" ({kind.__name__})" if kind is not None else "")

    def write(self, messages: Sequence[Any], source: Source | None = None) -> pa.RecordBatch:
        """The batch of the messages, in order. ``source`` are those that they were made of, one for one.

        Most callables hand most values on: a column that holds the very objects of the source is the source's Arrow
        column.
        """
        arrays = []
        for place, values in enumerate(self._columns(messages)):
            field = self._arrow.field(place)
            array = source.unchanged(field.name, field.type, values) if source is not None else None
            if array is None:
                array = self._converted(place, values)
            if array.null_count and not field.nullable:
                raise ShapeError(
                    array.is_null().index(pa.scalar(True)).as_py(), f"{field.name} is None, and is declared never null"
                )
            arrays.append(array)
        return pa.RecordBatch.from_arrays(arrays, schema=self._arrow)

    def _converted(self, place: int, values: list[Any]) -> pa.Array:
        try:
            return self._conversions[place](values)
        except Misfit as error:
            field = self.schema.fields[place]
            for index, value in enumerate(values):
                why = misfit(value, field.type, field.name)
                if why is not None:
                    raise ShapeError(index, why) from None
            raise ShapeError(0, f"{field.name} is a value {error.why}") from None

    def _columns(self, messages: Sequence[Any]) -> list[list[Any]]:
        kinds = set(map(type, messages))
        names = self.schema.names
        declared = self.schema.python_class
        if declared is not None and all(issubclass(kind, declared) for kind in kinds):
            try:
                return [list(map(read, messages)) for read in self._attributes]
            except AttributeError as error:
                raise ShapeError(0, str(error)) from None
        if all(issubclass(kind, dict) for kind in kinds) and set(map(len, messages)) <= {len(names)}:
            try:
                return [list(map(read, messages)) for read in self._items]
            except KeyError:  # as many columns, but not the same ones: reported below
                pass
        return self._one_by_one(messages)

    def _one_by_one(self, messages: Sequence[Any]) -> list[list[Any]]:
        names = self.schema.names
        declared = set(names)
        rows: list[Any] = []
        for index, message in enumerate(messages):
            values = fields_of(message)
            if values is None:
                raise ShapeError(index, "a message is a dataclass instance, a Row or a dict")
            if len(values) != len(names) or not declared.issuperset(values):
                raise ShapeError(index, columns_differ(declared, values))
            rows.append(values)
        return [[row[name] for row in rows] for name in names]


def written_each(
    writer: MessageWriter, messages: Sequence[Any], source: Source | None = None
) -> tuple[pa.RecordBatch | None, list[tuple[int, ShapeError]]]:
    """Return the batch of all messages that fit, and the numbers of those that do not, with the reason.

    The batch is None when there are no messages. ``source`` are those that they were made of, one for one.
    """
    try:
        return (writer.write(messages, source) if messages else None), []
    except ShapeError:
        return written_groups(writer, [[message] for message in messages])


def written_groups(
    writer: MessageWriter, groups: Sequence[Sequence[Any]]
) -> tuple[pa.RecordBatch | None, list[tuple[int, ShapeError]]]:
    """Return the same as :func:`written_each` of groups of messages, of which each fits as a whole or not."""
    wrong: list[tuple[int, ShapeError]] = []
    parts = []
    for number, group in enumerate(groups):
        try:
            if group:
                parts.append(writer.write(group))
        except ShapeError as error:
            wrong.append((number, error))
    return (pa.concat_batches(parts) if parts else None), wrong

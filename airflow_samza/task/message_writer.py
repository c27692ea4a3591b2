"""The messages that callables return → Arrow batches. Columns are converted whole; who is to blame is looked for only when that fails."""

from __future__ import annotations

import dataclasses
import datetime
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_samza.schema import DataType, Schema, type_from_arrow

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_samza.task.messages import Messages


class ShapeError(Exception):
    """A value that does not fit the schema: ``index`` of the message, what is wrong as a half sentence."""

    def __init__(self, index: int, why: str) -> None:
        self.index = index
        self.why = why
        super().__init__(why)


class MessageWriter:
    """Makes batches of messages; what does not fit the schema is a :class:`ShapeError` with the message's index."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._arrow = schema.to_arrow()
        self._nested = [_holds_struct(field.type) for field in schema.fields]
        names = [repr(name) for name in schema.names]
        self._of_mappings = _transposer([f"m[{name}]" for name in names])
        self._of_instances = _transposer([f"m.{name}" for name in schema.names]) if schema.python_class is not None else self._of_mappings

    @property
    def expected(self) -> str:
        """The columns for people."""
        kind = self.schema.python_class
        return f"the columns {self.schema.ddl()}" + (f" ({kind.__name__})" if kind is not None else "")

    def write(self, messages: Sequence[Any], source: Messages | None = None) -> pa.RecordBatch:
        """The batch of the messages, in order. ``source`` are those that they were made of, one for one.

        Most callables hand most values on: a column that holds the very objects of the source is the source's Arrow column.
        """
        import pyarrow as pa

        arrays = []
        for place, values in enumerate(self._columns(messages)):
            field = self._arrow.field(place)
            array = source.unchanged(field.name, field.type, values) if source is not None else None
            if array is None:
                array = self._converted(place, field, values)
            if array.null_count and not field.nullable:
                raise ShapeError(array.is_null().index(pa.scalar(True)).as_py(), f"{field.name} is None, and is declared never null")
            arrays.append(array)
        return pa.RecordBatch.from_arrays(arrays, schema=self._arrow)

    def _converted(self, place: int, field: pa.Field, values: list[Any]) -> pa.Array:
        import pyarrow as pa

        if self._nested[place]:
            values = [_plain(value) for value in values]
        self._check_kinds(place, values)
        try:
            return pa.array(values, field.type)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise ShapeError(*_first_bad(values, field, error)) from None

    def _check_kinds(self, place: int, values: Sequence[Any]) -> None:
        """Refuse what Arrow would cut off in silence: 1.5 for an integer, a time of day for a date, True for a number."""
        wanted = _KINDS.get(self.schema.fields[place].type.name)
        if wanted is None:
            return
        strange = {kind for kind in set(map(type, values)) - wanted if not _is_kind(kind, self.schema.fields[place].type.name)}
        if strange:
            index = next(index for index, value in enumerate(values) if type(value) in strange)
            field = self._arrow.field(place)
            raise ShapeError(index, f"{field.name} is {values[index]!r:.80}, which is no {type_from_arrow(field.type).ddl()}")

    def _columns(self, messages: Sequence[Any]) -> list[list[Any]]:
        kinds = set(map(type, messages))
        names = self.schema.names
        declared = self.schema.python_class
        if declared is not None and all(issubclass(kind, declared) for kind in kinds):
            try:
                return self._of_instances(messages)
            except AttributeError as error:
                raise ShapeError(0, str(error)) from None
        if all(issubclass(kind, dict) for kind in kinds) and set(map(len, messages)) <= {len(names)}:
            try:
                return self._of_mappings(messages)
            except KeyError:  # as many columns, but not the same ones: said below
                pass
        return self._one_by_one(messages)

    def _one_by_one(self, messages: Sequence[Any]) -> list[list[Any]]:
        names = self.schema.names
        wanted = set(names)
        rows: list[Any] = []
        for index, message in enumerate(messages):
            values = message
            if not isinstance(values, Mapping):
                if not dataclasses.is_dataclass(message) or isinstance(message, type):
                    raise ShapeError(index, "a message is a dataclass instance, a Row or a dict")
                values = {field.name: getattr(message, field.name) for field in dataclasses.fields(message)}
            if len(values) != len(names) or not wanted.issuperset(values):
                raise ShapeError(index, _columns_differ(wanted, values))
            rows.append(values)
        return [[row[name] for row in rows] for name in names]


def written_each(writer: MessageWriter, groups: Sequence[Sequence[Any]]) -> tuple[pa.RecordBatch | None, list[tuple[int, ShapeError]]]:
    """The batch of all groups of messages that fit (None: there are no messages), and the numbers of those that do not, with the reason."""
    try:
        together = [message for group in groups for message in group]
        return (writer.write(together) if together else None), []
    except ShapeError:
        pass
    wrong: list[tuple[int, ShapeError]] = []
    parts = []
    for number, group in enumerate(groups):
        try:
            if group:
                parts.append(writer.write(group))
        except ShapeError as error:
            wrong.append((number, error))
    return _together(parts), wrong


def _together(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch | None:
    import pyarrow as pa

    return pa.concat_batches(parts) if parts else None


def _transposer(reads: Sequence[str]) -> Callable[[Sequence[Any]], list[list[Any]]]:
    """A function from messages to columns; ``reads`` are the expressions for the columns of a message ``m``."""
    columns = ", ".join(f"[{read} for m in messages]" for read in reads)
    scope: dict[str, Any] = {}
    exec(f"def columns(messages):\n    return [{columns}]\n", scope)
    return typing.cast("Callable[[Sequence[Any]], list[list[Any]]]", scope["columns"])


_INTEGERS = dict.fromkeys(("tinyint", "smallint", "int", "bigint"), frozenset[type]({int, type(None)}))
_FLOATS = dict.fromkeys(("float", "double"), frozenset[type]({float, int, type(None)}))
_KINDS: dict[str, frozenset[type]] = {
    **_INTEGERS,
    **_FLOATS,
    "date": frozenset({datetime.date, type(None)}),
    "string": frozenset({str, type(None)}),
    "boolean": frozenset({bool, type(None)}),
}


def _is_kind(kind: type, name: str) -> bool:
    """Whether values of a type that is not the plain one may stand in a column: numpy's scalars, subclasses."""
    import numpy as np

    if name in _INTEGERS:
        return issubclass(kind, int | np.integer) and not issubclass(kind, bool)
    if name in _FLOATS:
        return issubclass(kind, float | int | np.floating | np.integer) and not issubclass(kind, bool)
    if name == "date":
        return issubclass(kind, datetime.date) and not issubclass(kind, datetime.datetime)
    return issubclass(kind, str) if name == "string" else issubclass(kind, np.bool_)


def _columns_differ(wanted: set[str], values: Mapping[Any, Any]) -> str:
    lacking = ", ".join(sorted(wanted - set(values)))
    more = ", ".join(sorted(str(name) for name in set(values) - wanted))
    return " and ".join(part for part in (f"it lacks {lacking}" if lacking else "", f"it has also {more}" if more else "") if part)


def _first_bad(values: Sequence[Any], field: pa.Field, error: BaseException) -> tuple[int, str]:
    import pyarrow as pa

    for index, value in enumerate(values):
        try:
            pa.array([value], field.type)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            return index, f"{field.name} is {value!r:.80}, which is no {type_from_arrow(field.type).ddl()}"
    return 0, f"{field.name}: {error}"


def _holds_struct(kind: DataType) -> bool:
    return kind.name == "struct" or any(_holds_struct(child) for child in kind.children)


def _plain(value: Any) -> Any:
    """A nested value without dataclasses and Rows, as pyarrow reads it."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value

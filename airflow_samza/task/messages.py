"""Arrow batches ↔ the messages that callables get: dataclass instances or Rows. Columns are converted whole, never row by row."""

from __future__ import annotations

import dataclasses
import datetime
import gc
import threading
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from airflow_samza.schema import DataType, Row, Schema, type_from_arrow

if TYPE_CHECKING:
    import pyarrow as pa

CHUNK = 8192
"""Messages that exist as Python objects at a time."""

_SET_VALUES = Row._values.__set__  # type: ignore[attr-defined]  # the slot's own setter: Row refuses to be changed


class ShapeError(Exception):
    """A value that does not fit the schema: ``index`` of the message, what is wrong as a half sentence."""

    def __init__(self, index: int, why: str) -> None:
        self.index = index
        self.why = why
        super().__init__(why)


class MessageReader:
    """Makes messages of batches of one schema."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        hints = typing.get_type_hints(schema.python_class) if schema.python_class is not None else {}
        self._nested = [_from_arrow(field.type, hints.get(field.name)) for field in schema.fields]
        self._build = _builder(schema)

    def read(self, batch: pa.RecordBatch) -> list[Any]:
        """The messages of a batch, in order."""
        if getattr(_LATEST, "batch", None) is batch and _LATEST.schema == self.schema and self._shareable(_LATEST.schema):
            return _LATEST.messages  # type: ignore[no-any-return]
        with _collector_paused():
            columns = []
            for place, field in enumerate(self.schema.fields):
                values = python_values(batch.column(place), field.type)
                convert = self._nested[place]
                columns.append(values if convert is None else [None if value is None else convert(value) for value in values])
            return self._build(columns)

    def _shareable(self, made_for: Schema) -> bool:
        """Whether two callables may get the same objects: when neither can change them."""
        kind = self.schema.python_class
        plain = not any(field.type.children for field in self.schema.fields)
        return plain and kind is made_for.python_class and (kind is None or kind.__dataclass_params__.frozen)  # type: ignore[attr-defined]

    def remember(self, batch: pa.RecordBatch, messages: list[Any]) -> None:
        """Says what the messages of a batch are, so that the next operator does not make them again."""
        _LATEST.batch, _LATEST.schema, _LATEST.messages = batch, self.schema, messages


_LATEST = threading.local()
"""The batch that was last made of messages in this thread, its schema and its messages."""


def chunks(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """A batch in slices of at most :data:`CHUNK` rows."""
    if batch.num_rows <= CHUNK:
        yield batch
        return
    for start in range(0, batch.num_rows, CHUNK):
        yield batch.slice(start, CHUNK)


@contextmanager
def _collector_paused() -> Iterator[None]:
    # Making many objects at once starts the cycle collector again and again, for nothing: it doubles the time.
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def python_values(array: pa.Array, kind: DataType) -> list[Any]:
    """A column's values as Python objects; timestamps are aware (UTC), naive for ``timestamp_ntz``."""
    import pyarrow as pa

    name = kind.name
    if name in ("timestamp", "timestamp_ntz"):
        return _datetimes(array, name == "timestamp")
    if array.null_count == 0 and (kind.is_integer or name in ("float", "double")):
        return array.to_numpy(zero_copy_only=False).tolist()  # type: ignore[no-any-return]
    if name == "string" and len(array) > 256:
        encoded = array.dictionary_encode() if not pa.types.is_dictionary(array.type) else array
        if encoded.null_count == 0 and 4 * len(encoded.dictionary) < len(encoded):
            words = encoded.dictionary.to_pylist()
            return [words[place] for place in encoded.indices.to_numpy(zero_copy_only=False).tolist()]
    return array.to_pylist()  # type: ignore[no-any-return]


def _datetimes(array: pa.Array, aware: bool) -> list[Any]:
    import pyarrow as pa

    micros = array.view(pa.int64()).to_pylist() if array.null_count else array.view(pa.int64()).to_numpy(zero_copy_only=False).tolist()
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc if aware else None)
    delta = datetime.timedelta
    return [None if value is None else epoch + delta(0, 0, value) for value in micros]


def _from_arrow(kind: DataType, annotation: Any) -> Callable[[Any], Any] | None:
    """How a nested value of ``to_pylist`` becomes what the user declared; None when it is that already."""
    annotation = _bare(annotation)
    arguments = typing.get_args(annotation)
    if kind.name == "struct":
        inner = [_from_arrow(child, None) for child in kind.children]
        if isinstance(annotation, type) and dataclasses.is_dataclass(annotation):
            hints = typing.get_type_hints(annotation)
            inner = [_from_arrow(child, hints.get(name)) for name, child in zip(kind.names, kind.children, strict=True)]
        make: Any = annotation if isinstance(annotation, type) and dataclasses.is_dataclass(annotation) else None
        names = kind.names

        def build(value: Mapping[str, Any]) -> Any:
            fields = {n: value[n] if c is None or value[n] is None else c(value[n]) for n, c in zip(names, inner, strict=True)}
            return make(**fields) if make is not None else Row(fields)

        return build
    if kind.name == "array":
        child = _from_arrow(kind.children[0], arguments[0] if arguments else None)
        wrap: Any = tuple if typing.get_origin(annotation) is tuple else list
        if child is None and wrap is list:
            return None
        return lambda value: wrap(v if child is None or v is None else child(v) for v in value)
    if kind.name == "map":
        child = _from_arrow(kind.children[1], arguments[1] if len(arguments) > 1 else None)
        return lambda value: {k: v if child is None or v is None else child(v) for k, v in value}
    if kind.name == "timestamp":
        return lambda value: value.astimezone(datetime.timezone.utc)
    return None


def _bare(annotation: Any) -> Any:
    """An annotation without ``| None`` and ``Annotated``."""
    if typing.get_origin(annotation) is typing.Annotated:
        return _bare(typing.get_args(annotation)[0])
    members = [member for member in typing.get_args(annotation) if member is not type(None)]
    if len(members) == 1 and len(typing.get_args(annotation)) == 2 and type(None) in typing.get_args(annotation):
        return _bare(members[0])
    return annotation


def _builder(schema: Schema) -> Callable[[list[list[Any]]], list[Any]]:
    # A timestamp at the top level was converted by python_values already.
    names = schema.names
    kind = schema.python_class
    if kind is None:
        return lambda columns: [_row(dict(zip(names, values, strict=True))) for values in zip(*columns, strict=True)]
    if not _is_plain(kind, names):
        return lambda columns: [kind(**dict(zip(names, values, strict=True))) for values in zip(*columns, strict=True)]
    # A frozen dataclass sets each field through object.__setattr__: filling the instance's dict is three times as fast,
    # and the same, where the class adds nothing of its own to __init__ and __new__.
    arguments = ", ".join(f"v{place}" for place in range(len(names)))
    body = "; ".join(f"d[{name!r}] = v{place}" for place, name in enumerate(names))
    source = (
        "def build(columns):\n    made = []\n    put = made.append\n"
        f"    for {arguments}, in zip(*columns):\n        m = new(kind); d = m.__dict__; {body}; put(m)\n    return made\n"
    )
    scope: dict[str, Any] = {"new": object.__new__, "kind": kind}
    exec(source, scope)
    return typing.cast("Callable[[list[list[Any]]], list[Any]]", scope["build"])


def _row(values: dict[str, Any]) -> Row:
    row = Row.__new__(Row)
    _SET_VALUES(row, values)
    return row


def _is_plain(kind: type, names: Sequence[str]) -> bool:
    fields = dataclasses.fields(kind)
    parameters = kind.__dataclass_params__  # type: ignore[attr-defined]
    return (
        parameters.init
        and "__init__" in vars(kind)
        and not hasattr(kind, "__post_init__")
        and not any("__new__" in vars(parent) for parent in kind.__mro__[:-1])
        and (parameters.frozen or not any("__setattr__" in vars(parent) for parent in kind.__mro__[:-1]))
        and "__dict__" in dir(kind)
        and not any("__slots__" in vars(parent) for parent in kind.__mro__[:-1])
        and all(field.init for field in fields)
        and tuple(field.name for field in fields) == tuple(names)
        and not any(isinstance(getattr(parent, name, None), property) for parent in kind.__mro__ for name in names)
    )


class MessageWriter:
    """Makes batches of messages; what does not fit the schema is a :class:`ShapeError` with the message's index."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._arrow = schema.to_arrow()
        self._getters = [attrgetter(name) for name in schema.names]
        self._nested = [_holds_struct(field.type) for field in schema.fields]

    @property
    def expected(self) -> str:
        """The columns for people."""
        kind = self.schema.python_class
        return f"the columns {self.schema.ddl()}" + (f" ({kind.__name__})" if kind is not None else "")

    def write(self, messages: Sequence[Any]) -> pa.RecordBatch:
        """The batch of the messages, in order."""
        import pyarrow as pa

        arrays = []
        for place, values in enumerate(self._columns(messages)):
            field = self._arrow.field(place)
            if self._nested[place]:
                values = [_plain(value) for value in values]
            self._check_kinds(place, values)
            try:
                array = pa.array(values, field.type)
            except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
                raise ShapeError(*_first_bad(values, field, error)) from None
            if array.null_count and not field.nullable:
                raise ShapeError(array.is_null().index(pa.scalar(True)).as_py(), f"{field.name} is None, and is declared never null")
            arrays.append(array)
        return pa.RecordBatch.from_arrays(arrays, schema=self._arrow)

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
        if declared is not None and all(kind is declared or issubclass(kind, declared) for kind in kinds):
            try:
                return [list(map(getter, messages)) for getter in self._getters]
            except AttributeError as error:
                raise ShapeError(0, str(error)) from None
        wanted = set(names)
        rows: list[Any] = []
        for index, message in enumerate(messages):
            values = message._values if type(message) is Row else message
            if not isinstance(values, Mapping):
                if not dataclasses.is_dataclass(message) or isinstance(message, type):
                    raise ShapeError(index, "a message is a dataclass instance, a Row or a dict")
                values = {field.name: getattr(message, field.name) for field in dataclasses.fields(message)}
            if len(values) != len(names) or not wanted.issuperset(values):
                raise ShapeError(index, _columns_differ(wanted, values))
            rows.append(values)
        return [[row[name] for row in rows] for name in names]


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

"""Arrow batches → the messages that callables get: dataclass instances or Rows.

Columns are converted whole, never row by row. Operators that call a user's Python make them, and the test driver.
"""

from __future__ import annotations

import dataclasses
import gc
import threading
import typing
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from operator import is_
from typing import Any

import numpy as np
import pyarrow as pa

from airflow_samza.row import row_class
from airflow_samza.schema import Schema
from airflow_samza.task.messages.own_copies import is_frozen
from airflow_samza.task.messages.values import beyond_python, nested_conversion, python_values
from airflow_samza.task.messages.writer import MessageWriter as MessageWriter, ShapeError as ShapeError

CHUNK = 2048
"""Messages that exist as Python objects at a time: few enough to stay in the processor's cache."""


_EQUAL_IS_SAME = frozenset({pa.string(), pa.binary(), pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC")})
"""Types of which values that are equal are the same."""


class Messages:
    """The messages of a batch, and the values that they were made of."""

    __slots__ = ("_chosen", "_values", "batch", "objects")

    def __init__(
        self,
        batch: pa.RecordBatch,
        objects: list[Any],
        values: dict[str, list[Any]],
        chosen: list[int] | None = None,
    ) -> None:
        self.batch = batch
        self.objects = objects
        self._values = values
        self._chosen = chosen

    def where(self, mask: pa.Array) -> Messages:
        """The ones for which a mask without nulls is true."""
        values = self._values
        if self._chosen is not None:
            values = {name: _at(self._chosen, column) for name, column in values.items()}
        chosen = np.flatnonzero(mask.to_numpy(zero_copy_only=False)).tolist()
        return Messages(self.batch.filter(mask), _at(chosen, self.objects), values, chosen)

    def unchanged(self, name: str, kind: pa.DataType, values: list[Any]) -> pa.Array | None:
        """The batch's column of that name and type, if these are its very values, one for one."""
        mine = self._values.get(name)
        if mine is None:
            return None
        column = self.batch.column(name)
        if column.type != kind:
            return None
        if self._chosen is not None:
            mine = _at(self._chosen, mine)
        # Lists are compared by identity first, at a nanosecond a value. Equality is not enough: by it 1 is
        # True, or 0.0 is -0.0.
        try:
            same = mine == values if kind in _EQUAL_IS_SAME else all(map(is_, mine, values))
        except Exception:  # what does not even compare is something else
            return None
        return column if same else None


def _at(places: list[int], values: list[Any]) -> list[Any]:
    return [values[place] for place in places]


class MessageReader:
    """Makes messages of batches of one schema."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        hints = typing.get_type_hints(schema.python_class) if schema.python_class is not None else {}
        self._nested = [nested_conversion(field.type, hints.get(field.name)) for field in schema.fields]
        self._build = _builder(schema)

    def read(self, batch: pa.RecordBatch) -> list[Any]:
        """The messages of a batch, in order."""
        return self.messages(batch).objects

    def messages(self, batch: pa.RecordBatch) -> Messages:
        """The messages of a batch, in order; the operator before has perhaps made them already."""
        latest = getattr(_LATEST, "messages", None)
        if (
            latest is not None
            and latest.batch is batch
            and _LATEST.schema == self.schema
            and self._shareable(_LATEST.schema)
        ):
            return latest  # type: ignore[no-any-return]  # what lies in a thread has no type
        simple = {}
        with _collector_paused():
            columns = []
            for place, field in enumerate(self.schema.fields):
                convert = self._nested[place]
                try:
                    values = python_values(batch.column(place), field.type)
                    columns.append(
                        values if convert is None else [None if value is None else convert(value) for value in values]
                    )
                except (OverflowError, ValueError):
                    raise beyond_python(batch.column(place), field) from None
                if not field.type.children:  # immutable, so that an object that comes back is as it was
                    simple[field.name] = values
            return Messages(batch, self._build(columns), simple)

    def _shareable(self, other: Schema) -> bool:
        """Return whether two callables may get the same objects: when neither can change them."""
        kind = self.schema.python_class
        plain = not any(field.type.children for field in self.schema.fields)
        return plain and kind is other.python_class and (kind is None or is_frozen(kind))

    def remember(self, messages: Messages) -> None:
        """Keep the messages of a batch that is handed on, so that the next operator does not make them again."""
        _LATEST.schema, _LATEST.messages = self.schema, messages


_LATEST = threading.local()
"""The messages that were made last in this thread, and their schema."""


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


Builder = Callable[[list[list[Any]]], list[Any]]


def _builder(schema: Schema) -> Builder:
    """A function from columns to messages."""
    names = schema.names
    kind = schema.python_class
    if kind is None:
        return _row_builder(names)
    if _is_plain(kind, names):
        return _instance_builder(kind, names)
    if _takes_positions(kind, names):
        return lambda columns: list(map(kind, *columns))
    return lambda columns: [kind(**dict(zip(names, values, strict=True))) for values in zip(*columns, strict=True)]


def _row_builder(names: Sequence[str]) -> Builder:
    values = [f"v{place}" for place in range(len(names))]
    pairs = ", ".join(f"{name!r}: {value}" for name, value in zip(names, values, strict=True))
    return _generated(f"return [kind({{{pairs}}}) for {', '.join(values)}, in zip(*columns)]", row_class(tuple(names)))


def _instance_builder(kind: type, names: Sequence[str]) -> Builder:
    # A frozen dataclass sets each field through object.__setattr__, which takes four times as long as to fill an object
    # of a class without rules and to give it its class then. That is the same where the class adds nothing of its own
    # to the constructor.
    values = [f"v{place}" for place in range(len(names))]
    body = "; ".join(f"m.{name} = {value}" for name, value in zip(names, values, strict=True))
    return _generated(
        "made = []; put = made.append\n"
        f"    for {', '.join(values)}, in zip(*columns):\n"
        f"        m = blank(); {body}; m.__class__ = kind; put(m)\n"
        "    return made",
        kind,
    )


def _generated(body: str, kind: type) -> Builder:
    scope: dict[str, Any] = {"blank": _blank(), "kind": kind}
    exec(f"def build(columns):\n    {body}\n", scope)
    return typing.cast("Builder", scope["build"])


def _blank() -> type:
    # One for each builder: Python shares the attributes' names among the objects of a class.
    return type("Blank", (), {})


def _is_plain(kind: type, names: Sequence[str]) -> bool:
    """Return whether the generated constructor is all that makes an instance, and its dict all that it has."""
    parents = kind.__mro__[:-1]
    plain = (
        _takes_positions(kind, names)
        and not hasattr(kind, "__post_init__")
        and not any("__new__" in vars(parent) or "__slots__" in vars(parent) for parent in parents)
        and (is_frozen(kind) or not any("__setattr__" in vars(parent) for parent in parents))
        and not any(isinstance(getattr(parent, name, None), property) for parent in kind.__mro__ for name in names)
    )
    if not plain:
        return False
    try:
        _blank()().__class__ = kind  # a TypeError where instances are laid out in another way
    except TypeError:
        return False
    return True


def _takes_positions(kind: type, names: Sequence[str]) -> bool:
    """Return whether the constructor is the dataclass's own and takes the columns in their order."""
    fields = dataclasses.fields(kind)
    code = getattr(vars(kind).get("__init__"), "__code__", None)
    return (
        kind.__dataclass_params__.init  # type: ignore[attr-defined]  # typeshed does not know it
        and code is not None
        and code.co_filename == "<string>"  # generated; a library may have put its own in the place
        and all(field.init and not field.kw_only for field in fields)
        and tuple(field.name for field in fields) == tuple(names)
    )

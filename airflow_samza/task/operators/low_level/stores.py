"""A store as a low-level task sees it: typed keys and values, over a backend that keeps plain ones."""

from __future__ import annotations

import copy
import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from airflow_samza.application.descriptors import StoreDescriptor
from airflow_samza.application.rejections import reject
from airflow_samza.errors import StoreError
from airflow_samza.quoting import quoted
from airflow_samza.row import row_class
from airflow_samza.schema import Field, Schema
from airflow_samza.storage.store import KeyValueStore, Values
from airflow_samza.task.messages.messages import MessageWriter, ShapeError
from airflow_samza.task.messages.values import nested_conversion, python_values


class TaskStore:
    """One store of one task (``KeyValueStore`` of the API).

    What is put is checked against the declaration at once, with the line.
    """

    def __init__(self, declared: StoreDescriptor, backend: KeyValueStore) -> None:
        self._declared = declared
        self.backend = backend
        self._keys = [_Column(field) for field in declared.key.fields]
        self._values = _ValueForm(declared.value, declared.plain_value)

    # -- reading -------------------------------------------------------------------------------------------------------

    def get(self, key: Any) -> Any:
        """The value of a key, or None."""
        kept = self.backend.get(self._key(key))
        return None if kept is None else self._values.shown(kept)

    def get_all(self, keys: Iterable[Any]) -> dict[Any, Any]:
        """The values of those keys that are there."""
        kept = self.backend.get_all([self._key(key) for key in keys])
        return {self._shown_key(key): self._values.shown(value) for key, value in kept.items()}

    def range(self, first: Any = None, last: Any = None) -> Iterator[tuple[Any, Any]]:
        """The entries from ``first`` up to and without ``last``, in key order, as they are now.

        None leaves that end open.
        """
        bounds = [None if bound is None else self._key(bound) for bound in (first, last)]
        return ((self._shown_key(key), self._values.shown(value)) for key, value in self.backend.range(*bounds))

    def all(self) -> Iterator[tuple[Any, Any]]:
        """All entries, in key order."""
        return self.range()

    # -- writing -------------------------------------------------------------------------------------------------------

    def put(self, key: Any, value: Any) -> None:
        """Sets a value; None deletes."""
        if value is None:
            self.backend.delete(self._key(key))
        else:
            self.backend.put(self._key(key), self._value(value))

    def put_all(self, entries: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> None:
        """Sets several values, in the order given; None deletes."""
        for key, value in entries.items() if isinstance(entries, Mapping) else entries:
            self.put(key, value)

    def delete(self, key: Any) -> None:
        """Removes a key; one that is not there is no error."""
        self.backend.delete(self._key(key))

    # -- forms ---------------------------------------------------------------------------------------------------------

    def _key(self, key: Any) -> Any:
        try:
            if len(self._keys) == 1:
                return self._keys[0].plain(key)
            if isinstance(key, tuple) and len(key) == len(self._keys):
                return tuple(column.plain(part) for column, part in zip(self._keys, key, strict=True))
            raise ShapeError(0, f"it is no tuple of {len(self._keys)} values")
        except ShapeError as error:
            reject(
                f"The store {self._declared.name!r} is asked for the key {quoted(key, 80)}: {error.why}",
                hint=f"The declared key is: {_form(self._declared.key, len(self._keys) == 1)}.",
                kind=StoreError,
                store=self._declared.name,
            )

    def _value(self, value: Any) -> Values:
        try:
            return self._values.plain(value)
        except ShapeError as error:
            reject(
                f"The task puts {quoted(value, 200)} into the store {self._declared.name!r}: {error.why}",
                hint=f"The declared value is: {_form(self._declared.value, self._declared.plain_value)}.",
                kind=StoreError,
                store=self._declared.name,
            )

    def _shown_key(self, key: Any) -> Any:
        if len(self._keys) == 1:
            return self._keys[0].shown(key)
        return tuple(column.shown(part) for column, part in zip(self._keys, key, strict=True))


class _Column:
    """One column's values between what the user has and what a backend keeps."""

    def __init__(self, field: Field, annotation: Any = None) -> None:
        self._field = field
        self._exact = _EXACT.get(field.type.name)
        self._least, self._most = _BOUNDS.get(field.type.name, (None, None))
        self._writer = MessageWriter(Schema((field,)))
        self._nested = bool(field.type.children)
        self._convert = nested_conversion(field.type, annotation)

    def plain(self, value: Any) -> Any:
        """The value as a backend keeps it: what Arrow would give back. Else a :class:`ShapeError`."""
        if type(value) is self._exact:  # nearly all values take the short way
            if self._least is not None:
                if self._least <= value <= self._most:
                    return value
            elif not isinstance(value, str) or _is_text(value):
                return value
        column = self._writer.write([{self._field.name: value}]).column(0)
        return column[0].as_py() if self._nested else python_values(column, self._field.type)[0]

    def shown(self, value: Any) -> Any:
        """The value as the user gets it, to change as they like."""
        if value is None:
            return None
        if self._nested:
            value = copy.deepcopy(value)
        return value if self._convert is None else self._convert(value)


class _ValueForm:
    """Values between what the user has, one plain value or a message, and the columns that a backend keeps."""

    def __init__(self, schema: Schema, plain_value: bool) -> None:
        self._schema = schema
        self._single = plain_value
        self._kind = schema.python_class
        hints = typing.get_type_hints(self._kind) if self._kind is not None else {}
        self._columns = [_Column(field, hints.get(field.name)) for field in schema.fields]
        self._row = row_class(schema.names)
        self._writer = MessageWriter(schema)

    def plain(self, value: Any) -> Values:
        """The columns of a value."""
        if self._single:
            return (self._columns[0].plain(value),)
        names = self._schema.names
        if self._kind is not None and type(value) is self._kind:
            parts = [getattr(value, name) for name in names]
        elif isinstance(value, dict) and value.keys() == set(names):
            parts = [value[name] for name in names]
        else:
            batch = self._writer.write([value])
            parts = [column[0].as_py() for column in batch.columns]
        return tuple(column.plain(part) for column, part in zip(self._columns, parts, strict=True))

    def shown(self, values: Values) -> Any:
        """The value of columns."""
        shown = [column.shown(part) for column, part in zip(self._columns, values, strict=True)]
        if self._single:
            return shown[0]
        named = dict(zip(self._schema.names, shown, strict=True))
        return self._row(named) if self._kind is None else self._kind(**named)


def _form(schema: Schema, plain: bool) -> str:
    return schema.fields[0].type.ddl() if plain else MessageWriter(schema).expected


def _is_text(value: str) -> bool:
    """Return whether it can be written; half a surrogate pair cannot."""
    try:
        return value.isascii() or bool(value.encode())
    except UnicodeEncodeError:
        return False


_EXACT = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), int),
    "boolean": bool,
    "string": str,
    "binary": bytes,
    "double": float,
}

_BOUNDS = {
    name: (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    for name, bits in (("tinyint", 8), ("smallint", 16), ("int", 32), ("bigint", 64))
}

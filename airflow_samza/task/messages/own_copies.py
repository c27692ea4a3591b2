"""Copies of rows that may be changed in place, for code that keeps rows or hands them out.

Rows that cannot change are not copied. Operators that call a user's Python, and remote tables, hand out such copies.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from typing import Any

from airflow_samza.row import Row
from airflow_samza.schema import Schema


def is_frozen(kind: Any) -> bool:
    """Return whether instances of a dataclass cannot be changed."""
    return bool(kind.__dataclass_params__.frozen)


class OwnCopies:
    """Copies of the rows of one schema (None: rows of any kind)."""

    def __init__(self, schema: Schema | None) -> None:
        fields = schema.fields if schema is not None else ()
        self._any = schema is None
        self._changeable = [field.name for field in fields if field.type.children or field.type.name == "binary"]
        """Columns whose values can be changed in place: of a binary one, a bytearray."""
        kind = schema.python_class if schema is not None else None
        frozen = Row if kind is None else kind if is_frozen(kind) else None
        self._unchanging = frozen if not self._changeable and not self._any else None
        """The class of rows of which nothing can be changed."""

    def of(self, row: Any) -> Any:
        """A row that equals this one now and shares with it nothing that can be changed."""
        if self._unchanging is not None and isinstance(row, self._unchanging):
            return row
        if self._any:
            return _copied(row)
        values = getattr(row, "__dict__", None)
        if (
            values is None
            or not dataclasses.is_dataclass(row)
            or isinstance(row, type)
            or hasattr(type(row), "__slots__")
        ):
            return self._of_another(row)
        copied = object.__new__(type(row))  # not by the constructor, which may do more than take values
        copied.__dict__.update(values)
        for name in self._changeable:
            if name in values:
                copied.__dict__[name] = _copied(values[name])
        return copied

    def _of_another(self, row: Any) -> Any:
        if isinstance(row, dict | Mapping):
            values = {**row}
            for name in self._changeable:
                if name in values:
                    values[name] = _copied(values[name])
            return type(row)(values) if isinstance(row, Row) else values
        if dataclasses.is_dataclass(row) and not isinstance(row, type):
            return copy.deepcopy(row)
        return row  # no row: writing it raises an error


_ATOMS = frozenset({str, int, float, bool, bytes, type(None)})


def _copied(value: Any) -> Any:
    """A deep copy; of lists and dicts of plain values without the detours of the general one."""
    kind = type(value)
    if kind in _ATOMS:
        return value
    if kind is list:
        return [inner if type(inner) in _ATOMS else _copied(inner) for inner in value]
    if kind is dict:
        return {name: _copied(inner) for name, inner in value.items()}
    return copy.deepcopy(value)

"""Python values → Arrow columns by one rule at every depth (decision 33).

A value fits into an array, a struct or a map as it fits into a column. Nothing is bent: what fits reads back equal, all
else is :class:`Misfit`. Columns are converted whole; :func:`misfit` finds what is wrong with one value, and where.
Writers of messages and tables of low-level tasks convert by it.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import math
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_samza.quoting import quoted
from airflow_samza.schema import DataType

Column = Callable[[Sequence[Any]], "pa.Array"]
"""A conversion of a column's values; raises :class:`Misfit`."""


class Misfit(Exception):
    """A value that a type does not hold; ``why`` is a half sentence where more is known than the type."""

    def __init__(self, why: str = "") -> None:
        self.why = why
        super().__init__(why)


def column_of(kind: DataType) -> Column:
    """The conversion of values of a type."""
    conversion = {"array": _arrays, "struct": _structs, "map": _maps}.get(kind.name, _plain_values)
    return conversion(kind)


def misfit(value: Any, kind: DataType, path: str) -> str | None:
    """Return why a type does not hold a value that stands at ``path``, as a half sentence; None when it does."""
    if value is not None:
        for inner, child, place in _parts(value, kind):
            why = misfit(inner, child, f"{path}{place}")
            if why is not None:
                return why
    try:
        column_of(kind)([value])
    except Misfit as wrong:
        return f"{path} is {_shown(value)}, {wrong.why or f'which is no {kind.ddl()}'}"
    return None


def _parts(value: Any, kind: DataType) -> list[tuple[Any, DataType, str]]:
    """Return the parts of a value, as far as it has the form of its type."""
    if kind.name == "array" and _is_sequence(type(value)):
        return [(inner, kind.children[0], f"[{place}]") for place, inner in enumerate(value)]
    if kind.name == "map":
        try:
            value = _mapping(value)
        except Misfit:
            return []
        keys = [(key, kind.children[0], f"'s key {place}") for place, key in enumerate(value)]
        return [*keys, *((inner, kind.children[1], f"[{_shown(key)}]") for key, inner in value.items())]
    if kind.name == "struct":
        fields = fields_of(value)
        if fields is not None:
            return [
                (fields[n], child, f".{n}") for n, child in zip(kind.names, kind.children, strict=True) if n in fields
            ]
    return []


def _shown(value: Any) -> str:
    return quoted(value, 80)


# -- plain values ------------------------------------------------------------------------------------------------------


def _plain_values(kind: DataType) -> Column:
    target = kind.to_arrow()
    check = _CHECKS.get(kind.name)
    classes, others = _CLASSES[kind.name]

    def convert(values: Sequence[Any]) -> pa.Array:
        kinds = set(map(type, values))
        # what Arrow would cut off in silence: 1.5 for an integer, a time of day for a date, True for a number
        for own in kinds - {_NONE}:
            if not issubclass(own, classes) or issubclass(own, others):
                raise Misfit(_why_no(own, kind))
        try:
            array = pa.array(values, target)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise Misfit from error
        if check is not None:
            check(values, array, kinds)
        return array

    return convert


_NONE = type(None)
_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_CLASSES: dict[str, tuple[tuple[type, ...], tuple[type, ...]]] = {
    **dict.fromkeys(_INTEGERS, ((int, np.integer), (bool,))),
    **dict.fromkeys(("float", "double"), ((float, int, np.floating, np.integer), (bool,))),
    **dict.fromkeys(("timestamp", "timestamp_ntz"), ((datetime.datetime,), ())),
    "decimal": ((decimal.Decimal, int), (bool,)),
    "date": ((datetime.date,), (datetime.datetime,)),
    "string": ((str,), ()),
    "binary": ((bytes, bytearray, memoryview), ()),
    "boolean": ((bool, np.bool_), ()),
}
"""The classes of values of each type, and those among them whose values are none of it."""


def _why_no(strange: type, kind: DataType) -> str:
    if kind.name in ("timestamp", "timestamp_ntz") and issubclass(strange, int | float | np.number | decimal.Decimal):
        return (
            f"a number, and no {kind.ddl()}: ms since 1970 become one by "
            "datetime.fromtimestamp(ms / 1000, timezone.utc)"
        )
    return ""


def _reject_overflow(values: Sequence[Any], array: pa.Array, kinds: set[type]) -> None:
    """A finite number that is infinite as a float of 32 bits does not fit."""
    infinite = pc.is_inf(array)
    if infinite.true_count and any(math.isfinite(values[place]) for place in pc.indices_nonzero(infinite).to_pylist()):
        raise Misfit("which is out of the range of float")


def _reject_nanoseconds(values: Sequence[Any], array: pa.Array, kinds: set[type]) -> None:
    """Times of pandas may be finer than a microsecond, or none (NaT)."""
    if kinds <= {datetime.datetime, _NONE}:
        return
    for value in values:
        if value is not None and (value != value or getattr(value, "nanosecond", 0)):
            raise Misfit("which is not in whole microseconds" if value == value else "which is no time")


def _reject_zones(values: Sequence[Any], array: pa.Array, kinds: set[type]) -> None:
    """A time without a zone has none to lose."""
    _reject_nanoseconds(values, array, kinds)
    if any(value is not None and value.tzinfo is not None for value in values):
        raise Misfit("which has a time zone, and timestamp_ntz has none")


_CHECKS: dict[str, Callable[[Sequence[Any], Any, set[type]], None]] = {
    "float": _reject_overflow,
    "timestamp": _reject_nanoseconds,
    "timestamp_ntz": _reject_zones,
}
"""Checks by type, where Arrow accepts values that do not fit."""


# -- nested values -----------------------------------------------------------------------------------------------------


def _is_sequence(kind: type) -> bool:
    return issubclass(kind, list | tuple | np.ndarray)


def _offsets(values: Sequence[Any], *, some_null: bool) -> pa.Array:
    """Return the place of each value's first part among all parts in a row; null for a value that is null."""
    lengths = [0 if value is None else len(value) for value in values] if some_null else map(len, values)
    places: list[int | None] = list(accumulate(lengths, initial=0))
    if (places[-1] or 0) >= 1 << 31:
        raise Misfit("which holds, with the others of its batch, too many values")
    if some_null:
        places = [*(None if value is None else place for value, place in zip(values, places, strict=False)), places[-1]]
    return pa.array(places, pa.int32())


def _present(values: Sequence[Any], *, some_null: bool) -> Sequence[Any]:
    return [value for value in values if value is not None] if some_null else values


_LISTS = {list, tuple, _NONE}


def _as_lists(values: Sequence[Any], kinds: set[type]) -> Sequence[Any]:
    if not all(kind is _NONE or _is_sequence(kind) for kind in kinds):
        raise Misfit
    if any(isinstance(value, np.ndarray) and value.ndim != 1 for value in values):
        raise Misfit("which has not one dimension")
    return [list(value) if isinstance(value, np.ndarray) else value for value in values]


def _arrays(kind: DataType) -> Column:
    element = column_of(kind.children[0])

    def convert(values: Sequence[Any]) -> pa.Array:
        kinds = set(map(type, values))
        some_null = _NONE in kinds
        if not kinds <= _LISTS:
            values = _as_lists(values, kinds)
        inner = element(list(chain.from_iterable(_present(values, some_null=some_null))))
        return pa.ListArray.from_arrays(_offsets(values, some_null=some_null), inner)

    return convert


def fields_of(value: Any) -> Mapping[Any, Any] | None:
    """The fields of a mapping or a dataclass instance; None for anything else."""
    if isinstance(value, Mapping):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return None


def _structs(kind: DataType) -> Column:
    names, target = kind.names, kind.to_arrow()
    children = [column_of(child) for child in kind.children]
    declared = set(names)

    def convert(values: Sequence[Any]) -> pa.Array:
        rows = [None if value is None else fields_of(value) for value in values]
        missing = [value is None for value in values]
        for row, value in zip(rows, values, strict=True):
            if row is None and value is not None:
                raise Misfit
            if row is not None and (len(row) != len(declared) or not declared.issuperset(row)):
                raise Misfit(f"where {columns_differ(declared, row)}")
        arrays = [
            make([None if row is None else row[name] for row in rows])
            for name, make in zip(names, children, strict=True)
        ]
        if not arrays:
            return pa.array([None if row is None else {} for row in rows], target)
        mask = pa.array(missing) if any(missing) else None
        return pa.StructArray.from_arrays(arrays, fields=list(target), mask=mask)

    return convert


def columns_differ(declared: set[str], values: Mapping[Any, Any]) -> str:
    """Return which columns a message, or a struct, lacks or has besides, as a half sentence."""
    lacking = ", ".join(sorted(declared - set(values)))
    more = ", ".join(sorted(str(name) for name in set(values) - declared))
    return " and ".join(
        part for part in (f"it lacks {lacking}" if lacking else "", f"it has also {more}" if more else "") if part
    )


def _maps(kind: DataType) -> Column:
    key, item = (column_of(child) for child in kind.children)
    target = kind.to_arrow()

    def convert(values: Sequence[Any]) -> pa.Array:
        kinds = set(map(type, values))
        some_null = _NONE in kinds
        if not all(kind is _NONE or issubclass(kind, Mapping) for kind in kinds):
            values = [None if value is None else _mapping(value) for value in values]
        present = _present(values, some_null=some_null)
        keys = key(list(chain.from_iterable(present)))
        if keys.null_count:
            raise Misfit("which has None for a key")
        items = item(list(chain.from_iterable(value.values() for value in present)))
        maps = pa.MapArray.from_arrays(_offsets(values, some_null=some_null), keys, items)
        if kind.children[0].name in _MERGING and any(
            len({repr(key) for key, _ in row}) < len(row) for row in maps.to_pylist() if row
        ):
            raise Misfit("of which two keys become one")
        return maps.cast(target) if maps.type != target else maps

    return convert


def _mapping(value: Any) -> Mapping[Any, Any]:
    """A map, which may be written as a list of pairs, as Arrow shows it."""
    if isinstance(value, Mapping):
        return value
    if not isinstance(value, list) or not all(isinstance(pair, tuple) and len(pair) == 2 for pair in value):
        raise Misfit
    try:
        mapping = dict(value)
    except TypeError:  # keys that are lists: no dict of Python's has them
        raise Misfit from None
    if len(mapping) < len(value):
        raise Misfit("of which two keys are equal")
    return mapping


_MERGING = ("float", "timestamp", "array", "struct", "map")
"""Types whose values may differ in Python and be equal in the column.

Digits are cut off, times without a zone are UTC.
"""

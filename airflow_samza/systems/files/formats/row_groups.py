"""Row groups that a reader can leave out: their statistics say that no row fulfils its bounds.

The reader of Parquet asks it, and tables of Delta, whose log has such statistics of whole files.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types

from airflow_samza.systems.system import ColumnBound

_RULED_OUT: dict[str, Callable[[Any, Any, Any], bool]] = {
    "=": lambda low, high, value: value < low or value > high,
    "<": lambda low, high, value: low >= value,
    "<=": lambda low, high, value: low > value,
    ">": lambda low, high, value: high <= value,
    ">=": lambda low, high, value: high < value,
}
"""Conditions under which a comparison is true of no value between two."""


def stored_columns(schema: pa.Schema) -> list[str]:
    """Return the column of a file to which each column that Parquet stores belongs, by place.

    The paths that a footer has are no names: ``a.b`` is a column of this name, or the field ``b`` of a column ``a``.
    """
    return [field.name for field in schema for _ in range(_stored(field.type))]


def plain_columns(schema: pa.Schema) -> dict[str, int]:
    """Return the plain columns of a file, with their places among the columns that Parquet stores."""
    plain = {field.name for field in schema if not types.is_nested(_storage(field.type))}
    return {name: place for place, name in enumerate(stored_columns(schema)) if name in plain}


def _storage(kind: pa.DataType) -> pa.DataType:
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def _stored(kind: pa.DataType) -> int:
    """Return the number of columns as which Parquet stores a type."""
    kind = _storage(kind)
    if not types.is_nested(kind):
        return 1
    return sum(_stored(kind.field(place).type) for place in range(kind.num_fields))


def may_fulfil(group: pq.RowGroupMetaData, bounds: Sequence[ColumnBound], places: Mapping[str, int]) -> bool:
    """Return whether the statistics leave open that a row of the group fulfils all bounds.

    ``places`` are those of :func:`plain_columns`.
    """
    if not group.num_rows:
        return True
    return not any(
        bound.column in places and _ruled_out(group.column(places[bound.column]), bound, group.num_rows)
        for bound in bounds
    )


def _ruled_out(column: pq.ColumnChunkMetaData, bound: ColumnBound, rows: int) -> bool:
    statistics = column.statistics
    if statistics is None:
        return False
    if bound.op == "is null":
        return bool(statistics.has_null_count and statistics.null_count == 0)
    if statistics.has_null_count and statistics.null_count == rows:
        return True
    if bound.op == "is not null" or not statistics.has_min_max:
        return False
    low, high = _comparable(statistics.min), _comparable(statistics.max)
    values = [_comparable(value) for value in (bound.value if bound.op == "in" else (bound.value,))]
    return excludes(bound.op, values, low, high)


def excludes(op: str, values: Sequence[Any], low: Any, high: Any) -> bool:
    """Return whether no value between two can be compared so with one of some values; None is of an unknown type."""
    if any(value is None or type(value) is not type(low) or type(low) is not type(high) for value in values):
        return False  # the file has another type than the stream
    test = _RULED_OUT["=" if op == "in" else op]
    return all(test(low, high, value) for value in values)


def _comparable(value: Any) -> Any:
    """Return a value in the order in which the format keeps its statistics; None for a type that has none here."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bool | datetime.datetime):
        return None
    return value if isinstance(value, int | datetime.date) else None

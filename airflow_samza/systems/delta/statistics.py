"""Statistics of data files in the log of their table: those of files that are written, and which files they rule out.

They are rows, bounds and nulls of columns, made from the footer. By them, and by values of partitions, files are known
that have no wanted row. Whole numbers, texts and dates are compared, as for all files; floats never are, because of NaN
no statistics tell.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types

from airflow_samza.systems.delta.partition_values import days, micros
from airflow_samza.systems.files.formats.file_format import TimeRange
from airflow_samza.systems.files.formats.row_groups import excludes, plain_columns
from airflow_samza.systems.system import ColumnBound
from airflow_samza.systems.tables.columns import TIME_UNITS, TableField

INDEXED = 32
"""Columns of which the log has statistics, where the table does not say otherwise."""

_LONGEST = 32
"""Characters of a text in the log."""
_LAST = "\U0010ffff"


def statistics_of(footer: pq.FileMetaData, indexed: int) -> str:
    """Return the statistics as the log has them; ``indexed`` is the number of columns that have some, -1: all."""
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    schema = footer.schema.to_arrow_schema()
    places = plain_columns(schema)
    for field in list(schema) if indexed < 0 else list(schema)[:indexed]:
        if field.name not in places:
            continue
        columns = [footer.row_group(group).column(places[field.name]) for group in range(footer.num_row_groups)]
        found = [column.statistics for column in columns]
        if any(one is None or not one.has_null_count for one in found):
            continue
        nulls[field.name] = sum(one.null_count for one in found)
        bounds = [one for one in found if one.num_values]
        if bounds and all(one.has_min_max for one in bounds) and _has_bounds(field.type):
            with suppress(ValueError, OverflowError):  # a time of which Python has none
                least, greatest = min(one.min for one in bounds), max(one.max for one in bounds)
                low[field.name], high[field.name] = _least(least, field.type), _greatest(greatest, field.type)
    stats = {"numRecords": footer.num_rows, "minValues": low, "maxValues": high, "nullCount": nulls}
    return json.dumps(stats, separators=(",", ":"), ensure_ascii=False)


def _has_bounds(kind: pa.DataType) -> bool:
    """Return whether bounds of a type are in the log: not of decimals, which readers take for floats."""
    return bool(types.is_integer(kind) or types.is_string(kind) or types.is_date(kind) or types.is_timestamp(kind))


def _least(value: Any, kind: pa.DataType) -> Any:
    return value[:_LONGEST] if isinstance(value, str) else _time(value, kind, math.floor)


def _greatest(value: Any, kind: pa.DataType) -> Any:
    if isinstance(value, str):
        return value if len(value) <= _LONGEST else f"{value[:_LONGEST]}{_LAST}"
    return _time(value, kind, math.ceil)


def _time(value: Any, kind: pa.DataType, rounded: Callable[[float], int]) -> Any:
    """Return a bound in whole milliseconds, as Delta has times."""
    if isinstance(value, datetime):
        millis = timedelta(milliseconds=rounded(value.microsecond / 1000))
        at = value.replace(microsecond=0, tzinfo=None) + millis
        return f"{at.isoformat('T', 'milliseconds')}{'Z' if kind.tz is not None else ''}"
    return value.isoformat() if isinstance(value, date) else value


_WHOLE = ("byte", "short", "int", "long")


class ValueRange(NamedTuple):
    """Range of a column in a file; ``low`` and ``high`` None: nothing is known. Dates are days, times microseconds.

    ``nulls`` and ``all_null`` tell whether some row may be null, and whether all are.
    """

    low: Any = None
    high: Any = None
    nulls: bool = True
    all_null: bool = False

    @classmethod
    def of_value(cls, value: Any) -> ValueRange:
        """Return the range of a partition's value."""
        return cls(value, value, value is None, value is None)

    @classmethod
    def of_statistics(cls, stats: Mapping[str, Any], name: str, word: str) -> ValueRange:
        """Return the range of a column by its physical name."""
        rows = stats.get("numRecords")
        null_count = (stats.get("nullCount") or {}).get(name)
        if not isinstance(null_count, int):
            null_count = None
        low, high = ((stats.get(key) or {}).get(name) for key in ("minValues", "maxValues"))
        try:
            low, high = _typed(low, word), _typed(high, word)
        except ValueError:
            low = high = None
        if isinstance(high, str) and high.endswith("\ufffd"):  # older writers mark so that they cut a text off
            high = f"{high[:-1]}{_LAST}"
        return cls(low, high, null_count != 0, rows is not None and null_count == rows)


def _typed(value: Any, word: str) -> Any:
    if word in _WHOLE:
        return value if type(value) is int else None
    if word == "string":
        return value if isinstance(value, str) else None
    if value is None:
        return None
    if word == "date":
        return days(str(value)[:10])
    return micros(str(value)) if word in ("timestamp", "timestamptz") else None


class Pruning:
    """Bounds of a reader, and the columns that they are about."""

    def __init__(
        self, bounds: Sequence[ColumnBound], within: TimeRange | None, columns: Mapping[str, TableField]
    ) -> None:
        self._bounds = [bound for bound in map(_plain, bounds) if bound.column in columns]
        self._within = within if within is not None and within.column in columns else None
        self._columns = columns

    @property
    def columns(self) -> set[str]:
        """The columns of which the ranges are needed."""
        names = {bound.column for bound in self._bounds}
        return names | ({self._within.column} if self._within is not None else set())

    def may_have_rows(self, ranges: Mapping[str, ValueRange]) -> bool:
        """Return False if no row of a file with these ranges can be wanted."""
        for bound in self._bounds:
            if bound.column in ranges and not _may_fulfil(bound, ranges[bound.column], self._word(bound.column)):
                return False
        within = self._within
        if within is None or within.column not in ranges:
            return True
        found, unit = ranges[within.column], TIME_UNITS.get(self._word(within.column))
        if found.all_null:
            return False
        if unit is None or found.low is None or found.high is None:
            return True
        return bool(found.high * unit >= within.of_statistics and found.low * unit < within.end)

    def _word(self, column: str) -> str:
        return self._columns[column].type.word


def _plain(bound: ColumnBound) -> ColumnBound:
    """Return a bound whose dates are days."""
    if bound.op == "in":
        return bound._replace(value=tuple(map(_day, bound.value)))
    return bound._replace(value=_day(bound.value))


def _day(value: Any) -> Any:
    return days(value.isoformat()) if isinstance(value, date) else value


def _may_fulfil(bound: ColumnBound, found: ValueRange, word: str) -> bool:
    if bound.op == "is null":
        return found.nulls
    if found.all_null:
        return False
    low, high = found.low, found.high
    if bound.op == "is not null" or low is None or high is None or word not in (*_WHOLE, "string", "date"):
        return True
    values = bound.value if bound.op == "in" else (bound.value,)
    return not excludes(bound.op, values, low, high)

"""Data files of a Delta table that have no wanted row: known by values of partitions, and by statistics in the log.

Whole numbers, texts and dates are compared, as for all files; floats never are, because of NaN no statistics tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, NamedTuple

from airflow_samza.systems.delta.partition_values import days, micros
from airflow_samza.systems.files.formats.file_format import TimeRange
from airflow_samza.systems.files.formats.row_groups import excludes
from airflow_samza.systems.system import ColumnBound
from airflow_samza.systems.tables.columns import TIME_UNITS, TableField

_WHOLE = ("byte", "short", "int", "long")
_LAST = "\U0010ffff"


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

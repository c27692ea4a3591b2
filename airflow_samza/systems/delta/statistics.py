"""Statistics of a written data file for the log of its table, from the footer: rows, bounds and nulls of columns."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from contextlib import suppress
from datetime import date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types

from airflow_samza.systems.files.formats.row_groups import plain_columns

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

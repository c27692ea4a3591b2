"""Event times as microseconds since 1970 (UTC): of a column, whatever its type, and those that user code returns.

The run loop, windows, joins and user callables take times through it.
"""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_samza.application.event_times import EVENT_TIMES
from airflow_samza.errors import SchemaError
from airflow_samza.schema import DataType, Schema

DAY_US = 86_400_000_000

LATEST_MS = 253_402_300_799_999
"""The end of the year 9999: a later time was most likely counted in another unit."""

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
_FIRST, _LAST = -62_135_596_800_000_000, LATEST_MS * 1000 + 999
"""The years 1 to 9999, in microseconds."""


def micros(column: pa.Array, kind: DataType, what: str) -> pa.Array:
    """The column's times as int64 microseconds, null where there is none; a ``bigint`` holds milliseconds.

    ``timestamp_ntz`` is read as UTC, a ``date`` as its midnight. ``what`` names the column in errors. A time outside of
    the years 1 to
    9999 is one: whatever is calculated with it might leave the range of numbers, and most likely it was counted in
    another unit.
    """
    times = micros_or_null(column, kind, what)
    if times.null_count > column.null_count:
        numbers, unit = _numbers(column, kind, what)
        ends = pc.min_max(numbers).as_py()
        far = ends["max"] if ends["max"] > _LAST // unit else ends["min"]
        raise SchemaError(
            f"The event time of {what} is {_shown(far, unit, kind)}, which is not in the years 1 to 9999.",
            hint="A bigint that holds event times counts milliseconds since 1970: divide it first with select. "
            "Leave out messages whose times are wrong with where.",
            value=far,
        )
    return times


def timed_messages(
    batch: pa.RecordBatch, schema: Schema, column: str | None, what: str
) -> tuple[pa.RecordBatch, Any, int]:
    """Return the messages that have an event time, their times (numpy, microseconds), and how many have none."""
    assert column is not None
    times = micros(batch.column(column), schema[column].type, what)
    timed = batch.filter(times.is_valid()) if times.null_count else batch
    return timed, times.drop_null().to_numpy(zero_copy_only=False), times.null_count


def micros_or_null(column: pa.Array, kind: DataType, what: str) -> pa.Array:
    """Return the same as :func:`micros`, with null where a time is outside of the years 1 to 9999.

    A condition behind an input may leave it out yet.
    """
    numbers, unit = _numbers(column, kind, what)
    ends = pc.min_max(numbers).as_py()
    if ends["min"] is not None and (ends["min"] < _FIRST // unit or ends["max"] > _LAST // unit):
        inside = pc.and_(pc.greater_equal(numbers, _FIRST // unit), pc.less_equal(numbers, _LAST // unit))
        numbers = pc.if_else(inside, numbers, pa.scalar(None, numbers.type))
    return numbers if unit == 1 else pc.multiply(numbers, unit)


def _numbers(column: pa.Array, kind: DataType, what: str) -> tuple[pa.Array, int]:
    """The column's times as whole numbers, and of how many microseconds each unit is."""
    if kind.name in ("timestamp", "timestamp_ntz"):
        return column.view(pa.int64()), 1
    if kind.name == "date":
        return column.view(pa.int32()).cast(pa.int64()), DAY_US
    if kind.name != "bigint":
        raise SchemaError(
            f"The event time of {what} is of type {kind.ddl()}, which holds no time.",
            hint=EVENT_TIMES,
        )
    return column, 1000


def _shown(number: int, unit: int, kind: DataType) -> str:
    if kind.name == "bigint":
        return str(number)
    return str(np.datetime64(number, "us" if unit == 1 else "D"))


def to_ms(value: Any) -> int | None:
    """A time that user code returned, as whole ms since 1970, rounded down: a datetime (naive: UTC) or ms.

    None when it is neither.

    >>> to_ms(datetime.datetime(1970, 1, 1, 0, 0, 1, 999))
    1000
    """
    if isinstance(value, datetime.datetime):
        aware = value if value.tzinfo is not None else value.replace(tzinfo=datetime.timezone.utc)
        return (aware - _EPOCH) // datetime.timedelta(milliseconds=1)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return None

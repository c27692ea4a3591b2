"""Event times: the column that holds them as microseconds since 1970 (UTC), whatever its type, and times that user code returns."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

from airflow_samza.errors import SchemaError
from airflow_samza.schema import DataType

if TYPE_CHECKING:
    import pyarrow as pa

DAY_US = 86_400_000_000

LATEST_MS = 253_402_300_799_999
"""The end of the year 9999: a later time was most likely counted in another unit."""

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
_MOST = (1 << 63) // 1000 - 1


def micros(column: pa.Array, kind: DataType, what: str) -> pa.Array:
    """The column's times as int64 microseconds, null where there is none; a ``bigint`` holds milliseconds.

    ``timestamp_ntz`` is read as UTC, a ``date`` as its midnight. ``what`` names the column in errors.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if kind.name in ("timestamp", "timestamp_ntz"):
        return column.view(pa.int64())
    if kind.name == "date":
        return pc.multiply(column.view(pa.int32()).cast(pa.int64()), DAY_US)
    if kind.name != "bigint":
        raise SchemaError(
            f"The event time of {what} is of type {kind.ddl()}, which holds no time.",
            hint="An event-time column is a timestamp, a date, or a bigint of milliseconds since 1970.",
        )
    try:
        return pc.multiply_checked(column, 1000)
    except pa.ArrowInvalid:
        far = pc.filter(column, pc.or_(pc.greater(column, _MOST), pc.less(column, -_MOST)))[0]
        raise SchemaError(
            f"The event time of {what} is {far}, which is no time in milliseconds since 1970.",
            hint="A bigint that holds event times counts milliseconds: divide it first with select.",
            value=far.as_py(),
        ) from None


def to_ms(value: Any) -> int | None:
    """A time that user code returned, as whole ms since 1970, rounded down: a datetime (naive: UTC) or ms; None when it is neither.

    >>> to_ms(datetime.datetime(1970, 1, 1, 0, 0, 1, 999))
    1000
    """
    if isinstance(value, datetime.datetime):
        aware = value if value.tzinfo is not None else value.replace(tzinfo=datetime.timezone.utc)
        return (aware - _EPOCH) // datetime.timedelta(milliseconds=1)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return None

"""Points in time that a format cannot hold: rejected when they are written, not when they are read.

Formats that write check by it.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from fractions import Fraction
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from airflow_samza.errors import SchemaError
from airflow_samza.systems.files.formats.nested import leaves_of

_DAY = 86_400_000_000

_UNITS: dict[str, int | Fraction] = {"s": 1_000_000, "ms": 1000, "us": 1, "ns": Fraction(1, 1000)}
"""Microseconds of the units of timestamps."""


class Times(NamedTuple):
    """The first and the last point in time that a format holds, in microseconds since 1970 in UTC.

    ``dates``: whether dates are bound by them, too.
    """

    first: int
    last: int
    dates: bool


FOUR_DIGITS = Times(-62_135_596_800_000_000, 253_402_300_799_999_999, True)
"""The years 1 to 9999, which text and Python's own types can say."""

NANOSECONDS = Times(-9_223_372_036_854_775, 9_223_372_036_854_775, False)
"""Times that 64 bits of nanoseconds hold: from September 1677 to April 2262."""


def unit_of(kind: pa.DataType) -> int | Fraction | None:
    """Return the microseconds of one unit of the numbers that a column has for points in time; None if it has none.

    Whole numbers are milliseconds since 1970 in UTC.
    """
    if types.is_timestamp(kind):
        return _UNITS[kind.unit]
    if types.is_date32(kind):
        return _DAY
    return 1000 if types.is_signed_integer(kind) else None


def reject_times(batch: pa.RecordBatch, times: Times, *, stream: str, format_name: str) -> None:
    """Reject rows with a point in time that the format cannot hold, at any depth."""
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        for leaf in leaves_of(column):
            kind = leaf.type
            if types.is_timestamp(kind) or (types.is_date32(kind) and times.dates):
                unit = int(unit_of(kind) or 0)
                bounds = pc.min_max(leaf.view(pa.int32() if types.is_date32(kind) else pa.int64()))
                for value in (bounds["min"].as_py(), bounds["max"].as_py()):
                    if value is not None and not times.first <= value * unit <= times.last:
                        _raise(value * unit, times, name, stream, format_name)


def _raise(micros: int, times: Times, name: str, stream: str, format_name: str) -> None:
    first, last = (
        datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=bound) for bound in (times.first, times.last)
    )
    near = f"{micros // _DAY} days from 1970"
    if FOUR_DIGITS.first <= micros <= FOUR_DIGITS.last:
        near = (
            (datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=micros))
            .isoformat()
            .replace("+00:00", "Z")
        )
    raise SchemaError(
        f"Column {name!r} of stream {stream!r} has a time ({near}) that {format_name} does not read back:"
        f" it holds times from {first.date().isoformat()} to {last.date().isoformat()}.",
        hint='Write Parquet (format="parquet"), which holds every time, or leave such rows out.',
        stream=stream,
        column=name,
    )

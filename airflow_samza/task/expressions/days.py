"""Days and moments as numbers.

The proleptic Gregorian calendar over all days that Spark knows, and how they are written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_samza.task.expressions.expression import EvaluationFailure, masked, values_of

DAY = 86_400_000_000
"""Microseconds of a day; there are no leap seconds."""

_FIRST, _LAST = -719162, 2932896
"""0001-01-01 and 9999-12-31: between them Arrow's calendar is used, which is faster and ends not much later."""


def numbers_of(array: Any) -> Any:
    """The days of dates, the microseconds of timestamps, as 64-bit integers."""
    kind = pa.int32() if pa.types.is_date(array.type) else pa.int64()
    return values_of(array.view(kind)).astype(np.int64, copy=False)


def days_of(array: Any) -> Any:
    """The days of dates or timestamps."""
    numbers = numbers_of(array)
    return numbers if pa.types.is_date(array.type) else numbers // DAY


def as_dates(days: Any, like: Any) -> Any:
    """Days as dates, with the nulls of ``like``; what does not fit into 32 bits wraps, as in Java."""
    return masked(days.astype(np.int32), like, pa.int32()).view(pa.date32())


def as_moments(micros: Any, like: Any) -> Any:
    """Microseconds as timestamps, with the nulls of ``like``."""
    return masked(micros, like, pa.int64()).view(pa.timestamp("us", "UTC"))


def midnights(dates: Any) -> Any:
    """Dates as the timestamps at which they begin."""
    days = days_of(dates)
    if len(days) and np.abs(days).max() > (1 << 63) // DAY:
        raise EvaluationFailure("ARITHMETIC_OVERFLOW", "A date does not fit into timestamp.")
    return as_moments(days * DAY, dates)


def months_of(days: Any) -> Any:
    """Months since January 1970."""
    return days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)


def first_of(months: Any) -> Any:
    """The first days of months."""
    return months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)


def monday_of(days: Any) -> Any:
    """The Mondays of the days' weeks."""
    return days - (days + 3) % 7


def _day_of_year(days: Any) -> Any:
    return days - first_of(months_of(days) // 12 * 12) + 1


_FIELDS: dict[str, tuple[str | None, Callable[[Any], Any]]] = {
    "year": ("year", lambda days: months_of(days) // 12 + 1970),
    "quarter": ("quarter", lambda days: months_of(days) % 12 // 3 + 1),
    "month": ("month", lambda days: months_of(days) % 12 + 1),
    # The week of a day is that of its Thursday.
    "week": ("iso_week", lambda days: (_day_of_year(monday_of(days) + 3) - 1) // 7 + 1),
    "day": ("day", lambda days: days - first_of(months_of(days)) + 1),
    "dayofyear": ("day_of_year", _day_of_year),
    "dayofweek": (None, lambda days: (days + 4) % 7 + 1),
    "weekday": (None, lambda days: (days + 3) % 7),
}


def field(name: str, array: Any) -> Any:
    """A field of dates or timestamps, as an array of ints."""
    kernel, exact = _FIELDS[name]
    days = days_of(array)
    if kernel is None or (len(days) and (days.min() < _FIRST or days.max() > _LAST)):
        return masked(exact(days).astype(np.int32), array, pa.int32())
    dates = array if pa.types.is_date(array.type) else as_dates(days, array)
    return pc.cast(pc.call_function(kernel, [dates]), pa.int32())


def date_text(dates: Any) -> Any:
    """Dates as Spark writes them: four digits of a year, more with a plus, before the year 0 a minus."""
    if _usual(dates):
        return pc.cast(dates, pa.string())
    return pa.array([None if day is None else _written(day) for day in dates.view(pa.int32()).to_pylist()], pa.string())


def moment_text(moments: Any) -> Any:
    """Timestamps as Spark writes them: no zeros at the end of a fraction, no point without one."""
    if _usual(moments):
        text = pc.cast(moments.view(pa.int64()).view(pa.timestamp("us")), pa.string())
        return pc.utf8_rtrim(pc.utf8_rtrim(text, characters="0"), characters=".")
    return pa.array(
        [None if micros is None else _written_moment(micros) for micros in moments.view(pa.int64()).to_pylist()],
        pa.string(),
    )


def _usual(array: Any) -> bool:
    days = days_of(array)
    return not len(days) or bool(days.min() >= _FIRST and days.max() <= _LAST)


def _written(day: int) -> str:
    moment = np.datetime64(day, "D")
    month = int(moment.astype("datetime64[M]").astype(np.int64))
    number = day - int(np.datetime64(month, "M").astype("datetime64[D]").astype(np.int64)) + 1
    year = month // 12 + 1970
    sign = "+" if year > 9999 else "-" if year < 0 else ""
    return f"{sign}{abs(year):04}-{month % 12 + 1:02}-{number:02}"


def _written_moment(micros: int) -> str:
    day, rest = divmod(micros, DAY)
    seconds, fraction = divmod(rest, 1_000_000)
    text = f"{_written(day)} {seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{fraction:06}".rstrip("0") if fraction else text

"""Functions of dates and timestamps, and these plus or minus days or intervals; the session's zone is UTC, always."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_samza.schema import DataType
from airflow_samza.task.expressions.casts import cast
from airflow_samza.task.expressions.days import (
    DAY,
    as_dates,
    as_moments,
    days_of,
    field,
    first_of,
    monday_of,
    months_of,
    numbers_of,
)
from airflow_samza.task.expressions.expression import (
    BIGINT,
    INT,
    EvaluationFailure,
    Expression,
    Function,
    UnsupportedExpression,
    applied,
    constant,
    masked,
    need,
    no_timestamp,
    spark_release,
)

DATE, TIMESTAMP = DataType("date"), DataType("timestamp")

_MONTHS = {"YEAR": 12, "YYYY": 12, "YY": 12, "QUARTER": 3, "MONTH": 1, "MON": 1, "MM": 1}
_MICROS = {
    "DAY": DAY,
    "DD": DAY,
    "HOUR": 3_600_000_000,
    "MINUTE": 60_000_000,
    "SECOND": 1_000_000,
    "MILLISECOND": 1000,
    "MICROSECOND": 1,
}
_INTERVAL_MONTHS = {"YEAR": 12, "MONTH": 1}
_INTERVAL_MICROS = {"WEEK": 7 * DAY, "DAY": DAY, "HOUR": 3_600_000_000, "MINUTE": 60_000_000, "SECOND": 1_000_000}
_PARTS = {
    **{name: name.lower() for name in ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DAYOFWEEK", "HOUR", "MINUTE")},
    **{"DOW": "dayofweek", "DOY": "dayofyear"},
}
_CLOCK = {"hour": (3_600_000_000, 24), "minute": (60_000_000, 60), "second": (1_000_000, 60)}


def part(name: str, operand: Expression) -> Expression:
    """A field of a date or timestamp, or the hour, minute or second of a timestamp; an int."""
    if name in _CLOCK:
        unit, size = _CLOCK[name]
        need(name, operand, "timestamp")
        return applied(
            INT,
            [operand],
            lambda moments: masked((numbers_of(moments) // unit % size).astype(np.int32), moments, pa.int32()),
        )
    return applied(INT, [need(name, operand, "date", "timestamp")], lambda array: field(name, array))


def extract(name: str, operand: Expression) -> Expression:
    """``extract(name FROM operand)`` and ``date_part``."""
    if name.upper() not in _PARTS:
        raise UnsupportedExpression(f"{name} is extracted")
    return part(_PARTS[name.upper()], operand)


def date_trunc(unit: Expression, operand: Expression) -> Expression:
    """``date_trunc(unit, operand)``: a timestamp."""
    name = constant("date_trunc", unit, "string").upper()
    operand = cast(need("date_trunc", operand, "timestamp", "date"), TIMESTAMP)
    if name in _MICROS:
        size = _MICROS[name]
        return applied(
            TIMESTAMP, [operand], lambda moments: _not_later(_floored(numbers_of(moments), size), moments), fails=True
        )
    shorten = _shortening("date_trunc", name)
    return applied(
        TIMESTAMP, [operand], lambda moments: _not_later(shorten(days_of(moments)) * DAY, moments), fails=True
    )


def _not_later(micros: Any, moments: Any) -> Any:
    """Reject a result that is later than what was cut off: the first of all timestamps was passed."""
    if (micros > numbers_of(moments)).any():
        raise no_timestamp()
    return as_moments(micros, moments)


def _floored(numbers: Any, size: int) -> Any:
    return numbers - numbers % size


def _shortening(function: str, name: str) -> Callable[[Any], Any]:
    if name == "WEEK":
        return monday_of
    if name not in _MONTHS:
        raise UnsupportedExpression(f"{function} to {name!r}")
    months = _MONTHS[name]
    return lambda days: first_of(_floored(months_of(days), months))


def trunc(operand: Expression, unit: Expression) -> Expression:
    """``trunc(operand, unit)``: a date."""
    shorten = _shortening("trunc", constant("trunc", unit, "string").upper())
    return applied(DATE, [_date("trunc", operand)], lambda dates: as_dates(shorten(days_of(dates)), dates))


def _date(name: str, operand: Expression) -> Expression:
    return cast(need(name, operand, "date", "timestamp"), DATE)


def shifted(name: str, operand: Expression, count: Expression, sign: int = 1) -> Expression:
    """``date_add`` and ``date_sub``: some days later or earlier."""
    need(name, count, "int", "smallint", "tinyint")

    def kernel(dates: Any, counts: Any) -> Any:
        moved = days_of(dates) + sign * counts.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        return masked_by(as_dates(moved, dates), counts)

    return applied(DATE, [_date(name, operand), count], kernel)


def masked_by(array: Any, other: Any) -> Any:
    """An array with the nulls of another, too."""
    return array if other.null_count == 0 else pc.if_else(other.is_valid(), array, pa.scalar(None, array.type))


def datediff(end: Expression, start: Expression) -> Expression:
    """``datediff(end, start)`` in days."""

    def kernel(one: Any, other: Any) -> Any:
        return masked_by(masked((days_of(one) - days_of(other)).astype(np.int32), one, pa.int32()), other)

    return applied(INT, [_date("datediff", end), _date("datediff", start)], kernel)


def add_months(operand: Expression, count: Expression) -> Expression:
    """``add_months(operand, count)``: the same day of another month, or its last."""
    need("add_months", count, "int", "smallint", "tinyint")

    def kernel(dates: Any, counts: Any) -> Any:
        moved = months_later(days_of(dates), counts.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64))
        fitting(masked_by(masked(moved, dates, pa.int64()), counts).drop_null().to_numpy(zero_copy_only=False))
        return masked_by(as_dates(moved, dates), counts)

    return applied(DATE, [_date("add_months", operand), count], kernel, fails=True)


def fitting(days: Any) -> Any:
    """Return days that dates can hold; what is further away is a failure."""
    if len(days) and (days.min() < -(1 << 31) or days.max() >= 1 << 31):
        raise EvaluationFailure("ARITHMETIC_OVERFLOW", "A date does not fit.")
    return days


def months_later(days: Any, count: Any) -> Any:
    """Days moved by months: where a month is too short, its last day."""
    months = months_of(days)
    target = months + count
    start = first_of(target)
    return np.minimum(start + days - first_of(months), first_of(target + 1) - 1)


def last_day(operand: Expression) -> Expression:
    """``last_day(operand)`` of the month."""
    return applied(
        DATE, [_date("last_day", operand)], lambda dates: as_dates(first_of(months_of(days_of(dates)) + 1) - 1, dates)
    )


def since_epoch(name: str, unit: int, operand: Expression) -> Expression:
    """``unix_seconds``, ``unix_millis``, ``unix_micros`` and ``unix_timestamp`` of a timestamp."""
    operand = cast(
        need(name, operand, *(("timestamp", "date") if name.endswith("_timestamp") else ("timestamp",))), TIMESTAMP
    )
    truncates = name.endswith("_timestamp")  # it divides as Java does, the others round down

    def kernel(moments: Any) -> Any:
        micros = numbers_of(moments)
        counts = micros // unit
        return masked(counts + ((micros < 0) & (micros % unit != 0)) if truncates else counts, moments, pa.int64())

    return applied(BIGINT, [operand], kernel)


def from_epoch(name: str, unit: int, operand: Expression) -> Expression:
    """``timestamp_seconds``, ``timestamp_millis`` and ``timestamp_micros`` of a whole number."""
    operand = cast(need(name, operand, "tinyint", "smallint", "int", "bigint"), BIGINT)

    def kernel(counts: Any) -> Any:
        values = counts.fill_null(0).to_numpy(zero_copy_only=False)
        limit = (1 << 63) // unit
        if unit > 1 and len(values) and (values.max() > limit or values.min() < -limit):
            raise no_timestamp("DATETIME_OVERFLOW") if spark_release() >= (4, 3) else no_timestamp()
        return as_moments(values * unit, counts)

    return applied(TIMESTAMP, [operand], kernel, fails=unit > 1)


def unix_date(operand: Expression) -> Expression:
    """``unix_date(operand)``: days since 1970-01-01."""
    return applied(INT, [need("unix_date", operand, "date")], lambda dates: dates.view(pa.int32()))


def interval_of(node: Any) -> tuple[int, int, bool]:
    """The months and microseconds of an interval literal of one unit, and whether it has whole days only."""
    from sqlglot import exp

    amount, unit = node.this, node.args.get("unit")
    if not isinstance(amount, exp.Literal) or not isinstance(unit, exp.Var):
        raise UnsupportedExpression("an interval of more than one unit")
    text, name = str(amount.this), unit.name.upper().removesuffix("S")
    if not re.fullmatch(r"[+-]?\d{1,9}", text) or name not in {**_INTERVAL_MONTHS, **_INTERVAL_MICROS}:
        raise UnsupportedExpression(f"INTERVAL {text} {unit.name}")
    number = int(text)
    if abs(number * _INTERVAL_MONTHS.get(name, 0)) >= 1 << 31 or abs(number * _INTERVAL_MICROS.get(name, 0)) >= 1 << 63:
        raise UnsupportedExpression(f"INTERVAL {text} {unit.name} is longer than an interval can be")
    return number * _INTERVAL_MONTHS.get(name, 0), number * _INTERVAL_MICROS.get(name, 0), name in ("DAY", "WEEK")


def shifted_by(operand: Expression, interval: tuple[int, int, bool], sign: int) -> Expression:
    """``operand ± INTERVAL …``: a date stays a date when the interval has no hours."""
    months, micros, whole_days = interval
    if operand.type == DATE and (months or whole_days):
        if not months:
            days = sign * micros // DAY  # added in 32 bits, as date_add does: what is too far begins at the other end
            return applied(DATE, [operand], lambda dates: as_dates(days_of(dates) + days, dates))

        def moved(dates: Any) -> Any:
            return as_dates(fitting(_moved(days_of(dates), sign * months)), dates)

        return applied(DATE, [operand], moved, fails=True)
    if operand.type not in (DATE, TIMESTAMP):
        raise UnsupportedExpression(f"an interval is added to a {operand.type.ddl()}")

    def kernel(moments: Any) -> Any:
        values = numbers_of(moments)
        days = values // DAY
        result = (
            (_moved(days, sign * months) - days).astype(np.float64) * DAY + values.astype(np.float64) + sign * micros
        )
        if len(values) and np.abs(result).max() > 2.0**63 - 4096:
            raise no_timestamp()
        return as_moments(values + (_moved(days, sign * months) - days) * DAY + sign * micros, moments)

    return applied(TIMESTAMP, [cast(operand, TIMESTAMP)], kernel, fails=True)


def _moved(days: Any, months: int) -> Any:
    return months_later(days, np.int64(months)) if months else days


def moved_by_days(symbol: str, left: Expression, right: Expression) -> Expression | None:
    """``date + n``, ``n + date`` and ``date - n``; None when it is nothing of that kind."""
    if symbol == "+" and right.type == DATE:
        left, right = right, left
    if left.type == DATE and right.type.name in ("int", "smallint", "tinyint") and symbol in "+-":
        return shifted(f"date {symbol}", left, right, 1 if symbol == "+" else -1)
    return None


FUNCTIONS = {
    **{
        name: Function(partial(part, name))
        for name in ("year", "quarter", "month", "day", "dayofyear", "dayofweek", "weekday", *_CLOCK)
    },
    "dayofmonth": Function(partial(part, "day")),
    "weekofyear": Function(partial(part, "week")),
    "date_part": Function(lambda name, operand: extract(constant("date_part", name, "string"), operand), 2, 2),
    "datepart": Function(lambda name, operand: extract(constant("datepart", name, "string"), operand), 2, 2),
    "date_trunc": Function(date_trunc, 2, 2),
    "trunc": Function(trunc, 2, 2),
    "date_add": Function(partial(shifted, "date_add"), 2, 2),
    "dateadd": Function(partial(shifted, "dateadd"), 2, 2),
    "date_sub": Function(partial(shifted, "date_sub", sign=-1), 2, 2),
    "datediff": Function(datediff, 2, 2),
    "date_diff": Function(datediff, 2, 2),
    "add_months": Function(add_months, 2, 2),
    "last_day": Function(last_day),
    "to_date": Function(partial(cast, kind=DATE)),
    "to_timestamp": Function(partial(cast, kind=TIMESTAMP)),
    "unix_date": Function(unix_date),
    **{
        f"unix_{name}": Function(partial(since_epoch, f"unix_{name}", unit))
        for name, unit in (("seconds", 1_000_000), ("millis", 1000), ("micros", 1), ("timestamp", 1_000_000))
    },
    "to_unix_timestamp": Function(partial(since_epoch, "to_unix_timestamp", 1_000_000)),
    **{
        f"timestamp_{name}": Function(partial(from_epoch, f"timestamp_{name}", unit))
        for name, unit in (("seconds", 1_000_000), ("millis", 1000), ("micros", 1))
    },
}

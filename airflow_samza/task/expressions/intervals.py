"""Dates and timestamps plus or minus a number of days or an interval literal."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from airflow_samza.task.expressions.casts import cast
from airflow_samza.task.expressions.dates import DATE, TIMESTAMP, fitting, months_later, shifted
from airflow_samza.task.expressions.days import DAY, as_dates, as_moments, days_of, numbers_of
from airflow_samza.task.expressions.expression import Expression, UnsupportedExpression, no_timestamp
from airflow_samza.task.expressions.signature import applied

_MONTHS = {"YEAR": 12, "MONTH": 1}
_MICROS = {"WEEK": 7 * DAY, "DAY": DAY, "HOUR": 3_600_000_000, "MINUTE": 60_000_000, "SECOND": 1_000_000}


def interval_of(node: Any) -> tuple[int, int, bool]:
    """The months and microseconds of an interval literal of one unit, and whether it has whole days only."""
    from sqlglot import exp

    amount, unit = node.this, node.args.get("unit")
    if not isinstance(amount, exp.Literal) or not isinstance(unit, exp.Var):
        raise UnsupportedExpression("an interval of more than one unit")
    text, name = str(amount.this), unit.name.upper().removesuffix("S")
    if not re.fullmatch(r"[+-]?\d{1,9}", text) or name not in {**_MONTHS, **_MICROS}:
        raise UnsupportedExpression(f"INTERVAL {text} {unit.name}")
    number = int(text)
    if abs(number * _MONTHS.get(name, 0)) >= 1 << 31 or abs(number * _MICROS.get(name, 0)) >= 1 << 63:
        raise UnsupportedExpression(f"INTERVAL {text} {unit.name} is longer than an interval can be")
    return number * _MONTHS.get(name, 0), number * _MICROS.get(name, 0), name in ("DAY", "WEEK")


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

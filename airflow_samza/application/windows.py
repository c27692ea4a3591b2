"""What a user says of windows and aggregations: ``tumbling("1 minute")``, ``count()``, ``avg("delay")``. Values only."""

from __future__ import annotations

import re
from dataclasses import dataclass

from airflow_samza.errors import InvalidApplication

AGGREGATE_FUNCTIONS = ("count", "count_distinct", "sum", "min", "max", "avg", "first", "last", "collect")


@dataclass(frozen=True)
class Aggregation:
    """One aggregation: the output column ``name``, the ``function`` and the input ``column`` (None: whole messages).

    Null columns are left out, as in SQL; ``count()`` counts messages, ``count("x")`` the non-null values of x.
    """

    function: str
    column: str | None = None
    name: str = ""

    def named(self, name: str) -> Aggregation:
        """The same aggregation under the output column's name."""
        return Aggregation(self.function, self.column, name)


def count(column: str | None = None) -> Aggregation:
    """The number of messages, or of the non-null values of a column (bigint, never null)."""
    return Aggregation("count", column)


def count_distinct(column: str) -> Aggregation:
    """The number of different non-null values of a column (bigint, never null)."""
    return Aggregation("count_distinct", column)


def sum_(column: str) -> Aggregation:
    """The sum of a numeric column (integers as bigint, else double or decimal; null when there is no value)."""
    return Aggregation("sum", column)


def min_(column: str) -> Aggregation:
    """The smallest value of a column (its own type; null when there is no value)."""
    return Aggregation("min", column)


def max_(column: str) -> Aggregation:
    """The greatest value of a column (its own type; null when there is no value)."""
    return Aggregation("max", column)


def avg(column: str) -> Aggregation:
    """The mean of a numeric column (double; null when there is no value)."""
    return Aggregation("avg", column)


def first(column: str) -> Aggregation:
    """The first non-null value of a column in the order in which the task reads."""
    return Aggregation("first", column)


def last(column: str) -> Aggregation:
    """The last non-null value of a column in the order in which the task reads."""
    return Aggregation("last", column)


def collect(column: str) -> Aggregation:
    """All non-null values of a column, as an array, in the order in which the task reads."""
    return Aggregation("collect", column)


@dataclass(frozen=True)
class WindowSpec:
    """A kind of window: ``tumbling``, ``hopping`` or ``session``; lengths in ms.

    ``hop_ms`` is the distance of two starts (hopping), ``gap_ms`` the pause that ends a session. ``time`` is ``event``
    or ``processing``; ``zone`` the time zone in which days start.
    """

    kind: str
    duration_ms: int | None = None
    hop_ms: int | None = None
    gap_ms: int | None = None
    time: str = "event"
    zone: str = "UTC"
    early_every: int | None = None
    early_after_ms: int | None = None
    accumulating: bool = False


_UNITS = {
    "ms": 1,
    "millisecond": 1,
    "second": 1000,
    "minute": 60_000,
    "hour": 3_600_000,
    "day": 86_400_000,
    "week": 604_800_000,
}


def duration_ms(value: str | int) -> int:
    """A length of time in ms, from ms or from text such as ``"5 minutes"``.

    >>> duration_ms("5 minutes"), duration_ms(250)
    (300000, 250)
    """
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    match = re.fullmatch(r"\s*(\d+)\s*([a-z]+?)s?\s*", value) if isinstance(value, str) else None
    unit = _UNITS.get(match[2]) or _UNITS.get(match[2] + "s") if match else None
    if match is None or unit is None or int(match[1]) == 0:
        raise InvalidApplication(
            f"{value!r} is not a length of time.",
            hint='Write a number of ms or a text such as "30 seconds", "5 minutes", "1 hour", "7 days".',
            value=value,
        )
    return int(match[1]) * unit


def tumbling(duration: str | int, *, time: str = "event", zone: str = "UTC") -> WindowSpec:
    """Windows of one length, one after the other."""
    return WindowSpec("tumbling", duration_ms=duration_ms(duration), time=time, zone=zone)


def hopping(duration: str | int, hop: str | int, *, time: str = "event", zone: str = "UTC") -> WindowSpec:
    """Windows of one length that start every ``hop``; they overlap when the hop is shorter than the length."""
    return WindowSpec("hopping", duration_ms=duration_ms(duration), hop_ms=duration_ms(hop), time=time, zone=zone)


def session(gap: str | int, *, time: str = "event") -> WindowSpec:
    """Windows that end when a key has been silent for ``gap``."""
    return WindowSpec("session", gap_ms=duration_ms(gap), time=time)

"""Partition keys that are dates: the interval that each names, by its form.

The forms are those in which Airflow's timetables and mappers write dates. Airflow's run identity and the plan step read
by it the slot and the interval of a run.
"""

from __future__ import annotations

import re
from calendar import monthrange
from dataclasses import dataclass
from datetime import datetime, timedelta

FORMS = "2026 (a year), 2026-Q1, 2026-01, 2026-W01, 2026-01-31, 20260131 or 2026-01-31T05 (an hour)"
"""The forms of keys that name an interval, as a hint lists them."""

_YEARS = range(1900, 2200)
"""Years of keys: other numbers of four digits are rather those of shops or customers."""

_DAY = r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)"
_FORMS = {
    unit: re.compile(form)
    for unit, form in {
        "hour": rf"{_DAY}[T ](?P<hour>\d\d)",
        "day": rf"{_DAY}|(?P<year_>\d{{4}})(?P<month_>\d\d)(?P<day_>\d\d)",
        "week": rf"{_DAY} \(W\d\d\)|(?P<year_>\d{{4}})-W(?P<week>\d\d)",
        "month": r"(?P<year>\d{4})-(?P<month>\d\d)",
        "quarter": r"(?P<year>\d{4})-Q(?P<quarter>[1-4])",
        "year": r"(?P<year>\d{4})",
    }.items()
}
_MOMENT = re.compile(rf"{_DAY}[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?")

_EARLIEST, _LATEST = timedelta(hours=-12), timedelta(hours=14)
"""Offsets of time zones from UTC."""

_CLOCKS = timedelta(hours=2)
"""The most by which the offset of a zone changes within an interval."""


@dataclass(frozen=True)
class KeyInterval:
    """The interval that a partition key names, as the clocks of its time zone show it; ``unit`` is its length."""

    unit: str
    start: datetime
    end: datetime


def key_interval(key: str | None) -> KeyInterval | None:
    """Return the interval that a key names; None of a key that is no date.

    >>> [str(key_interval(key).end) for key in ("2026-01-31", "20260131", "2026-01", "2026-Q4", "2026-01-31T23")]
    ['2026-02-01 00:00:00', '2026-02-01 00:00:00', '2026-02-01 00:00:00', '2027-01-01 00:00:00', '2026-02-01 00:00:00']
    >>> key_interval("2026-W01").start == key_interval("2025-12-29 (W01)").start == datetime(2025, 12, 29)
    True
    >>> key_interval("eu-west"), key_interval("2026-02-30"), key_interval("2026-01-31T05:00:00"), key_interval("1042")
    (None, None, None, None)
    """
    for unit, form in _FORMS.items():
        match = form.fullmatch(key or "")
        if match is not None:
            parts = {name.rstrip("_"): int(text) for name, text in match.groupdict().items() if text is not None}
            try:
                start = _start(parts)
                return KeyInterval(unit, start, _end(start, unit)) if start.year in _YEARS else None
            except (ValueError, OverflowError):
                return None
    return None


def is_moment(key: str | None) -> bool:
    """Return whether a key is the time at which a partition begins, which does not say how long it is."""
    return _MOMENT.fullmatch(key or "") is not None


def beginning(unit: str, moment: datetime) -> datetime:
    """Return the beginning of the hour, day, month … of a moment, on the same clock.

    >>> str(beginning("week", datetime(2026, 1, 1, 5))), str(beginning("quarter", datetime(2026, 6, 30)))
    ('2025-12-29 00:00:00', '2026-04-01 00:00:00')
    """
    if unit == "hour":
        return moment.replace(minute=0, second=0, microsecond=0)
    day = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    if unit == "week":
        return day - timedelta(days=day.weekday())
    if unit == "day":
        return day
    month = {"month": day.month, "quarter": day.month - (day.month - 1) % 3, "year": 1}[unit]
    return day.replace(month=month, day=1)


def months_later(moment: datetime, months: int) -> datetime:
    """Return the moment so many months later; a month after the 31st is the last day of the next.

    >>> str(months_later(datetime(2026, 1, 31), 1)), str(months_later(datetime(2026, 1, 31), -2))
    ('2026-02-28 00:00:00', '2025-11-30 00:00:00')
    """
    year, month = divmod(moment.year * 12 + moment.month - 1 + months, 12)
    return moment.replace(year=year, month=month + 1, day=min(moment.day, monthrange(year, month + 1)[1]))


def names_interval(key: str | None, start: datetime, end: datetime) -> bool:
    """Return whether a key names the interval between two instants (UTC, both without a zone) in some time zone.

    Of a key that is a moment it is the one that begins then, in UTC.

    >>> names_interval("2026-01-31", datetime(2026, 1, 30, 16), datetime(2026, 1, 31, 16))
    True
    >>> names_interval("2026-01-31", datetime(2026, 1, 25), datetime(2026, 2, 1))
    False
    >>> names_interval("2026-01-31T00:00:00", datetime(2026, 1, 31), datetime(2026, 2, 1))
    True
    """
    named = key_interval(key)
    if named is None:
        return key is not None and is_moment(key) and key.replace(" ", "T") == start.isoformat()
    first, last = named.start - start, named.end - end
    return all(_EARLIEST <= offset <= _LATEST for offset in (first, last)) and abs(first - last) <= _CLOCKS


def _start(parts: dict[str, int]) -> datetime:
    if "week" in parts:
        return datetime.fromisocalendar(parts["year"], parts["week"], 1)
    month = 3 * parts["quarter"] - 2 if "quarter" in parts else parts.get("month", 1)
    return datetime(parts["year"], month, parts.get("day", 1), parts.get("hour", 0))


def _end(start: datetime, unit: str) -> datetime:
    if unit in ("hour", "day", "week"):
        return start + timedelta(**{f"{unit}s": 1})
    return months_later(start, {"month": 1, "quarter": 3, "year": 12}[unit])

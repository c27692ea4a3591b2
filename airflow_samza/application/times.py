"""Lengths of time and time zones that users write.

Used wherever a user writes one: in declarations, options, commands and operators' arguments.
"""

from __future__ import annotations

import re
import zoneinfo
from datetime import timedelta

from airflow_samza.application.rejections import did_you_mean, reject


def is_time_zone(name: object) -> bool:
    """Return whether a name is one of the IANA database.

    >>> is_time_zone("Europe/Amsterdam"), is_time_zone("Amsterdam"), is_time_zone("Europe")
    (True, False, False)
    """
    try:
        zoneinfo.ZoneInfo(name)  # type: ignore[arg-type]  # anything may be a name here
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, TypeError, OSError):
        return False
    return True


def time_zone_hint(name: object) -> str:
    """Return what to write in place of a name that is no time zone.

    >>> time_zone_hint("Europe/Asterdam").partition("? ")[0]
    "Did you mean 'Europe/Amsterdam'"
    """
    zones = zoneinfo.available_timezones()
    by_place = {zone.rpartition("/")[2]: zone for zone in sorted(zones) if "/" in zone}
    place = by_place.get(str(name).strip().replace(" ", "_").title())
    near = did_you_mean(str(name), zones) if place is None else f"Did you mean {place!r}? "
    return f'{near}Write a name of the IANA database, such as "Europe/Amsterdam".'


def duration_text(ms: int) -> str:
    """Return a length of time in its largest whole unit.

    >>> duration_text(7_200_000), duration_text(1600)
    ('2 hours', '1600 ms')
    """
    for unit, word in ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute"), (1000, "second")):
        if ms >= unit and ms % unit == 0:
            return f"{ms // unit} {word}{'' if ms == unit else 's'}"
    return f"{ms} ms"


_UNITS = {
    "ms": 1,
    "millisecond": 1,
    "s": 1000,
    "second": 1000,
    "minute": 60_000,
    "hour": 3_600_000,
    "day": 86_400_000,
    "week": 604_800_000,
}


def duration_ms(value: str | int | timedelta, *, zero: bool = False) -> int:
    """Return a length of time in ms, from ms, from a ``timedelta`` or from text such as ``"5 minutes"``.

    ``zero`` allows none at all.

    >>> duration_ms("5 minutes"), duration_ms(250), duration_ms(timedelta(hours=1)), duration_ms("0 minutes", zero=True)
    (300000, 250, 3600000, 0)
    """
    length: int | None = None
    if isinstance(value, timedelta):
        length = value // timedelta(milliseconds=1)
    elif isinstance(value, int) and not isinstance(value, bool):
        length = value
    elif isinstance(value, str) and (match := re.fullmatch(r"\s*(\d{1,18})\s*([a-z]+)\s*", value)):
        unit = _UNITS.get(match[2]) or _UNITS.get(match[2].removesuffix("s"))
        length = int(match[1]) * unit if unit is not None else None
    if length is not None and (length < 0 or (length == 0 and not zero)):
        reject(
            f"{value!r} is no positive length of time",
            hint='Write a positive length, such as "30 seconds", "5 minutes", "1 hour", "7 days".',
            value=value,
        )
    if length is None:
        reject(
            f"{value!r} is not a length of time",
            hint='Write a number of ms, a timedelta or a text such as "30 seconds", "5 minutes", "1 hour", "7 days".',
            value=value,
        )
    return length

"""Time zones that users name: of windows, and of the times in path templates."""

from __future__ import annotations

import zoneinfo

from airflow_samza.application.rejections import did_you_mean


def is_time_zone(name: object) -> bool:
    """Return whether a name is one of the IANA database.

    >>> is_time_zone("Europe/Amsterdam"), is_time_zone("Amsterdam"), is_time_zone("Europe")
    (True, False, False)
    """
    try:
        zoneinfo.ZoneInfo(name)  # type: ignore[arg-type]
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, TypeError, OSError):
        return False
    return True


def time_zone_hint(name: object) -> str:
    """Return what to write in place of a name that is no time zone.

    >>> time_zone_hint("Europe/Asterdam").partition("? ")[0]
    "Did you mean 'Europe/Amsterdam'"
    """
    known = zoneinfo.available_timezones()
    by_place = {zone.rpartition("/")[2]: zone for zone in sorted(known) if "/" in zone}
    place = by_place.get(str(name).strip().replace(" ", "_").title())
    near = did_you_mean(str(name), known) if place is None else f"Did you mean {place!r}? "
    return f'{near}Write a name of the IANA database, such as "Europe/Amsterdam".'

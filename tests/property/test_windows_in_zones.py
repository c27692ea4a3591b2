"""Windows in the zones of the tz database, around the changes of their clocks, against wall clocks read second by second.

The model knows nothing of offsets that stay: it looks at the clock at one instant after the other, in plain Python, and
notes where windows begin. Each instant has to be in exactly the window that the model gives it, with its beginning and
its end.
"""

from __future__ import annotations

import bisect
import functools
import importlib.resources
import math
import zoneinfo
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import pytest

from airflow_samza import hopping, tumbling
from airflow_samza.task.operators.windows.grids import Grid, grid_of
from tests.support.budgets import extended_but

MINUTE, HOUR, DAY = 60, 3_600, 86_400
SIZES = (1, 5, 15, 30, HOUR // 60, 90, 120, 180, 360, 480, 720, 1_440, 2_880, 7 * 1_440, 30 * 1_440)
"""Lengths in minutes, from a minute to a month."""

SINCE, UNTIL = 0, 70 * 365 * DAY + 17 * DAY
"""1970 to 2040."""

KINDS = (
    ("Antarctica/Vostok", 760035600),
    ("Antarctica/Casey", 1615640400),
    ("America/Argentina/Catamarca", 667965600),
    ("Africa/Algiers", 54774000),
    ("America/Montevideo", 147234600),
    ("Asia/Kathmandu", 504901800),
    ("America/Paramaribo", 465449400),
    ("Pacific/Kiritimati", 307622400),
    ("Africa/Monrovia", 63593070),
    ("America/Guyana", 176096700),
    ("Africa/Algiers", 231724800),
    ("America/Montevideo", 127278000),
    ("America/Argentina/Catamarca", 687931200),
    ("America/Danmarkshavn", 820465200),
    ("Antarctica/Vostok", 783648000),
    ("Kwajalein", 745934400),
    ("America/Goose_Bay", 594180060),
    ("America/Goose_Bay", 562129260),
    ("America/Goose_Bay", 544593660),
    ("America/Goose_Bay", 576043260),
    ("Antarctica/Casey", 1601740860),
    ("Asia/Colombo", 846266400),
    ("Africa/Tunis", 243903600),
    ("Africa/Algiers", 259545600),
    ("Antarctica/Davis", 1268251200),
    ("Antarctica/Casey", 1267714800),
    ("America/Iqaluit", 941349600),
    ("Africa/Algiers", 341802000),
    ("Australia/LHI", 511282800),
    ("Australia/LHI", 499188600),
    ("Africa/Casablanca", 1335664800),
    ("America/Bahia_Banderas", 1270371600),
    ("Antarctica/Casey", 1255802400),
    ("Pacific/Guam", 209487660),
    ("Asia/Bishkek", 877811400),
    ("America/Caracas", 1462086000),
    ("Asia/Bishkek", 859671000),
    ("NZ-CHAT", 152632800),
    ("Antarctica/Casey", 1552752000),
    ("Antarctica/Troll", 1130634000),
    ("Africa/Algiers", 275274000),
    ("America/Caracas", 1197183600),
    ("Asia/Baghdad", 670464000),
    ("Antarctica/Casey", 1570129200),
    ("Asia/Hong_Kong", 25036200),
    ("Asia/Hong_Kong", 9315000),
    ("NZ-CHAT", 162309600),
    ("Antarctica/Casey", 1329843600),
    ("Asia/Baghdad", 686275200),
    ("America/Managua", 694260000),
    ("Antarctica/Casey", 1538856000),
    ("Asia/Baku", 877824000),
    ("Asia/Baku", 828234000),
    ("Asia/Baku", 846378000),
    ("Europe/Athens", 291798000),
    ("Africa/Juba", 947930400),
    ("Chile/EasterIsland", 7527600),
    ("Chile/EasterIsland", 24465600),
    ("Chile/EasterIsland", 416372400),
    ("America/Danmarkshavn", 354675600),
    ("America/Danmarkshavn", 338950800),
    ("Africa/Algiers", 41468400),
    ("Asia/Kuala_Lumpur", 378662400),
)
"""A change of each kind that there is: its zone, and a second in it."""

_NAIVE = datetime(1970, 1, 1)
_PARTS = 16


class Change(NamedTuple):
    """A change of a clock: at ``at`` (s since 1970) it goes from ``before`` to ``after`` (s ahead of UTC)."""

    zone: str
    at: int
    before: int
    after: int

    @property
    def kind(self) -> tuple[int, int]:
        """The time of the day that the clock had reached, and how far it goes; equal ones make equal windows."""
        return (self.at + self.before) % DAY, self.after - self.before


@functools.cache
def zones() -> list[str]:
    """All zones, one name of those whose rules are equal."""
    found: dict[bytes, str] = {}
    for name in sorted(zoneinfo.available_timezones()):
        places = [Path(folder) / name for folder in zoneinfo.TZPATH]
        file = next((place for place in places if place.is_file()), None)
        packaged = importlib.resources.files("tzdata").joinpath("zoneinfo", *name.split("/"))
        found.setdefault(packaged.read_bytes() if file is None else file.read_bytes(), name)
    return sorted(found.values())


def offset(at: int, zone: zoneinfo.ZoneInfo) -> int:
    found = datetime.fromtimestamp(at, zone).utcoffset()
    assert found is not None
    return found.days * DAY + found.seconds


def changes(name: str) -> Iterator[Change]:
    """All changes of a zone's clock from 1970 to 2040; no two of them are within three days of each other."""
    zone = zoneinfo.ZoneInfo(name)
    before = offset(SINCE, zone)
    for low in range(SINCE, UNTIL, 2 * DAY):
        after = offset(low + 2 * DAY, zone)
        if after != before:
            yield change_in(name, low)
        before = after


def change_in(name: str, low: int) -> Change:
    """The change of a zone's clock in the two days from ``low``."""
    zone = zoneinfo.ZoneInfo(name)
    before = offset(low, zone)
    two_days = range(low, low + 2 * DAY + 1)
    at = two_days[bisect.bisect_left(two_days, True, key=lambda at: offset(at, zone) != before)]
    return Change(name, at, before, offset(at, zone))


class Clock:
    """Readings of the wall clock of a zone around a change: its minutes within two days, its hours within 45."""

    def __init__(self, change: Change) -> None:
        zone = zoneinfo.ZoneInfo(change.zone)
        begin, end = change.at - 2 * DAY, change.at + 2 * DAY
        minutes = {*_shown_whole(begin, end, MINUTE, change.before), *_shown_whole(begin, end, MINUTE, change.after)}
        fine = sorted({*minutes, change.at})
        self.at = [*_hours(begin - 43 * DAY, fine[0], zone), *fine, *_hours(fine[-1] + 1, end + 43 * DAY, zone)]
        clock = [datetime.fromtimestamp(at, zone).replace(tzinfo=None) - _NAIVE for at in self.at]
        self.seconds = [shown.days * DAY + shown.seconds for shown in clock]
        self.fine = (self.at.index(fine[0]), self.at.index(fine[-1]) + 1)

    def starts(self, size: int) -> tuple[list[int], list[int]]:
        """The instants that the model looks at for windows of ``size`` seconds, and those at which one begins.

        Windows of whole days begin when the clock first shows the midnight of such a day, or jumps over it. Shorter
        ones whenever it shows a multiple of their length, or jumps over one.
        """
        first, last = self.fine if size < DAY else (0, len(self.at))
        at, shown = self.at[first:last], self.seconds[first:last]
        found: list[int] = []
        reached = shown[0]
        for place in range(1, len(at)):
            now = shown[place]
            if now // size > reached // size or (size < DAY and now % size == 0):
                found.append(at[place])
            reached = max(reached, now) if size >= DAY else now
        return at, found


def _hours(begin: int, end: int, zone: zoneinfo.ZoneInfo) -> range:
    """The instants at which the clock shows whole hours; where it changes by less, more of them."""
    first = offset(begin, zone)
    return _shown_whole(begin, end, math.gcd(HOUR, *(offset(at, zone) - first for at in range(begin, end, DAY))), first)


def _shown_whole(begin: int, end: int, unit: int, ahead: int) -> range:
    """The instants at which a clock that is so many seconds ahead shows multiples of a unit."""
    return range(begin + -(begin + ahead) % unit, end, unit)


def grid(zone: str, size: int, hops: int = 1) -> Grid:
    length, hop = size * hops * 1000, size * 1000
    return grid_of(tumbling(length, zone=zone) if hops == 1 else hopping(length, hop, zone=zone))


def check(change: Change, clock: Clock, size: int, hops: int) -> None:
    """Each instant near the change is in the windows of the model, which end where the model has them end."""
    import numpy as np

    looked, starts = clock.starts(size)
    first, last = starts[hops - 1], starts[-hops]
    assert first <= change.at < last
    asked = [at for at in looked if first <= at < last]
    micros = np.array(asked) * 1_000_000
    micros = np.unique(np.concatenate([micros, micros + 999_999, micros[1:] - 1]))
    place = np.searchsorted(np.array(starts) * 1_000_000, micros, "right") - 1
    edges = np.array(starts) * 1_000_000
    windows = grid(change.zone, size, hops)
    rows, found = windows.assign(micros)
    assert rows is None or (rows == np.repeat(np.arange(len(micros)), hops)).all(), (change, size)
    expected = edges[place[:, None] - np.arange(hops - 1, -1, -1)].ravel()
    wrong = np.flatnonzero(found != expected)
    assert not len(wrong), (
        change,
        size,
        micros[wrong[0] // hops] / 1e6,
        found[wrong[0]] / 1e6,
        expected[wrong[0]] / 1e6,
    )
    assert (windows.ends(edges[:-hops]) == edges[hops:]).all(), (change, size)
    assert (windows.latest_ends(micros) == edges[place + hops]).all(), (change, size)
    for some in range(0, len(micros), max(1, len(micros) // 40)):
        assert windows.earliest_open(int(micros[some])) == edges[place[some] + 1 - hops], (change, size)


@functools.cache
def kinds() -> list[tuple[Change, Clock]]:
    found = [change_in(zone, at - DAY) for zone, at in KINDS]
    return [(change, Clock(change)) for change in found]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("minutes", extended_but([5, 90, 360, 1_440, 30 * 1_440], SIZES))
@pytest.mark.few(2, 3)
def test_windows_cover_each_instant_once_and_end_at_every_kind_of_change(minutes: int) -> None:
    for number, (change, clock) in enumerate(kinds()):
        check(change, clock, minutes * MINUTE, hops=3 if number % 4 == 0 and minutes < 30 * 1_440 else 1)


@pytest.mark.nightly
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("part", range(_PARTS))
def test_windows_cover_each_instant_once_and_end_in_every_zone_at_every_change(part: int) -> None:
    for name in zones()[part::_PARTS]:
        for change in changes(name):
            clock = Clock(change)
            for minutes in SIZES:
                check(change, clock, minutes * MINUTE, 1)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("zone", "day"),
    [
        ("Africa/Cairo", (2026, 4, 24)),
        ("America/Havana", (2026, 3, 8)),
        ("America/Santiago", (2026, 9, 6)),
        ("Asia/Beirut", (2026, 3, 29)),
        ("Atlantic/Azores", (2026, 3, 29)),
        ("Asia/Gaza", (2014, 3, 28)),
        ("America/Sao_Paulo", (2018, 11, 4)),
    ],
)
@pytest.mark.parametrize("minutes", [90, 360, 720])
def test_a_day_whose_midnight_is_skipped_has_windows_that_end(
    zone: str, day: tuple[int, int, int], minutes: int
) -> None:
    import numpy as np

    noon = int(datetime(*day, 12, tzinfo=zoneinfo.ZoneInfo(zone)).timestamp()) * 1_000_000
    times = noon + np.arange(-24, 24) * HOUR * 1_000_000
    windows = grid(zone, minutes * MINUTE)
    _, starts = windows.assign(times)
    ends = windows.ends(starts)
    assert ((starts <= times) & (times < ends)).all()
    lengths = (ends - starts) // 1_000_000
    assert {minutes * MINUTE - HOUR, minutes * MINUTE} == set(lengths.tolist()) | {minutes * MINUTE}

"""Starts and ends of tumbling and hopping windows. Times are int64 microseconds since 1970 (UTC).

Without a zone they start at whole multiples of the hop since 1970, as Spark's ``window()``. In a zone they start by
its wall clock: windows of whole days at local midnight (so a day may have 23 or 25 hours), shorter ones whenever the
clock shows a multiple of the hop, or jumps over one. A window is then as many hops long as its length has.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from airflow_samza.application.windows import Aggregation, WindowSpec
from airflow_samza.task.messages.event_times import DAY_US

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
_MICROSECOND = datetime.timedelta(microseconds=1)
_SECOND_US = 1_000_000

_FIRST_US, _LAST_US = -719_160 * DAY_US, 2_932_893 * DAY_US
"""3 January 1 and 28 December 9999.

Beyond them Python knows no wall clock, and zones keep the offset that they have there.
"""

_BLOCK_US = 64 * DAY_US
"""The stretch of time in which the changes of a clock are looked for together, and remembered."""

_BLOCKS_KEPT = 4_096
"""Blocks that are remembered, of 700 years: what runs for months must not keep all that odd times ask for."""

_Row = tuple[int, int]
"""The first of some evenly spaced starts, and how many there are."""

Longs = Any
"""A numpy array of int64."""


def grid_of(window: WindowSpec) -> Grid:
    """The windows that a spec of tumbling or hopping windows asks for."""
    assert window.duration_ms is not None
    length = window.duration_ms * 1000
    hop = window.hop_ms * 1000 if window.hop_ms is not None else length
    return FixedGrid(length, hop) if window.zone == "UTC" else ZonedGrid(length, hop, window.zone)


def slices_of(window: WindowSpec, aggregations: Sequence[Aggregation]) -> Grid | None:
    """The pieces, one hop long, of which windows are put together; None where they cannot be.

    A hopping window may not be so many hops long; and where the order counts in which messages came, pieces do not keep
    it.
    """
    assert window.duration_ms is not None
    if window.hop_ms is None:
        return grid_of(window)
    ordered = any(aggregation.function in ("first", "last", "collect") for aggregation in aggregations)
    return (
        None
        if ordered or window.duration_ms % window.hop_ms
        else grid_of(replace(window, duration_ms=window.hop_ms, hop_ms=None))
    )


class FixedGrid:
    """Windows of one length at even distances."""

    def __init__(self, length: int, hop: int) -> None:
        self._length = length
        self._hop = hop
        self._overlap = -(-length // hop)

    def assign(self, times: Longs) -> tuple[Longs | None, Longs]:
        """Row numbers and window starts: each row once per window that it is in, in the order of the rows.

        None: once each.
        """
        last = times - times % self._hop
        if self._overlap == 1:
            return None, last
        starts = (last[:, None] - np.arange(self._overlap - 1, -1, -1) * self._hop).ravel()
        rows = np.repeat(np.arange(len(times)), self._overlap)
        if self._length % self._hop == 0:
            return rows, starts
        within = starts + self._length > times[rows]
        return rows[within], starts[within]

    def ends(self, starts: Longs) -> Longs:
        """The end (not part of it) of each window."""
        return starts + self._length

    def latest_ends(self, times: Longs) -> Longs:
        """The end of the last window that each time is in."""
        return times - times % self._hop + self._length

    def earliest_open(self, time: int) -> int:
        """The start of the first window that ends after a time."""
        return (time - self._length) // self._hop * self._hop + self._hop


class ZonedGrid:
    """Windows that follow the wall clock of a zone.

    ``length`` is a multiple of ``hop``, which is whole days or divides one. A window starts when the clock shows a
    multiple of the hop, or jumps over one; windows of whole days only when it does so for the first time, so what it
    repeats begins no day again.

    Between two changes of the clock starts are evenly spaced. So the grid keeps *rows* of starts, each with its first
    and how many there are, and numbers all starts: the window of a time, and the windows before and behind it, are
    calculations, however short the hop is.
    """

    def __init__(self, length: int, hop: int, zone: str) -> None:
        self._hops = length // hop
        self._hop = hop
        self._zone = ZoneInfo(zone)
        self._margin = (length + hop + 3 * DAY_US) // _BLOCK_US + 1
        self._rows_of: dict[int, list[_Row]] = {}
        self._blocks: set[int] = set()
        self._firsts: Longs = np.empty(0, np.int64)
        self._counts: Longs = np.empty(0, np.int64)
        self._numbers: Longs = np.empty(0, np.int64)

    def assign(self, times: Longs) -> tuple[Longs | None, Longs]:
        """See :class:`FixedGrid`."""
        last = self._number(times)
        if self._hops == 1:
            return None, self._start(last)
        rows = np.repeat(np.arange(len(times)), self._hops)
        return rows, self._start((last[:, None] - np.arange(self._hops - 1, -1, -1)).ravel())

    def ends(self, starts: Longs) -> Longs:
        """See :class:`FixedGrid`."""
        return self._start(self._number(starts) + self._hops)

    def latest_ends(self, times: Longs) -> Longs:
        """See :class:`FixedGrid`."""
        return self.ends(times)

    def earliest_open(self, time: int) -> int:
        """See :class:`FixedGrid`."""
        return int(self._start(self._number(np.array([time])) + 1 - self._hops)[0])

    def _number(self, times: Longs) -> Longs:
        """The number of the last start at or before each time. Numbers hold until other times are asked for."""
        self._look_around(times)
        row = np.searchsorted(self._firsts, times, "right") - 1
        return self._numbers[row] + np.minimum((times - self._firsts[row]) // self._hop, self._counts[row] - 1)

    def _start(self, numbers: Longs) -> Longs:
        row = np.searchsorted(self._numbers, numbers, "right") - 1
        return self._firsts[row] + (numbers - self._numbers[row]) * self._hop

    def _look_around(self, times: Longs) -> None:
        """Have the rows near the times: those of their blocks, and of as many around them as a window is long."""
        if not len(times):
            return
        first, last = int(times.min()) // _BLOCK_US, int(times.max()) // _BLOCK_US
        blocks = {first, last} if last - first < 2 else {int(block) for block in np.unique(times // _BLOCK_US)}
        if blocks <= self._blocks:
            return
        if len(self._rows_of) > _BLOCKS_KEPT:
            self._rows_of.clear()
            self._blocks.clear()
        self._blocks |= blocks
        nearby = {near for block in self._blocks for near in range(block - self._margin, block + self._margin + 1)}
        for block in nearby - self._rows_of.keys():
            self._rows_of[block] = list(self._rows(block * _BLOCK_US, (block + 1) * _BLOCK_US))
        rows = [row for block in sorted(nearby) for row in self._rows_of[block]]
        self._firsts, self._counts = np.array(rows, np.int64).T
        self._numbers = np.cumsum(self._counts) - self._counts

    def _rows(self, begin: int, end: int) -> Iterator[_Row]:
        """The rows of starts from ``begin`` up to and without ``end``, in order."""
        low = begin - 2 * DAY_US  # no clock goes back by more than a day: what it showed before is of no account
        offset = before = self._offset(low)
        reached = low + offset
        for high in [*self._changes(low, end), end]:
            least = max(reached, low + before) if self._hop >= DAY_US else low + before
            if low >= begin and _up(least, self._hop) < low + offset and (low + offset) % self._hop:
                yield low, 1  # it jumped over a start
            first = _up(max(reached, low + offset) if self._hop >= DAY_US else low + offset, self._hop) - offset
            first += max(0, _up(begin - first, self._hop))
            if first < high:
                yield first, -(-(high - first) // self._hop)
            reached = max(reached, high + offset)
            low, before, offset = high, offset, self._offset(high)

    def _changes(self, low: int, high: int) -> Iterator[int]:
        """The times from ``low`` up to and without ``high`` at which the clock changes: whole seconds.

        It is looked at once a day: no two changes of the tz database are less than three days apart.
        """
        for day in range(low, high, DAY_US):
            until = min(day + DAY_US, high)
            before = self._offset(day)
            if self._offset(until) == before:
                continue
            same, other = day // _SECOND_US, until // _SECOND_US
            while other - same > 1:
                middle = (same + other) // 2
                same, other = (middle, other) if self._offset(middle * _SECOND_US) == before else (same, middle)
            if other * _SECOND_US < high:
                yield other * _SECOND_US

    def _offset(self, at: int) -> int:
        """Return the time by which the clock is ahead of UTC, in microseconds."""
        bounded = min(max(at, _FIRST_US), _LAST_US)
        offset = (_EPOCH + datetime.timedelta(microseconds=bounded)).astimezone(self._zone).utcoffset()
        return (offset or datetime.timedelta(0)) // _MICROSECOND


def _up(time: int, hop: int) -> int:
    """The first multiple of the hop that is not before a time."""
    return -(-time // hop) * hop


Grid = FixedGrid | ZonedGrid
"""The windows of one kind."""

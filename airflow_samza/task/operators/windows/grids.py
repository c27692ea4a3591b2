"""Starts and ends of tumbling and hopping windows. Times are int64 microseconds since 1970 (UTC).

Without a zone they start at whole multiples of the hop since 1970, as Spark's ``window()``. In a zone they start by
its wall clock: windows of whole days at local midnight (so a day may have 23 or 25 hours), shorter ones whenever the
clock shows a multiple of the hop, or jumps over one. A window is then as many hops long as its length has.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from airflow_samza.application.windows import Aggregation, WindowSpec
from airflow_samza.task.messages.event_times import DAY_US

if TYPE_CHECKING:
    import pendulum

_NAIVE = datetime.datetime(1970, 1, 1)
_EPOCH = _NAIVE.replace(tzinfo=datetime.timezone.utc)
_MICROSECOND = datetime.timedelta(microseconds=1)

_FIRST_DAY, _LAST_DAY = -719_160, 2_932_893
"""3 January 1 and 28 December 9999.

Beyond them Python knows no wall clock, and zones keep the offset that they have there.
"""

_DAYS_KEPT = 100
"""Days whose starts are cached; what runs for months must not keep them all."""

Longs = Any
"""A numpy array of int64."""


class Grid(Protocol):
    """The windows of one kind."""

    def assign(self, times: Longs) -> tuple[Longs | None, Longs]:
        """Row numbers and window starts: each row once per window that it is in, in the order of the rows.

        None: once each.
        """
        ...

    def ends(self, starts: Longs) -> Longs:
        """The end (not part of it) of each window."""
        ...

    def latest_ends(self, times: Longs) -> Longs:
        """The end of the last window that each time is in."""
        ...

    def earliest_open(self, time: int) -> int:
        """The start of the first window that ends after a time."""
        ...


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
        """See :class:`Grid`."""
        import numpy as np

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
        """See :class:`Grid`."""
        return starts + self._length

    def latest_ends(self, times: Longs) -> Longs:
        """See :class:`Grid`."""
        return times - times % self._hop + self._length

    def earliest_open(self, time: int) -> int:
        """See :class:`Grid`."""
        return (time - self._length) // self._hop * self._hop + self._hop


class ZonedGrid:
    """Windows that follow the wall clock of a zone.

    ``length`` is a multiple of ``hop``, which is whole days or divides one.
    """

    def __init__(self, length: int, hop: int, zone: str) -> None:
        import pendulum

        self._length = length
        self._hops = length // hop
        self._hop = hop
        self._zone: pendulum.Timezone = pendulum.timezone(zone)
        self._starts_of: dict[int, Longs] = {}
        self._edges: Longs = None
        self._days: set[int] = set()

    def assign(self, times: Longs) -> tuple[Longs | None, Longs]:
        """See :class:`Grid`."""
        import numpy as np

        edges = self._around(times)
        last = np.searchsorted(edges, times, "right") - 1
        if self._hops == 1:
            return None, edges[last]
        rows = np.repeat(np.arange(len(times)), self._hops)
        return rows, edges[(last[:, None] - np.arange(self._hops - 1, -1, -1)).ravel()]

    def ends(self, starts: Longs) -> Longs:
        """See :class:`Grid`."""
        import numpy as np

        edges = self._around(starts)
        return edges[np.searchsorted(edges, starts, "right") - 1 + self._hops]

    def latest_ends(self, times: Longs) -> Longs:
        """See :class:`Grid`."""
        return self.ends(times)

    def earliest_open(self, time: int) -> int:
        """See :class:`Grid`."""
        import numpy as np

        at = np.array([time])
        edges = self._around(at)
        return int(edges[np.searchsorted(edges, at, "right")[0] - self._hops])

    def _around(self, times: Longs) -> Longs:
        """All starts near the times: those of their days, and of as many around them as a window is long."""
        import numpy as np

        days = {int(day) for day in np.unique(times // DAY_US)}
        if not days <= self._days:
            self._days = days | (self._days if len(self._days) < _DAYS_KEPT else set())
            margin = (self._length + self._hop) // DAY_US + 2
            wanted = {near for day in self._days for near in range(day - margin, day + margin + 1)}
            parts = [self._starts(day) for day in sorted(wanted)]
            self._edges = np.unique(np.concatenate(parts))
        return self._edges

    def _starts(self, day: int) -> Longs:
        """The starts on one local day, which is counted from 1970-01-01."""
        import numpy as np

        found = self._starts_of.get(day)
        if found is None:
            if len(self._starts_of) >= 8 * _DAYS_KEPT:
                self._starts_of.clear()
            found = self._starts_of[day] = np.array(self._found(day), np.int64)
        return found

    def _found(self, day: int) -> list[int] | Longs:
        import numpy as np

        if self._hop >= DAY_US:
            return [self._instant(day, 0, 0)] if day % (self._hop // DAY_US) == 0 else []
        begin, end = self._instant(day, 0, 0), self._instant(day + 1, 0, 0)
        if end - begin == DAY_US and self._offset(begin) == self._offset(end):
            return np.arange(begin, end, self._hop)
        shown = {self._instant(day, wall, fold) for wall in range(0, DAY_US, self._hop) for fold in (0, 1)}
        return sorted({begin, *(self._at_change(at, begin, end) for at in shown if begin <= at < end)})

    def _instant(self, day: int, wall: int, fold: int) -> int:
        """Return the instant at which the wall clock shows a time.

        The first or second time by ``fold``, which chooses the offset for one that it skips.
        """
        known = min(max(day, _FIRST_DAY), _LAST_DAY)
        if known != day:
            return self._instant(known, wall, fold) + (day - known) * DAY_US
        shown = _NAIVE + datetime.timedelta(days=day, microseconds=wall)
        return (shown.replace(tzinfo=self._zone, fold=fold) - _EPOCH) // _MICROSECOND

    def _offset(self, at: int) -> int:
        known = min(max(at, _FIRST_DAY * DAY_US), _LAST_DAY * DAY_US)
        moment = (_EPOCH + datetime.timedelta(microseconds=known)).astimezone(self._zone)
        return (moment.utcoffset() or datetime.timedelta(0)) // _MICROSECOND

    def _at_change(self, at: int, begin: int, end: int) -> int:
        """The time itself where the clock shows a multiple of the hop then.

        Else the moment at which it jumped over one.
        """
        if (at + self._offset(at)) % DAY_US % self._hop == 0:
            return at
        low, high = begin, end - 1  # in whole seconds: the offset of begin holds at low, not any more at high
        while high - low > 1_000_000:
            middle = (low + high) // 2_000_000 * 1_000_000
            low, high = (middle, high) if self._offset(middle) == self._offset(begin) else (low, middle)
        return high

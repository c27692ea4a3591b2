"""The buffer of one side of a stream join: rows are kept until no partner of theirs can come any more.

Rows lie in runs, each in the order of key and time, merged as they become as long as their predecessor. A row is looked
up by one number, made of its key and its time, so that the partners of a row are one range of a run. Where key and time
together need more than 63 bits the time is taken coarsely, or the key hashed, and the rows that match are compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from airflow_samza.storage.key_index import as_rows
from airflow_samza.task.messages.conform import MESSAGE

Longs = np.ndarray[Any, np.dtype[np.int64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]


PAIRS = 1 << 16
"""Pairs that are made at a time."""

_BITS = 62
_WIDE = 40
"""Keys spread over more bits than this are hashed, so that enough are left for the time."""
_FAR = 1 << 60
"""Times are cut to ±36,000 years, so that their distances fit in 64 bits."""

BEHIND_ALL = _FAR + 1
"""A time (µs) behind those of all rows."""


class SortedRun:
    """Rows with their keys' numbers and times (µs), all in one order, and what is needed to find them.

    ``matched`` marks the rows that have had a partner; None where it is not needed. Rows before ``least_time`` are not
    more.
    """

    def __init__(
        self, rows: pa.RecordBatch, keys: Longs, times: Longs, matched: Flags | None, before: Longs | None = None
    ) -> None:
        self.rows = rows
        self.keys = keys
        self.times = np.clip(times, -_FAR, _FAR)
        self.matched = matched
        self.least_time = int(self.times.min())
        self.last_time = int(self.times.max())
        self._low, self._high = int(keys.min()), int(keys.max())
        self.folded = (self._high - self._low).bit_length() > _WIDE
        if self.folded:
            keys = _fold(keys)
            self._low, self._high = 0, (1 << 32) - 1
        self._from = self.least_time  # what is evicted moves least_time, but not the order
        width = self.last_time - self._from
        self.shift = max(0, (width + 1).bit_length() - (_BITS - (self._high - self._low + 1).bit_length()))
        self._slots = (width >> self.shift) + 1
        places = (keys - self._low) * self._slots + ((self.times - self._from) >> self.shift)
        # Two sorted halves are merged in linear time: ``before`` is an order in which the rows nearly are.
        if before is None:
            self.order = np.argsort(places, kind="stable")
        else:
            self.order = before[np.argsort(places[before], kind="stable")]
        self._places = places[self.order]

    def __len__(self) -> int:
        return len(self.keys)

    def find(self, keys: Longs, times: Longs, reach: int) -> tuple[Longs, Longs, Longs]:
        """Find the rows for keys and times, best in order.

        It returns which of them may have partners here, from where on in :attr:`order`, and how many.
        """
        if self.folded:
            keys = _fold(keys)
        first, last = times - reach, times + reach
        some = (keys >= self._low) & (keys <= self._high) & (first <= self.last_time) & (last >= self._from)
        within = np.flatnonzero(some)
        if len(within) < len(keys):
            keys, first, last = keys[within], first[within], last[within]
        base = (keys - self._low) * self._slots
        np.subtract(first, self._from, out=first)
        np.subtract(last, self._from, out=last)
        np.maximum(first, 0, out=first)
        np.minimum(last, self.last_time - self._from, out=last)
        begin = np.searchsorted(self._places, base + (first >> self.shift))
        end = np.searchsorted(self._places, base + (last >> self.shift), side="right")
        counts = end - begin
        hit = counts > 0
        return within[hit], begin[hit], counts[hit]

    def left(self) -> SortedRun:
        """The run without the rows before :attr:`least_time`, which only lie there."""
        return self if self.least_time == self._from else self.without(self.times < self.least_time)

    def without(self, expired: Flags) -> SortedRun:
        """The run without some of its rows."""
        kept = ~expired
        matched = self.matched[kept] if self.matched is not None else None
        return SortedRun(self.rows.filter(pa.array(kept)), self.keys[kept], self.times[kept], matched)


def merged(one: SortedRun, other: SortedRun) -> SortedRun:
    """Two runs of one side as one."""
    one, other = one.left(), other.left()
    matched = None
    if one.matched is not None and other.matched is not None:
        matched = np.concatenate([one.matched, other.matched])
    return SortedRun(
        pa.concat_batches([one.rows, other.rows]),
        np.concatenate([one.keys, other.keys]),
        np.concatenate([one.times, other.times]),
        matched,
        np.concatenate([one.order, other.order + len(one)]),
    )


def candidates(asking: SortedRun, other: SortedRun, reach: int) -> Iterator[tuple[Longs, Longs]]:
    """The rows of two runs that have the same number and times at most ``reach`` apart, in pieces.

    Where keys are hashed, all of a number are candidates.
    """
    in_order = asking.order
    which, begins, counts = other.find(asking.keys[in_order], asking.times[in_order], reach)
    if not len(which):
        return
    ends = np.cumsum(counts)
    total = int(ends[-1])
    for start in range(0, total, PAIRS):
        stop = min(start + PAIRS, total)
        first = int(np.searchsorted(ends, start, side="right"))
        last = int(np.searchsorted(ends, stop))
        several, at = counts[first : last + 1].copy(), begins[first : last + 1].copy()
        skipped = start - int(ends[first] - counts[first])
        at[0] += skipped
        several[0] -= skipped
        several[-1] -= int(ends[last]) - stop
        mine = np.repeat(in_order[which[first : last + 1]], several)
        behind = np.cumsum(several)
        theirs = other.order[np.arange(stop - start) + np.repeat(at - (behind - several), several)]
        exact = _looked_at(asking, other, mine, theirs, reach)
        yield (mine, theirs) if exact is None else (mine[exact], theirs[exact])


def _looked_at(asking: SortedRun, other: SortedRun, mine: Longs, theirs: Longs, reach: int) -> Flags | None:
    kept = None
    if other.shift:
        kept = np.abs(asking.times[mine] - other.times[theirs]) <= reach
    if other.folded:
        same = asking.keys[mine] == other.keys[theirs]
        kept = same if kept is None else kept & same
    return kept


def _fold(keys: Longs) -> Longs:
    """Keys hashed into 32 bits."""
    mixed = keys.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(32)
    mixed *= np.uint64(0xD6E8FEB86659FD93)
    mixed >>= np.uint64(32)
    return mixed.view(np.int64)  # type: ignore[no-any-return]  # numpy gives Any for a view


class Buffer:
    """Runs of rows, the longest first.

    Each is at least twice as long as the one behind it, so a row is merged few times.
    """

    def __init__(self) -> None:
        self.runs: list[SortedRun] = []

    def __len__(self) -> int:
        return sum(map(len, self.runs))

    def add(self, run: SortedRun) -> None:
        """Keeps rows."""
        self.runs.append(run)
        while len(self.runs) > 1 and len(self.runs[-2]) < 2 * len(self.runs[-1]):
            self.runs[-2:] = [merged(*self.runs[-2:])]

    def evict(self, bound: int) -> Iterator[pa.RecordBatch]:
        """Drop the rows with times before ``bound`` (µs); return those that had no partner."""
        kept = []
        for run in self.runs:
            if run.least_time >= bound:
                kept.append(run)
                continue
            expired = run.times < bound
            yield from self._alone(run, expired)
            left = len(run) - int(np.count_nonzero(expired))
            if not left:
                continue
            if 2 * left < len(run):
                run = run.without(expired)
            else:  # until the run is merged these rows lie there, have no partner to come, and were handed out
                run.least_time = int(run.times[~expired].min())
                if run.matched is not None:
                    run.matched |= expired
            kept.append(run)
        self.runs = sorted(kept, key=len, reverse=True)

    def _alone(self, run: SortedRun, expired: Any) -> Iterator[pa.RecordBatch]:
        if run.matched is None:
            return
        rows = np.flatnonzero(expired & ~run.matched)
        if len(rows):
            yield run.rows.take(as_rows(rows))

    def table(self, schema: pa.Schema) -> pa.Table:
        """Return the rows kept: ``time``, ``matched`` and, behind ``message.``, the columns of the messages."""
        named = [field.with_name(MESSAGE + field.name) for field in schema]
        fields = pa.schema([pa.field("time", pa.int64()), pa.field("matched", pa.bool_()), *named])
        parts = []
        for run in self.runs:
            kept = np.flatnonzero(run.times >= run.least_time)
            rows = run.rows if len(kept) == len(run) else run.rows.take(as_rows(kept))
            matched = run.matched[kept] if run.matched is not None else np.zeros(len(kept), np.bool_)
            columns = [as_rows(run.times[kept]), pa.array(matched), *rows.columns]
            parts.append(pa.RecordBatch.from_arrays(columns, schema=fields))
        return pa.Table.from_batches(parts, fields)

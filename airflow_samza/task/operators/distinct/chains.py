"""Beginnings of groups of copies: a group of a key lasts for a length of time from its first message.

Rows stand in *segments*, one for each key, in the order of their times; those of equal times as they came. The first
row that is in no group begins the next one. So the beginnings of a key are a chain, of which any row's successor is
known without its predecessors; chains are followed all at once, in steps that double (no loop over rows). Deduplication
finds copies by it, and so do operators of changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from airflow_samza.task.operators.aggregation.accumulators import key_codes

Longs = np.ndarray[Any, np.dtype[np.int64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]


class Segments(NamedTuple):
    """Row numbers ``order`` in segments, of which each starts at one of ``begins`` and ends before one of ``ends``.

    ``numbers`` are the segments' numbers by place in the order.
    """

    order: Longs
    begins: Longs
    ends: Longs
    numbers: Longs


def segments_of(keys: Sequence[pa.Array], times: Longs) -> Segments:
    """Return the segments of rows whose keys have no nulls."""
    codes = key_codes(keys, len(times))
    order = np.lexsort((times, codes))
    numbers = codes[order]
    begins = np.flatnonzero(np.diff(numbers, prepend=-1))
    return Segments(order, begins, np.append(begins[1:], len(times)), numbers)


def group_begins(times: Longs, segments: Segments, opened: Longs, within: int) -> tuple[Longs, Longs]:
    """Return the places in the order at which groups begin, and for each segment the first place behind an open group.

    ``times`` are in the order of the segments, ``opened`` is the time at which the group that is open for a segment's
    key began; one long ago, where there is none.
    """
    rows = len(times)
    behind = _first_from(times, segments.begins, segments.ends, opened + within)
    ends = segments.ends[segments.numbers]
    following = _first_from(times, np.arange(1, rows + 1), ends, times + within)
    following[following == ends] = rows
    return _reached(behind[behind < segments.ends], np.append(following, rows)), behind


def repeated(times: Longs, segments: Segments, keep: str, *, whole: bool) -> Flags:
    """Return, by place in the order, the rows that another one of their key makes superfluous, whatever else comes.

    It has the same time, or, where a group is ``whole``, any.
    """
    repeats = np.ones(len(times), np.bool_)
    repeats[segments.begins if keep == "first" else segments.ends - 1] = False
    if not whole:
        others = repeats[1:] if keep == "first" else repeats[:-1]
        others &= times[1:] == times[:-1]
    return repeats


def _first_from(times: Longs, low: Longs, high: Longs, wanted: Longs) -> Longs:
    """Return the first place between two with a time that is not before the wanted one, else the second of them."""
    low, high = low.astype(np.int64), high.astype(np.int64)
    left = np.flatnonzero(low < high)
    while len(left):
        middle = (low[left] + high[left]) >> 1
        before = times[middle] < wanted[left]
        low[left[before]] = middle[before] + 1
        high[left[~before]] = middle[~before]
        left = left[low[left] < high[left]]
    return low


def _reached(begins: Longs, following: Longs) -> Longs:
    """Return the places to which chains from ``begins`` lead; the last place is the end of all of them."""
    end = len(following) - 1
    reached = np.zeros(end + 1, np.bool_)
    reached[begins] = reached[end] = True
    places, jump = begins, following
    while True:
        further = jump[places]
        if reached[further].all():
            return np.flatnonzero(reached[:end])
        reached[further] = True
        places, jump = np.flatnonzero(reached), jump[jump]

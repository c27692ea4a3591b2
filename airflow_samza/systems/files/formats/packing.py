"""Packing of files into partitions, always in the same way: all units in path order, cut into equal lengths.

A unit is what cannot be cut: a row group, a stripe, a whole file; text that may be cut at line ends is cut anywhere and
its reader goes on to the next line end. A unit belongs to the partition in which its middle lies, so partitions differ
from the mean by at most one unit, neighbouring units stay together, and order is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Unit(NamedTuple):
    """Unit of one file for packing: ``[start, end)`` in the format's own measure, and its bytes.

    ``end`` None is the whole file; ``divisible`` means that any cut of the byte range is sound.
    """

    file: int
    start: int
    end: int | None
    size: int
    divisible: bool = False


class Split(NamedTuple):
    """Part of one file that one partition reads.

    ``[start, end)`` row groups, stripes or bytes; ``end`` None reads to the end.
    """

    file: int
    start: int
    end: int | None


def pack(units: Sequence[Unit], partitions: int) -> list[list[Split]]:
    """Return the splits of every partition, in path order; every unit lies in exactly one.

    >>> pack([Unit(0, 0, 1, 10), Unit(0, 1, 2, 10), Unit(1, 0, None, 20)], 2)
    [[Split(file=0, start=0, end=2)], [Split(file=1, start=0, end=None)]]
    """
    total = sum(unit.size for unit in units)
    packed: list[list[Split]] = [[] for _ in range(partitions)]
    before = 0
    for unit in units:
        if unit.divisible and unit.end is not None and unit.size:
            _cut(unit, before, total, packed)
        else:
            # The middle of the unit, doubled so that integers decide: no rounding, the same on every machine.
            middle = (2 * before + unit.size) * partitions
            place = min(middle // (2 * total), partitions - 1) if total else 0
            _append(packed[place], Split(unit.file, unit.start, unit.end))
        before += unit.size
    return packed


def _cut(unit: Unit, before: int, total: int, packed: list[list[Split]]) -> None:
    partitions = len(packed)
    assert unit.end is not None
    start, end = unit.start, unit.end
    while start < end:
        position = before + start - unit.start
        place = min(position * partitions // total, partitions - 1)
        border = -(-total * (place + 1) // partitions)  # first byte of the line that belongs to the next partition
        stop = end if place == partitions - 1 else min(end, start + border - position)
        _append(packed[place], Split(unit.file, start, stop))
        start = stop


def _append(splits: list[Split], new: Split) -> None:
    if splits and splits[-1].file == new.file and splits[-1].end == new.start:
        new = Split(new.file, splits.pop().start, new.end)
    splits.append(new)

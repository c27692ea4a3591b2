"""Packing of files into partitions, always in the same way: all units in path order, cut into equal lengths.

A unit is what cannot be cut: a row group, a stripe, a whole file; text that may be cut at line ends is cut anywhere and
its reader goes on to the next line end. A unit belongs to the partition in which its middle lies, so partitions differ
from the mean by at most one unit, neighbouring units stay together, and order is kept (decision 3). Files and tables of
lakes are cut into input ranges by it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
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
    return [_splits(placed) for placed in _placed(units, partitions)]


def pack_chunks(units: Sequence[Unit], partitions: int, most: int) -> list[list[list[Split]]]:
    """Return what :func:`pack` does, with the part of each partition cut into chunks of about ``most`` bytes.

    The result is by chunk, then by partition; the last chunks may have nothing for some partitions.

    >>> pack_chunks([Unit(0, 0, 25, 25, True)], 1, 10)
    [[[Split(file=0, start=0, end=10)]], [[Split(file=0, start=10, end=20)]], [[Split(file=0, start=20, end=25)]]]
    """
    by_partition = [_grouped_by_size(placed, most) for placed in _placed(units, partitions)]
    return [[_splits(group) for group in chunk] for chunk in zip_longest(*by_partition, fillvalue=())]


def _grouped_by_size(units: Sequence[Unit], most: int) -> list[list[Unit]]:
    """Return units in groups of about so many bytes; what is divisible is cut at the borders."""
    groups: list[list[Unit]] = []
    room = 0
    for unit in units:
        for piece in _pieces(unit, room or most, most):
            if not groups or piece.size > room:
                groups.append([])
                room = most
            groups[-1].append(piece)
            room = max(room - piece.size, 0)
    return groups


def _pieces(unit: Unit, first: int, most: int) -> Iterator[Unit]:
    """Yield a unit, or pieces of a divisible one: the first of so many bytes, then all of at most ``most``."""
    start, step = unit.start, first
    while unit.divisible and unit.end is not None and unit.end - start > step:
        yield Unit(unit.file, start, start + step, step, True)
        start, step = start + step, most
    yield unit if start == unit.start else Unit(unit.file, start, unit.end, (unit.end or start) - start, True)


def _placed(units: Sequence[Unit], partitions: int) -> list[list[Unit]]:
    """Return the units of every partition; what is divisible is cut where partitions meet."""
    total = sum(unit.size for unit in units)
    packed: list[list[Unit]] = [[] for _ in range(partitions)]
    before = 0
    for unit in units:
        if unit.divisible and unit.end is not None and unit.size:
            _place_divisible(unit, before, total, packed)
        else:
            # The middle of the unit, doubled so that integers decide: no rounding, the same on every machine.
            middle = (2 * before + unit.size) * partitions
            partition = min(middle // (2 * total), partitions - 1) if total else 0
            packed[partition].append(unit)
        before += unit.size
    return packed


def _place_divisible(unit: Unit, before: int, total: int, packed: list[list[Unit]]) -> None:
    partitions = len(packed)
    assert unit.end is not None
    start, end = unit.start, unit.end
    while start < end:
        position = before + start - unit.start
        partition = min(position * partitions // total, partitions - 1)
        border = -(-total * (partition + 1) // partitions)  # first byte of the line that belongs to the next partition
        stop = end if partition == partitions - 1 else min(end, start + border - position)
        packed[partition].append(Unit(unit.file, start, stop, stop - start, True))
        start = stop


def _splits(units: Sequence[Unit]) -> list[Split]:
    """Return the splits of a partition: what lies side by side in a file is one."""
    splits: list[Split] = []
    for unit in units:
        start = unit.start
        if splits and splits[-1].file == unit.file and splits[-1].end == start:
            start = splits.pop().start
        splits.append(Split(unit.file, start, unit.end))
    return splits

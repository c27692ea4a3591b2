"""Deletion vectors of data files, as Iceberg's Puffin files and Delta's files hold them: bitmaps of positions.

A few bytes may stand for billions of positions. So they are counted by the heads of a bitmap's parts before these are
unfolded, and no more are unfolded than the data file has rows. Readers of both lake formats skip rows by them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Positions = npt.NDArray[np.int64]
"""Positions of rows in a file, from 0, sorted; none twice."""

NONE: Positions = np.empty(0, np.int64)

_VECTOR_MAGIC = b"\xd1\xd3\x39\x64"
_WITHOUT_RUNS, _WITH_RUNS = 12346, 12347
_RUNS_WITH_OFFSETS = 4
_ARRAY_MOST = 4096
_CONTAINERS_MOST = 1 << 16


def part_of(source: pa.NativeFile, offset: int, length: int) -> bytes:
    """Return a part of a file; one that is not all in it is a ``ValueError``, before anything is read."""
    if not 0 <= offset <= offset + length <= source.size():
        raise ValueError(f"it has no {length} bytes from byte {offset} on")
    return bytes(source.read_at(length, offset))


def check_count(positions: int, rows: int) -> None:
    """Reject more positions of deleted rows than the data file has rows."""
    if positions > rows:
        raise ValueError(f"it deletes {positions} rows of a data file that has {rows}")


def vector_positions(blob: bytes, rows: int) -> Positions:
    """Return the positions in a deletion vector of a data file with some rows.

    It has a roaring bitmap for each 32 bits of the upper half of positions.
    """
    length = int.from_bytes(blob[:4], "big")
    if blob[4:8] != _VECTOR_MAGIC or length + 8 != len(blob):
        raise ValueError("it has no deletion vector where its footer says so")
    return bitmap_positions(blob[4:-4], rows)


def bitmap_positions(bitmap: bytes, rows: int) -> Positions:
    """Return the positions in the bitmap of a deletion vector, without the length before it and the sum behind it."""
    if bitmap[:4] != _VECTOR_MAGIC:
        raise ValueError("its deletion vector is no bitmap of positions")
    data, place = memoryview(bitmap)[4:], 8
    found = [NONE]
    for _ in range(int.from_bytes(data[:8], "little")):
        upper = int.from_bytes(data[place : place + 4], "little") << 32
        place += 4
        containers, place = _containers(data, place, rows)
        rows -= sum(len(low) for _, low in containers)
        found += [low + (upper + (key << 16)) for key, low in containers]
    return np.concatenate(found)


def _containers(data: memoryview, place: int, rows: int) -> tuple[list[tuple[int, Positions]], int]:
    """Return the containers of a roaring bitmap (the upper 16 bits, and the lower ones), and the place behind it.

    Together they have no more positions than ``rows``.
    """
    cookie = int.from_bytes(data[place : place + 4], "little")
    if cookie & 0xFFFF == _WITH_RUNS:
        count = (cookie >> 16) + 1
        flags = np.unpackbits(np.frombuffer(data, np.uint8, (count + 7) // 8, place + 4), bitorder="little")
        place += 4 + (count + 7) // 8
        offsets = count >= _RUNS_WITH_OFFSETS
    elif cookie == _WITHOUT_RUNS:
        count = int.from_bytes(data[place + 4 : place + 8], "little")
        if count > _CONTAINERS_MOST:
            raise ValueError("its deletion vector is no roaring bitmap")
        flags, offsets = np.zeros(count, np.uint8), True
        place += 8
    else:
        raise ValueError("its deletion vector is no roaring bitmap")
    heads = np.frombuffer(data, "<u2", 2 * count, place).astype(np.int64)
    place += 4 * count + (4 * count if offsets else 0)
    check_count(int(heads[1::2].sum()) + count, rows)
    containers, left = list[tuple[int, Positions]](), rows
    for number in range(count):
        key, size = int(heads[2 * number]), int(heads[2 * number + 1]) + 1
        if flags[number]:
            runs = np.frombuffer(data, "<u2", 2 * int.from_bytes(data[place : place + 2], "little"), place + 2)
            starts, more = runs[::2].astype(np.int64), runs[1::2].astype(np.int64)
            check_count(rows - left + int(more.sum()) + len(more), rows)  # whatever the head says
            low = np.concatenate([NONE, *(np.arange(a, a + b + 1) for a, b in zip(starts, more, strict=True))])
            place += 2 + runs.nbytes
        elif size <= _ARRAY_MOST:
            low = np.frombuffer(data, "<u2", size, place).astype(np.int64)
            place += 2 * size
        else:
            bits = np.frombuffer(data, np.uint8, 8192, place)
            low = np.flatnonzero(np.unpackbits(bits, bitorder="little")).astype(np.int64)
            place += 8192
        left -= len(low)
        containers.append((key, low))
    return containers, place


def kept_rows(deleted: Positions, first: int, rows: int) -> pa.BooleanArray | None:
    """Return which of the rows from position ``first`` on are not deleted; None: all."""
    start, end = np.searchsorted(deleted, (first, first + rows))
    if start == end:
        return None
    kept = np.ones(rows, bool)
    kept[deleted[start:end] - first] = False
    return pa.array(kept)

"""Deletion vectors of data files, as Iceberg's Puffin files and Delta's files hold them: bitmaps of positions."""

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


def vector_positions(blob: bytes) -> Positions:
    """Return the positions in a deletion vector: a roaring bitmap for each 32 bits of the upper half of positions."""
    length = int.from_bytes(blob[:4], "big")
    if blob[4:8] != _VECTOR_MAGIC or length + 8 != len(blob):
        raise ValueError("it has no deletion vector where its footer says so")
    return bitmap_positions(blob[4:-4])


def bitmap_positions(bitmap: bytes) -> Positions:
    """Return the positions in the bitmap of a deletion vector, without the length before it and the sum behind it."""
    if bitmap[:4] != _VECTOR_MAGIC:
        raise ValueError("its deletion vector is no bitmap of positions")
    data, place = memoryview(bitmap)[4:], 8
    found = [NONE]
    for _ in range(int.from_bytes(data[:8], "little")):
        upper = int.from_bytes(data[place : place + 4], "little") << 32
        place += 4
        containers, place = _containers(data, place)
        found += [low + (upper + (key << 16)) for key, low in containers]
    return np.concatenate(found)


def _containers(data: memoryview, place: int) -> tuple[list[tuple[int, Positions]], int]:
    """Return the containers of a roaring bitmap (the upper 16 bits, and the lower ones), and the place behind it."""
    cookie = int.from_bytes(data[place : place + 4], "little")
    if cookie & 0xFFFF == _WITH_RUNS:
        count = (cookie >> 16) + 1
        flags = np.unpackbits(np.frombuffer(data, np.uint8, (count + 7) // 8, place + 4), bitorder="little")
        place += 4 + (count + 7) // 8
        offsets = count >= _RUNS_WITH_OFFSETS
    elif cookie == _WITHOUT_RUNS:
        count = int.from_bytes(data[place + 4 : place + 8], "little")
        flags, offsets = np.zeros(count, np.uint8), True
        place += 8
    else:
        raise ValueError("its deletion vector is no roaring bitmap")
    heads = np.frombuffer(data, "<u2", 2 * count, place).astype(np.int64)
    place += 4 * count + (4 * count if offsets else 0)
    containers = []
    for number in range(count):
        key, size = int(heads[2 * number]), int(heads[2 * number + 1]) + 1
        if flags[number]:
            runs = np.frombuffer(data, "<u2", 2 * int.from_bytes(data[place : place + 2], "little"), place + 2)
            starts, more = runs[::2].astype(np.int64), runs[1::2].astype(np.int64)
            low = np.concatenate([NONE, *(np.arange(a, a + b + 1) for a, b in zip(starts, more, strict=True))])
            place += 2 + runs.nbytes
        elif size <= _ARRAY_MOST:
            low = np.frombuffer(data, "<u2", size, place).astype(np.int64)
            place += 2 * size
        else:
            bits = np.frombuffer(data, np.uint8, 8192, place)
            low = np.flatnonzero(np.unpackbits(bits, bitorder="little")).astype(np.int64)
            place += 8192
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

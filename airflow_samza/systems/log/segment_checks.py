"""Checks of segment files that others may have written, before Arrow allocates anything or a row is handed on.

A topic that is not the run's own may come from another team. What stands in its files is data to us, never a reason to
trust: a batch that unpacks to a thousand times its size is rejected before it is unpacked, and offsets and texts are
validated before anybody follows them (decision 16).
"""

from __future__ import annotations

import struct
from typing import Any

MOST_UNPACKED = 255
"""Bytes that one byte of a batch may unpack to.

LZ4, which our writers use, cannot reach it; zstd can, over a hundred times.
"""

_SMALL = 64 << 20
"""A batch that unpacks to no more than this is harmless, whatever it was packed from."""


_MAGIC = b"ARROW1\x00\x00"
_DICTIONARY, _RECORDS = 2, 3


def unpacked_bytes(data: Any) -> int:
    """Return the bytes that the buffers of IPC messages, one behind the other, unpack to, as the messages say.

    ``data`` is a part of an Arrow file: the beginning with its magic, or what lies between two batches.

    Raises:
        ValueError: it is no sequence of messages, or parts of one lie outside it.
    """
    view = memoryview(data)
    place = len(_MAGIC) if view[: len(_MAGIC)] == _MAGIC else 0
    total = 0
    try:
        while place + 8 <= len(view):
            mark, length = struct.unpack_from("<Ii", view, place)
            if mark != 0xFFFFFFFF or length < 0:
                raise ValueError("it is no Arrow message")
            metadata = view[place + 8 : place + 8 + length]
            message = _root(metadata)
            size = _number(metadata, message, 3, "<q")
            if size < 0:
                raise ValueError("a body is shorter than nothing")
            place += 8 + length + size
            total += _of_message(metadata, message, view[place - size : place])
    except struct.error:
        raise ValueError("its metadata is cut off") from None
    return total


def _of_message(metadata: memoryview, message: int, body: memoryview) -> int:
    kind, batch = _number(metadata, message, 1, "<B"), _table(metadata, message, 2)
    if kind == _DICTIONARY and batch is not None:
        batch = _table(metadata, batch, 1)
    elif kind != _RECORDS:
        return 0
    if batch is None:
        raise ValueError("a message holds no batch")
    packed = _field(metadata, batch, 3) is not None
    return sum(_unpacked(body, offset, size, packed) for offset, size in _buffers(metadata, batch))


def check_unpacked(data: Any) -> None:
    """Reject a batch that unpacks to far more than it takes in the file; ``data`` as of :func:`unpacked_bytes`.

    Raises:
        ValueError: it does, or its size cannot be known.
    """
    unpacked = unpacked_bytes(data)
    if unpacked > _SMALL and unpacked > MOST_UNPACKED * len(data):
        raise ValueError(
            f"its {len(data):,} bytes unpack to {unpacked:,}, and at most {MOST_UNPACKED} times as many are read"
        )


def _unpacked(body: memoryview, offset: int, size: int, packed: bool) -> int:
    if offset < 0 or size < 0 or offset + size > len(body):
        raise ValueError("a buffer lies outside it")
    if not packed or size < 8:
        return size
    (unpacked,) = struct.unpack_from("<q", body, offset)
    if unpacked < -1:
        raise ValueError("a buffer unpacks to less than nothing")
    return size if unpacked == -1 else int(unpacked)


# Flatbuffers: a table begins with the distance to its vtable, whose entries are the distances of the fields from the
# table.


def _root(data: memoryview) -> int:
    return int(struct.unpack_from("<I", data, 0)[0])


def _field(data: memoryview, table: int, number: int) -> int | None:
    vtable = table - struct.unpack_from("<i", data, table)[0]
    if vtable < 0:
        raise ValueError("its metadata points outside itself")
    (size,) = struct.unpack_from("<H", data, vtable)
    place = 4 + 2 * number
    if place + 2 > size:
        return None
    (distance,) = struct.unpack_from("<H", data, vtable + place)
    return table + int(distance) if distance else None


def _number(data: memoryview, table: int, number: int, form: str) -> int:
    place = _field(data, table, number)
    return 0 if place is None else int(struct.unpack_from(form, data, place)[0])


def _table(data: memoryview, table: int, number: int) -> int | None:
    place = _field(data, table, number)
    return None if place is None else place + int(struct.unpack_from("<I", data, place)[0])


def _buffers(data: memoryview, batch: int) -> list[tuple[Any, ...]]:
    vector = _table(data, batch, 2)
    if vector is None:
        return []
    (count,) = struct.unpack_from("<I", data, vector)
    if 16 * count > len(data):
        raise ValueError("its metadata names more buffers than it has room for")
    return list(struct.iter_unpack("<qq", data[vector + 4 : vector + 4 + 16 * count]))

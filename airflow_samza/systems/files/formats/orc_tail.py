"""The tail of an ORC file, as far as it says how many rows and how much text there are; Arrow does not show that."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from airflow_samza.systems.files.formats.varints import read_varint, zigzag

_LARGEST_TAIL = 64 * 2**20
_CODECS = {2: "snappy", 4: "lz4_raw", 5: "zstd", 6: "brotli"}
_TEXT_STATISTICS = (4, 8)
"""Fields of a column's statistics that hold the bytes of all its texts, and of all its other bytes."""


@dataclass(frozen=True)
class OrcTail:
    """Contents of the tail: ``rows`` of the file, rows of each stripe, and bytes of text of each top column by place.

    ``text`` lacks columns that are no text, and all where the writer left no statistics.
    """

    rows: int
    stripes: tuple[int, ...]
    text: dict[int, int]

    @classmethod
    def read(cls, source: pa.NativeFile) -> OrcTail | None:
        """Return the tail; None where it is packed in a way that is not known here. Damage is a ``ValueError``."""
        size = source.size()
        source.seek(max(0, size - 257))
        end = source.read()
        postscript = dict(_fields(end[-1 - end[-1] : -1]))
        length, codec = _number(postscript.get(1, 0)), _number(postscript.get(2, 0))
        if codec == 3 or codec > 6:
            return None
        start = size - 1 - end[-1] - length
        if start < 0 or length > _LARGEST_TAIL:
            raise ValueError(f"its tail claims {length} bytes, and the file has {size}")
        source.seek(start)
        footer = list(_fields(_unpacked(source.read(length), codec, _number(postscript.get(3, 262_144)))))
        numbers = dict(footer)
        stripes = tuple(_number(dict(_fields(_bytes(value))).get(5, 0)) for field, value in footer if field == 3)
        types = [_bytes(value) for field, value in footer if field == 4]
        statistics = [_bytes(value) for field, value in footer if field == 7]
        return cls(_number(numbers.get(6, 0)), stripes, _text(types, statistics))


def _text(types: list[bytes], statistics: list[bytes]) -> dict[int, int]:
    """Return the bytes of text below each top column, by place."""
    if not types or len(types) != len(statistics):
        return {}
    tops = list(_packed(types[0]))
    text_bytes = {}
    for place, first in enumerate(tops):
        last = tops[place + 1] if place + 1 < len(tops) else len(types)
        sums = [
            _zigzag(dict(_fields(_bytes(value))).get(3 if field == 4 else 1, 0))
            for one in statistics[first:last]
            for field, value in _fields(one)
            if field in _TEXT_STATISTICS
        ]
        if sums:
            text_bytes[place] = sum(sums)
    return text_bytes


def _packed(kind: bytes) -> Iterator[int]:
    """Yield the numbers of a type's parts."""
    for field, value in _fields(kind):
        if field == 2:
            if isinstance(value, int):
                yield value
            else:
                place = 0
                while place < len(value):
                    number, place = _varint(value, place)
                    yield number


def _unpacked(data: bytes, codec: int, block: int) -> bytes:
    """Return the bytes of a section: chunks, each with its length, packed or as they are."""
    if codec == 0:
        return data
    content = bytearray()
    place = 0
    while place + 3 <= len(data):
        head = int.from_bytes(data[place : place + 3], "little")
        chunk = data[place + 3 : place + 3 + (head >> 1)]
        place += 3 + (head >> 1)
        if head & 1:
            content += chunk
        elif codec == 1:
            try:
                content += zlib.decompressobj(-15).decompress(chunk, block)
            except zlib.error as error:
                raise ValueError(f"its tail cannot be unpacked: {error}") from error
        else:
            content += _unpacked_by_arrow(chunk, _CODECS[codec], min(block, _LARGEST_TAIL))
    return bytes(content)


def _unpacked_by_arrow(chunk: bytes, codec: str, block: int) -> bytes:
    if codec == "snappy":
        size, _ = _varint(chunk, 0)
        return bytes(pa.decompress(chunk, min(size, block), codec, asbytes=True))
    if codec == "lz4_raw":
        return _from_lz4(chunk, block)
    with pa.CompressedInputStream(pa.BufferReader(chunk), codec) as stream:
        return bytes(stream.read(block))


def _from_lz4(chunk: bytes, block: int) -> bytes:
    """Return what a block of LZ4 unpacks to: its length stands nowhere, and is the least in which all has room."""
    least, most = 0, block
    while least < most:
        size = (least + most) // 2
        try:
            pa.decompress(chunk, size, "lz4_raw")
            most = size
        except OSError:
            least = size + 1
    try:
        return bytes(pa.decompress(chunk, least, "lz4_raw", asbytes=True))
    except OSError as error:
        raise ValueError("its tail cannot be unpacked") from error


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the fields of a Protobuf message: numbers, or bytes; those of eight and four bytes are passed over."""
    place = 0
    while place < len(data):
        tag, place = _varint(data, place)
        kind = tag & 7
        if kind == 0:
            number, place = _varint(data, place)
            yield tag >> 3, number
        elif kind == 2:
            size, place = _varint(data, place)
            if size > len(data) - place:
                raise ValueError("its tail ends within a field")
            yield tag >> 3, data[place : place + size]
            place += size
        elif kind in (1, 5):
            place += 8 if kind == 1 else 4
        else:
            raise ValueError("its tail has a field of an unknown kind")


def _varint(data: bytes, place: int) -> tuple[int, int]:
    try:
        return read_varint(data, place, "its tail has")
    except IndexError:
        raise ValueError("its tail ends within a number") from None


def _number(value: int | bytes) -> int:
    if isinstance(value, bytes):
        raise ValueError("its tail has bytes where a number should be")
    return value


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("its tail has a number where bytes should be")
    return value


def _zigzag(value: int | bytes) -> int:
    return zigzag(_number(value))

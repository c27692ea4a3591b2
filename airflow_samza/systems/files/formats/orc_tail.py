"""The tail of an ORC file, as far as it says how many rows and how much text its stripes have.

Arrow reads and unpacks the tail, and gives it as the Protobuf message that it is; of these two it says nothing else
(decision 134).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pyarrow import orc

from airflow_samza.grouping import grouped
from airflow_samza.systems.files.formats.varints import read_varint, zigzag

_FOOTER = 2
_STRIPES, _TYPES, _STATISTICS = 3, 4, 7
"""Fields of the footer."""

_TEXT_STATISTICS = {4: 3, 8: 1}
"""Fields of a column's statistics about texts, and about other bytes, and in each the field with their sum."""


class OrcTail(NamedTuple):
    """Contents of the tail: the rows of each stripe, and the bytes of text of each top column by place.

    ``text`` lacks columns that are no text, and all where the writer left no statistics.
    """

    stripes: tuple[int, ...]
    text: dict[int, int]

    @classmethod
    def read(cls, file: orc.ORCFile) -> OrcTail:
        """Return the tail of an open file. Damage is a ``ValueError``."""
        parts = grouped(_fields(_bytes(dict(_fields(file.reader.serialized_file_tail()))[_FOOTER])))
        stripes = tuple(_number(_bytes(stripe), 5) for stripe in parts.get(_STRIPES, ()))
        types, statistics = map(_bytes, parts.get(_TYPES, ())), map(_bytes, parts.get(_STATISTICS, ()))
        return cls(stripes, _text([*types], [*statistics]))


def _text(types: list[bytes], statistics: list[bytes]) -> dict[int, int]:
    """Return the bytes of text below each top column, by place."""
    if not types or len(types) != len(statistics):
        return {}
    tops = [number for field, value in _fields(types[0]) if field == 2 for number in _packed(_bytes(value))]
    text_bytes = {}
    for place, (first, last) in enumerate(zip(tops, [*tops[1:], len(types)], strict=True)):
        sums = [
            zigzag(_number(_bytes(value), _TEXT_STATISTICS[field]))
            for one in statistics[first:last]
            for field, value in _fields(one)
            if field in _TEXT_STATISTICS
        ]
        if sums:
            text_bytes[place] = sum(sums)
    return text_bytes


def _packed(data: bytes) -> Iterator[int]:
    place = 0
    while place < len(data):
        number, place = read_varint(data, place, "its tail has")
        yield number


def _number(message: bytes, field: int) -> int:
    """Return a field of a message that is a number, 0 where it has none."""
    value = dict(_fields(message)).get(field, 0)
    if isinstance(value, bytes):
        raise ValueError("its tail has bytes where a number should be")
    return value


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("its tail has a number where bytes should be")
    return value


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the fields of a Protobuf message: numbers, or bytes; those of eight and four bytes are passed over."""
    place = 0
    while place < len(data):
        tag, place = read_varint(data, place, "its tail has")
        kind = tag & 7
        if kind == 0:
            number, place = read_varint(data, place, "its tail has")
            yield tag >> 3, number
        elif kind == 2:
            size, place = read_varint(data, place, "its tail has")
            yield tag >> 3, data[place : place + size]
            place += size
        elif kind in (1, 5):
            place += 8 if kind == 1 else 4
        else:
            raise ValueError("its tail has a field of an unknown kind")

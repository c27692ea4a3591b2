"""Whole numbers of seven bits a byte, as Avro, ORC and Parquet write them.

The formats decode by it, and the serde of Protobuf.
"""

from __future__ import annotations


def read_varint(data: bytes, place: int, holder: str) -> tuple[int, int]:
    """Return the number that stands at a place, and the place behind it.

    ``holder`` begins the sentence about a number that is none ("its tail has"), a ``ValueError``. Bytes that end
    within it are an ``IndexError``.
    """
    number = shift = 0
    while shift < 70:
        byte = data[place]
        place += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return number, place
    raise ValueError(f"{holder} a number of more than ten bytes".lstrip())


def zigzag(number: int) -> int:
    """Return the number with a sign for which one without stands: 0, -1, 1, -2 and so on."""
    return (number >> 1) ^ -(number & 1)


def read_zigzag(data: bytes, place: int, holder: str) -> tuple[int, int]:
    """Return the number with a sign that stands at a place, and the place behind it; errors as :func:`read_varint`."""
    number, place = read_varint(data, place, holder)
    return zigzag(number), place

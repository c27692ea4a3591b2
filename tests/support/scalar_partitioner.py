"""Partitions of single keys, in plain Python: the reference with which the partitioner of columns is compared."""

from __future__ import annotations

import datetime
import decimal
import struct
from collections.abc import Sequence
from typing import Any

from airflow_samza.schema import key_type, parse_type

_MASK = 0xFFFFFFFF
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


def partition_of(key_values: Sequence[Any], types: Sequence[str], n: int) -> int:
    """The partition (0 … n-1) of one key, given as a tuple of column values.

    >>> partition_of((7,), ("bigint",), 16), partition_of((None,), ("string",), 16)
    (11, 0)
    """
    if n == 1 or all(value is None for value in key_values):
        return 0
    seed = 42
    for value, kind in zip(key_values, types, strict=True):
        if value is not None:
            seed = _hash(value, key_type(parse_type(kind)), seed)
    return (seed - (1 << 32) if seed & 0x80000000 else seed) % n


def _mix(seed: int, word: int) -> int:
    word = word * 0xCC9E2D51 & _MASK
    word = (word << 15 | word >> 17) & _MASK
    seed ^= word * 0x1B873593 & _MASK
    seed = (seed << 13 | seed >> 19) & _MASK
    return (seed * 5 + 0xE6546B64) & _MASK


def _finish(hashed: int, length: int) -> int:
    hashed ^= length & _MASK
    hashed ^= hashed >> 16
    hashed = hashed * 0x85EBCA6B & _MASK
    hashed ^= hashed >> 13
    hashed = hashed * 0xC2B2AE35 & _MASK
    return hashed ^ hashed >> 16


def _hash_int(value: int, seed: int) -> int:
    return _finish(_mix(seed, value & _MASK), 4)


def _hash_long(value: int, seed: int) -> int:
    return _finish(_mix(_mix(seed, value & _MASK), value >> 32 & _MASK), 8)


def _hash_bytes(data: bytes, seed: int) -> int:
    whole = len(data) & ~3
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        seed = _mix(seed, word)
    for byte in data[whole:]:  # Spark mixes each byte of the tail by itself, as a signed number
        seed = _mix(seed, byte if byte < 128 else byte | 0xFFFFFF00)
    return _finish(seed, len(data))


def _hash(value: Any, name: str, seed: int) -> int:
    if name == "bigint":
        return _hash_long(value, seed)
    if name == "string":
        return _hash_bytes(value.encode(), seed)
    if name == "binary":
        return _hash_bytes(value, seed)
    if name == "double":
        number = float(value) + 0.0
        bits = 0x7FF8000000000000 if number != number else struct.unpack("<q", struct.pack("<d", number))[0]
        return _hash_long(bits, seed)
    if name == "boolean":
        return _hash_int(int(value), seed)
    if name == "date":
        return _hash_int((value - _EPOCH.date()).days, seed)
    if name.startswith("timestamp"):
        moment = value if value.tzinfo else value.replace(tzinfo=datetime.timezone.utc)
        return _hash_long((moment - _EPOCH) // datetime.timedelta(microseconds=1), seed)
    kind = parse_type(name)
    unscaled = int(decimal.Decimal(value).scaleb(kind.scale, decimal.Context(prec=40)))
    return _hash_long(unscaled, seed) if kind.precision <= 18 else _hash_bytes(_big_integer(unscaled), seed)


def _big_integer(value: int) -> bytes:
    """The shortest big-endian two's complement, as Java's ``BigInteger.toByteArray``."""
    return value.to_bytes((value if value >= 0 else ~value).bit_length() // 8 + 1, "big", signed=True)

"""Spark's Murmur3 of key values, bit for bit, of whole Arrow columns in numpy.

Types go by the names that ``schema.key_type`` gives them: all integers are a ``bigint``, all floats a ``double``.
The partitioner hashes keys by it, and Iceberg's bucket transform with another seed.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa

from airflow_samza.schema import DataType, parse_type

SEED = 42

_C1, _C2 = 0xCC9E2D51, 0x1B873593
_MASK = 0xFFFFFFFF
_NAN_BITS = 0x7FF8000000000000
CHUNK = 16_384
"""Rows hashed at a time: the handful of temporary columns then stays in the processor's cache."""


def hash_column(column: pa.Array, name: str, seeds: np.ndarray[Any, Any] | None) -> np.ndarray[Any, Any]:
    """The Murmur3 of each value, chained to ``seeds`` (uint32 per row; None for the first column).

    A null keeps its seed.
    """
    if pa.types.is_dictionary(column.type):
        if seeds is None:
            return _take_hashes(column, name)
        column = column.cast(column.type.value_type)
    if name in ("string", "binary"):
        hashed = _hash_strings(column, seeds)
    elif name.startswith("decimal") and parse_type(name).precision > 18:
        hashed = _hash_decimals(column, parse_type(name), seeds)
    else:
        hashed = _hash_numbers(column, name, seeds)
    if column.null_count:
        missing = column.is_null().to_numpy(zero_copy_only=False)
        hashed[missing] = np.uint32(SEED) if seeds is None else seeds[missing]
    return hashed


def _take_hashes(column: pa.DictionaryArray, name: str) -> np.ndarray[Any, Any]:
    """The hashes of a dictionary-encoded first key column: each distinct value is hashed once."""
    hashed = hash_column(column.dictionary, name, None)
    if column.null_count == 0:
        return hashed.take(_values(column.indices))
    indices = column.indices.fill_null(len(hashed))
    return np.append(hashed, np.uint32(SEED)).take(_values(indices))


def _values(column: pa.Array) -> np.ndarray[Any, Any]:
    """A fixed-width column's values without a copy; what stands at nulls means nothing."""
    letter = "f" if pa.types.is_floating(column.type) else "u" if pa.types.is_unsigned_integer(column.type) else "i"
    kind = np.dtype(f"{letter}{column.type.bit_width // 8}")  # to_pandas_dtype would load pandas in every worker
    buffer = column.buffers()[1]
    return np.frombuffer(buffer, kind, len(column), column.offset * kind.itemsize) if len(column) else np.empty(0, kind)


def _hash_numbers(column: pa.Array, name: str, seeds: np.ndarray[Any, Any] | None) -> np.ndarray[Any, Any]:
    if name in ("boolean", "date"):
        small = column.cast(pa.int8()) if name == "boolean" else column.cast(pa.date32()).view(pa.int32())
        return _murmur(_values(small).astype(np.int32), None, seeds, 4)
    if name == "double":
        numbers = _values(column).astype(np.float64) + 0.0
        longs = numbers.view(np.int64)
        longs[np.isnan(numbers)] = _NAN_BITS
    elif name == "bigint":
        longs = np.ascontiguousarray(_values(column), np.int64) if len(column) else np.empty(0, np.int64)
    elif name.startswith("timestamp"):
        micros = column.cast(pa.timestamp("us", column.type.tz), safe=False)
        longs = _values(micros.view(pa.int64()))
    else:  # a decimal of at most 18 digits lies in the lower half of its 128 bits
        wide = (
            column
            if pa.types.is_decimal128(column.type)
            else column.cast(pa.decimal128(column.type.precision, column.type.scale))
        )
        halves = (
            np.frombuffer(wide.buffers()[1], np.int64, 2 * len(wide), 16 * wide.offset)
            if len(wide)
            else np.empty(0, np.int64)
        )
        longs = np.ascontiguousarray(halves[::2])
    words = longs.view(np.uint32)  # little-endian: the low word first
    return _murmur(words[0::2], words[1::2], seeds, 8)


def _murmur(low: Any, high: Any, seeds: Any, length: int) -> np.ndarray[Any, Any]:
    """Murmur3 of one or two words per row."""
    rows = len(low)
    out = np.empty(rows, np.uint32)
    spare, word = np.empty(CHUNK, np.uint32), np.empty(CHUNK, np.uint32)
    for start in range(0, rows, CHUNK):
        end = min(start + CHUNK, rows)
        hashed, other, key = out[start:end], spare[: end - start], word[: end - start]
        hashed[:] = SEED if seeds is None else seeds[start:end]
        for part in (low,) if high is None else (low, high):
            key[:] = part[start:end].view(np.uint32)
            _mix_rows(hashed, key, other)
        _finish_rows(hashed, length, other)
    return out


def _mix_rows(hashed: Any, key: Any, other: Any) -> None:
    key *= np.uint32(_C1)
    np.right_shift(key, np.uint32(17), out=other)
    key <<= np.uint32(15)
    key |= other
    key *= np.uint32(_C2)
    hashed ^= key
    np.right_shift(hashed, np.uint32(19), out=other)
    hashed <<= np.uint32(13)
    hashed |= other
    hashed *= np.uint32(5)
    hashed += np.uint32(0xE6546B64)


def _finish_rows(hashed: Any, length: Any, other: Any) -> None:
    hashed ^= np.asarray(length, np.uint32)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        np.right_shift(hashed, np.uint32(shift), out=other)
        hashed ^= other
        hashed *= np.uint32(factor)
    np.right_shift(hashed, np.uint32(16), out=other)
    hashed ^= other


def _hash_strings(column: pa.Array, seeds: np.ndarray[Any, Any] | None) -> np.ndarray[Any, Any]:
    """Strings and binaries; few distinct values are hashed once each."""
    plain = pa.types.is_string(column.type) or pa.types.is_binary(column.type)
    if not plain:
        column = column.cast(pa.large_binary() if pa.types.is_large_string(column.type) else pa.binary())
    if seeds is None and len(column) > 1024:
        head = column.slice(0, 1024)
        if len(head.unique()) < 512:
            return _take_hashes(column.dictionary_encode(), "binary")
    large = pa.types.is_large_binary(column.type)
    _, ends, data = column.buffers()
    offsets = np.frombuffer(ends, np.int64 if large else np.int32)[
        column.offset : column.offset + len(column) + 1
    ].astype(np.int64)
    text = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)
    return _hash_slices(text, offsets[:-1], np.diff(offsets), seeds)


_FEW = 16
"""With fewer strings than this still unfinished, Python byte by byte is faster than numpy word by word."""


def _mix(seed: int, word: int) -> int:
    word = word * _C1 & _MASK
    word = (word << 15 | word >> 17) & _MASK
    seed ^= word * _C2 & _MASK
    seed = (seed << 13 | seed >> 19) & _MASK
    return (seed * 5 + 0xE6546B64) & _MASK


def _hash_slices(text: Any, starts: Any, sizes: Any, seeds: Any) -> np.ndarray[Any, Any]:
    """Murmur3 of byte slices: word i of all slices that have one at a time, then the tails byte by byte."""
    rows = len(starts)
    out = np.full(rows, SEED, np.uint32) if seeds is None else seeds.copy()
    words = sizes >> 2
    order = np.argsort(-words, kind="stable")  # those with a word left are then always a prefix
    ordered = -words[order]
    states, begins = out[order], starts[order]
    active, place = int(np.searchsorted(ordered, 0)), 0
    while active > _FEW:
        base = begins[:active] + 4 * place
        key = text[base].astype(np.uint32)
        for byte in (1, 2, 3):
            key |= text[base + byte].astype(np.uint32) << np.uint32(8 * byte)
        _mix_rows(states[:active], key, np.empty(active, np.uint32))
        place += 1
        active = int(np.searchsorted(ordered, -place))
    for row in range(active):
        begin, hashed = int(begins[row]), int(states[row])
        body = text[begin + 4 * place : begin + 4 * int(-ordered[row])].tobytes()
        for (word,) in struct.iter_unpack("<I", body):
            hashed = _mix(hashed, word)
        states[row] = hashed
    out[order] = states
    tails = sizes & 3
    for byte in (0, 1, 2):
        some = np.flatnonzero(tails > byte)
        if len(some):
            state = out[some]
            key = text[starts[some] + (words[some] << 2) + byte].view(np.int8).astype(np.int32).view(np.uint32)
            _mix_rows(state, key, np.empty(len(some), np.uint32))
            out[some] = state
    _finish_rows(out, sizes.astype(np.uint32), np.empty(rows, np.uint32))
    return out


def _hash_decimals(column: pa.Array, kind: DataType, seeds: np.ndarray[Any, Any] | None) -> np.ndarray[Any, Any]:
    wide = column.cast(pa.decimal128(kind.precision, kind.scale))
    data = wide.buffers()[1]
    places = range(16 * wide.offset, 16 * (wide.offset + len(wide)), 16)
    texts = [_big_integer(int.from_bytes(data[place : place + 16], "little", signed=True)) for place in places]
    return _hash_strings(pa.array(texts, pa.binary()), seeds)


def _big_integer(value: int) -> bytes:
    """The shortest big-endian two's complement, as Java's ``BigInteger.toByteArray``."""
    return value.to_bytes((value if value >= 0 else ~value).bit_length() // 8 + 1, "big", signed=True)

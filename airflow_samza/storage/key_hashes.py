"""Keys of any simple type as 64-bit numbers, a column at a time.

Equal keys have the same number on every machine and in every process. It is not the hash of the partitioner: within one
partition those of a table agree in some of their bits. Indexes and tables of tasks find rows by them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from airflow_samza.errors import StoreError

Numbers = np.ndarray[Any, Any]

_LONG = 256
"""Texts of more bytes are hashed one by one: eight bytes of all of them at a time, each would cost a pass."""

_GAMMA, _FIRST_FACTOR, _SECOND_FACTOR = (
    np.uint64(0x9E3779B97F4A7C15),
    np.uint64(0xBF58476D1CE4E5B9),
    np.uint64(0x94D049BB133111EB),
)
_CHUNK = 32_768
"""Rows hashed at a time: the temporary columns then stay in the processor's cache."""


def key_hashes(columns: Sequence[pa.Array]) -> Numbers:
    """Return the hash (uint64) of each row's key; what stands where a key column is null means nothing."""
    hashes: Numbers | None = None
    for column in columns:
        own = _column_hashes(column)
        hashes = own if hashes is None else _mixed(hashes * _GAMMA ^ own)
    assert hashes is not None
    return hashes


def whole_numbers(column: pa.Array) -> Numbers | None:
    """Return a column whose values fit into an int64 each, as such: equal values are equal numbers.

    None for other types.
    """
    kind = column.type
    if pa.types.is_int64(kind) or pa.types.is_timestamp(kind) or pa.types.is_int32(kind) or pa.types.is_date32(kind):
        return _values(column, f"i{kind.bit_width // 8}").astype(np.int64, copy=False)
    if pa.types.is_integer(kind):
        return _values(column.cast(pa.int64()), "i8")
    if pa.types.is_boolean(kind):
        return _values(column.cast(pa.int8()), "i1").astype(np.int64)
    if pa.types.is_floating(kind):  # equal floats have equal bits once -0.0 and NaN are made one
        numbers = _values(column.cast(pa.float64()), "f8") + 0.0
        bits: Numbers = np.where(np.isnan(numbers), np.nan, numbers).view(np.int64)
        return bits
    return None


def _column_hashes(column: pa.Array) -> Numbers:
    if pa.types.is_dictionary(column.type):
        return _dictionary_hashes(column)
    numbers = whole_numbers(column)
    if numbers is not None:
        hashes: Numbers = np.empty(len(numbers), np.uint64)
        for start in range(0, len(numbers), _CHUNK):
            part = slice(start, start + _CHUNK)
            hashes[part] = _mixed(numbers[part].view(np.uint64) * _GAMMA)
        return hashes
    if pa.types.is_decimal128(column.type):
        halves = _values(column, "u8", 2)
        return _mixed(_mixed(halves[0::2] * _GAMMA) ^ halves[1::2])
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        return _text_hashes(column, np.int32)
    if pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type):
        return _text_hashes(column, np.int64)
    raise StoreError(
        f"A column of type {column.type} cannot be the key of a table.",
        hint="Key by columns of simple types: numbers, texts, dates, times, decimals, booleans.",
        type=str(column.type),
    )


def _dictionary_hashes(column: pa.DictionaryArray) -> Numbers:
    own = np.append(_column_hashes(column.dictionary), np.uint64(0))
    indices = column.indices.fill_null(len(own) - 1) if column.null_count else column.indices
    hashes: Numbers = own.take(_values(indices.cast(pa.int64()), "i8"))
    return hashes


def _values(column: pa.Array, kind: str, per_row: int = 1) -> Numbers:
    """Return a fixed-width column's values without a copy; what stands at nulls means nothing."""
    if not len(column):
        return np.empty(0, kind)
    count, width = len(column) * per_row, np.dtype(kind).itemsize
    values: Numbers = np.frombuffer(column.buffers()[1], kind, count, column.offset * per_row * width)
    return values


def _mixed(numbers: Numbers) -> Numbers:
    """Mix, so that every bit of the result depends on every bit (the finalizer of splitmix64)."""
    numbers = (numbers ^ numbers >> np.uint64(30)) * _FIRST_FACTOR
    numbers = (numbers ^ numbers >> np.uint64(27)) * _SECOND_FACTOR
    mixed: Numbers = numbers ^ numbers >> np.uint64(31)
    return mixed


def _text_hashes(column: pa.Array, offset_type: type[np.signedinteger[Any]]) -> Numbers:
    rows = len(column)
    hashes = np.zeros(rows, np.uint64)
    if not rows:
        return hashes
    _, ends, data = column.buffers()
    offsets = np.frombuffer(ends, offset_type, rows + 1, column.offset * np.dtype(offset_type).itemsize).astype(
        np.int64
    )
    size = int(offsets[-1])
    held = data if data is not None and data.size >= 8 else bytes(data or b"") + bytes(8)
    size = max(size, 8) if data is None or data.size < 8 else data.size
    words: Numbers = np.ndarray((size - 7,), "<u8", held, strides=(1,))  # the eight bytes that begin at each byte
    for start in range(0, rows, _CHUNK):
        part = slice(start, start + _CHUNK)
        begins = offsets[:-1][part]
        hashes[part] = _short_hashes(words, begins, offsets[1:][part] - begins)
    for row in np.flatnonzero(np.diff(offsets) > _LONG).tolist():
        digest = hashlib.blake2b(memoryview(held)[offsets[row] : offsets[row + 1]], digest_size=8).digest()
        hashes[row] = int.from_bytes(digest, "little")
    return hashes


def _short_hashes(words: Numbers, begins: Numbers, lengths: Numbers) -> Numbers:
    """Yield eight bytes of every text at a time, as long as there are any left."""
    hashes = _mixed(lengths.astype(np.uint64) + _GAMMA)
    left, at, which = np.where(lengths > _LONG, 0, lengths), begins, None
    while True:
        some = left > 0
        if not some.all():
            rows = np.flatnonzero(some)
            which, left, at = (rows if which is None else which[rows]), left[rows], at[rows]
        if not len(left):
            return hashes
        start = np.minimum(at, len(words) - 1)
        read = words[start] >> ((at - start) << 3).astype(np.uint64)
        short = np.flatnonzero(left < 8)
        read[short] &= (np.uint64(1) << (left[short] << 3).astype(np.uint64)) - np.uint64(1)
        if which is None:
            hashes = _mixed((hashes ^ read) * _GAMMA)
        else:
            hashes[which] = _mixed((hashes[which] ^ read) * _GAMMA)
        left, at = left - 8, at + 8

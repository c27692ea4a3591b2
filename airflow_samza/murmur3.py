"""Spark's Murmur3 of key values, bit for bit: of one value in Python, and of whole Arrow columns in numpy.

Types go by the names that ``partitioner.key_type`` gives them: all integers are a ``bigint``, all floats a ``double``.
"""

from __future__ import annotations

import datetime
import decimal
import struct
from typing import TYPE_CHECKING, Any

from airflow_samza.errors import SchemaError
from airflow_samza.schema import DataType, parse_type

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

SEED = 42

_C1, _C2 = 0xCC9E2D51, 0x1B873593
_MASK = 0xFFFFFFFF
_NAN_BITS = 0x7FF8000000000000
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
_EPOCH_DATE = datetime.date(1970, 1, 1)
CHUNK = 16_384
"""Rows hashed at a time: the handful of temporary columns then stays in the processor's cache."""


# --- one value -------------------------------------------------------------------------------------------------------


def _mix(seed: int, word: int) -> int:
    word = word * _C1 & _MASK
    word = (word << 15 | word >> 17) & _MASK
    seed ^= word * _C2 & _MASK
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


def hash_value(value: Any, name: str, seed: int) -> int:
    """The Murmur3 of a value that is not null, chained to a seed."""
    try:
        return _hash_of(value, name, seed)
    except (TypeError, ValueError, AttributeError, decimal.InvalidOperation, OverflowError) as error:
        raise SchemaError(
            f"The key value {value!r} is not a {name}.",
            hint="Give a value that the column's type can hold.",
            value=repr(value),
            type=name,
        ) from error


def _hash_of(value: Any, name: str, seed: int) -> int:
    if name == "bigint":
        if isinstance(value, bool):
            raise TypeError(name)
        return _hash_long(_in_64_bits(value.__index__()), seed)
    if name == "string":
        return _hash_bytes(value.encode(), seed)
    if name == "binary":
        return _hash_bytes(bytes(memoryview(value)), seed)
    if name == "double":
        number = float(value) + 0.0
        bits = _NAN_BITS if number != number else struct.unpack("<q", struct.pack("<d", number))[0]
        return _hash_long(bits, seed)
    if name == "boolean":
        if not isinstance(value, bool):
            raise TypeError(name)
        return _hash_int(int(value), seed)
    if name == "date":
        day = value.date() if isinstance(value, datetime.datetime) else value
        return _hash_int((day - _EPOCH_DATE).days, seed)
    if name.startswith("timestamp"):
        moment = value if value.tzinfo else value.replace(tzinfo=datetime.timezone.utc)
        return _hash_long((moment - _EPOCH) // datetime.timedelta(microseconds=1), seed)
    kind = parse_type(name)
    unscaled = _unscaled(decimal.Decimal(value), kind.scale)
    return (
        _hash_long(_in_64_bits(unscaled), seed) if kind.precision <= 18 else _hash_bytes(_big_integer(unscaled), seed)
    )


def _in_64_bits(value: int) -> int:
    if not -(1 << 63) <= value < 1 << 63:
        raise OverflowError(value)
    return value


def _unscaled(value: decimal.Decimal, scale: int) -> int:
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise ValueError(value)
    number: int = int("".join(map(str, digits)))
    shift = exponent + scale
    if shift >= 0:
        number *= 10**shift
    elif number % 10**-shift:
        raise ValueError(value)
    else:
        number //= 10**-shift
    return -number if sign else number


def _big_integer(value: int) -> bytes:
    """The shortest big-endian two's complement, as Java's ``BigInteger.toByteArray``."""
    return value.to_bytes((value if value >= 0 else ~value).bit_length() // 8 + 1, "big", signed=True)


# --- a column --------------------------------------------------------------------------------------------------------


def hash_column(column: pa.Array, name: str, seeds: np.ndarray[Any, Any] | None) -> np.ndarray[Any, Any]:
    """The Murmur3 of each value, chained to ``seeds`` (uint32 per row; None for the first column).

    A null keeps its seed.
    """
    import numpy as np
    import pyarrow as pa

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
    import numpy as np

    hashed = hash_column(column.dictionary, name, None)
    if column.null_count == 0:
        return hashed.take(_values(column.indices))
    indices = column.indices.fill_null(len(hashed))
    return np.append(hashed, np.uint32(SEED)).take(_values(indices))


def _values(column: pa.Array) -> np.ndarray[Any, Any]:
    """A fixed-width column's values without a copy; what stands at nulls means nothing."""
    import numpy as np
    import pyarrow as pa

    letter = "f" if pa.types.is_floating(column.type) else "u" if pa.types.is_unsigned_integer(column.type) else "i"
    kind = np.dtype(f"{letter}{column.type.bit_width // 8}")  # to_pandas_dtype would load pandas in every worker
    buffer = column.buffers()[1]
    return np.frombuffer(buffer, kind, len(column), column.offset * kind.itemsize) if len(column) else np.empty(0, kind)


def _hash_numbers(column: pa.Array, name: str, seeds: np.ndarray[Any, Any] | None) -> np.ndarray[Any, Any]:
    import numpy as np
    import pyarrow as pa

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
    import numpy as np

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
    import numpy as np

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
    import numpy as np

    hashed ^= np.asarray(length, np.uint32)
    np.right_shift(hashed, np.uint32(16), out=other)
    hashed ^= other
    hashed *= np.uint32(0x85EBCA6B)
    np.right_shift(hashed, np.uint32(13), out=other)
    hashed ^= other
    hashed *= np.uint32(0xC2B2AE35)
    np.right_shift(hashed, np.uint32(16), out=other)
    hashed ^= other


def _hash_strings(column: pa.Array, seeds: np.ndarray[Any, Any] | None) -> np.ndarray[Any, Any]:
    """Strings and binaries; few distinct values are hashed once each."""
    import numpy as np
    import pyarrow as pa

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


def _hash_slices(text: Any, starts: Any, sizes: Any, seeds: Any) -> np.ndarray[Any, Any]:
    """Murmur3 of byte slices: word i of all slices that have one at a time, then the tails byte by byte."""
    import numpy as np

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
    import pyarrow as pa

    numbers = column.cast(pa.decimal128(kind.precision, kind.scale)).to_pylist()
    texts = [None if number is None else _big_integer(_unscaled(number, kind.scale)) for number in numbers]
    return _hash_strings(pa.array(texts, pa.binary()), seeds)

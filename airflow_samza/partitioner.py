"""Key → partition: one hash and one null rule, bit-equal in Python, on Arrow batches and in Spark SQL.

The hash is Spark's Murmur3 (seed 42) of the key columns in order, the partition its ``pmod`` by the partition count:

* integers of any width hash as ``bigint``, floats as ``double`` (``-0.0`` as ``0.0``, every NaN alike), so that widening a
  key column moves no message;
* a null column of a composite key is skipped, as Spark's ``hash(a, b)`` does; a key that is null in every column, or a
  stream of one partition, gives partition 0 (SEMANTICS P11).
"""

from __future__ import annotations

import datetime
import decimal
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_samza.errors import SchemaError
from airflow_samza.schema import DataType, parse_type, type_from_arrow

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

SEED = 42
MAX_PARTITIONS = 1 << 31

_C1, _C2 = 0xCC9E2D51, 0x1B873593
_MASK = 0xFFFFFFFF
_NAN_BITS = 0x7FF8000000000000
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
_EPOCH_DATE = datetime.date(1970, 1, 1)
_CHUNK = 16_384
"""Rows hashed at a time: the handful of temporary columns then stays in the processor's cache."""


def key_type(kind: DataType) -> str:
    """The name under which a key column's type is compared and hashed: equal names hash equal values alike.

    >>> key_type(parse_type("int")), key_type(parse_type("float")), key_type(parse_type("decimal(10,2)"))
    ('bigint', 'double', 'decimal(10,2)')
    """
    if kind.is_integer:
        return "bigint"
    if kind.name in ("float", "double"):
        return "double"
    if kind.name in ("array", "map", "struct"):
        raise SchemaError(
            f"A column of type {kind.ddl()} cannot be a key.",
            hint="Key by a column of a simple type, or make one first with map or select.",
            type=kind.ddl(),
        )
    return kind.ddl()


def partition_of(key_values: Sequence[Any], types: Sequence[DataType | str], n: int) -> int:
    """The partition (0 … n-1) of one key, given as a tuple of column values; the reference for the other two forms.

    >>> partition_of((7,), ("bigint",), 16), partition_of((None,), ("string",), 16)
    (11, 0)
    """
    _check_count(n)
    if len(key_values) != len(types):
        raise SchemaError(f"The key has {len(key_values)} values and {len(types)} types.", hint="Give one type per key column.")
    names = [_type_name(kind) for kind in types]
    if n == 1 or all(value is None for value in key_values):
        return 0
    seed = SEED
    for value, name in zip(key_values, names, strict=True):
        if value is not None:
            seed = _hash_value(value, name, seed)
    return _signed(seed) % n


def spark_expression(key_columns: Sequence[str], types: Sequence[DataType | str], n: int) -> str:
    """Spark SQL text that gives the partition of a row: the same number as :func:`partition_of`.

    >>> print(spark_expression(["id"], ["int"], 8))
    CASE WHEN `id` IS NULL THEN 0 ELSE pmod(hash(CAST(`id` AS BIGINT)), 8) END
    """
    _check_count(n)
    casts = {"bigint": "BIGINT", "double": "DOUBLE"}
    columns = ["`" + name.replace("`", "``") + "`" for name in key_columns]
    names = [_type_name(kind) for kind in types]
    if n == 1:
        return "0"
    hashed = [f"CAST({column} AS {casts[name]})" if name in casts else column for column, name in zip(columns, names, strict=True)]
    nothing = " AND ".join(f"{column} IS NULL" for column in columns)
    return f"CASE WHEN {nothing} THEN 0 ELSE pmod(hash({', '.join(hashed)}), {n}) END"


def partition_array(batch: pa.RecordBatch, key_columns: Sequence[str], n: int) -> np.ndarray[Any, Any]:
    """The partition of every row of a batch, as numpy ``uint8``, ``uint16`` or ``uint32``: the narrowest that holds n."""
    import numpy as np

    _check_count(n)
    kind = np.uint8 if n <= 1 << 8 else np.uint16 if n <= 1 << 16 else np.uint32
    columns = [_column(batch, name) for name in key_columns]
    if n == 1 or not columns:
        return np.zeros(batch.num_rows, kind)
    hashes: np.ndarray[Any, Any] | None = None
    for column in columns:
        hashes = _hash_column(column, hashes)
    assert hashes is not None
    out = np.empty(batch.num_rows, kind)
    _pmod(hashes, n, out)
    if all(column.null_count for column in columns):
        valid = columns[0].is_valid().to_numpy(zero_copy_only=False)
        for column in columns[1:]:
            valid = valid | column.is_valid().to_numpy(zero_copy_only=False)
        out[~valid] = 0
    return out


def value_hashes(column: pa.Array, seed: int) -> np.ndarray[Any, Any]:
    """The Murmur3 (uint32) of each value of a key column under a seed of one's own; a null has the seed."""
    import numpy as np

    return _hash_column(column, np.full(len(column), seed, np.uint32))


def split_by_partition(batch: pa.RecordBatch, partitions: np.ndarray[Any, Any], n: int) -> list[tuple[int, pa.RecordBatch]]:
    """The rows of each partition that has any, as (partition, batch) in partition order; rows keep their order.

    The batches are slices of one re-ordered copy: keeping one of them keeps that copy alive.
    """
    import numpy as np
    import pyarrow as pa

    rows = batch.num_rows
    if rows == 0:
        return []
    first = int(partitions[0])
    if n == 1 or (partitions[0] == partitions[-1] and (partitions == partitions[0]).all()):
        return [(first, batch)]
    # A stable sort of 8 or 16 bit numbers is a radix sort in numpy: linear, and it keeps the order inside a partition.
    narrow = partitions.astype(np.uint8 if n <= 1 << 8 else np.uint16, copy=False) if n <= 1 << 16 else partitions
    order = np.argsort(narrow, kind="stable")
    counts = np.bincount(narrow, minlength=n)
    # pa.array would load pandas in every worker, which takes seconds, to ask whether this is a Series.
    ordered = batch.take(pa.Array.from_buffers(pa.int64(), rows, [None, pa.py_buffer(order)]))
    present = np.flatnonzero(counts)
    sizes = counts[present]
    starts = np.cumsum(sizes) - sizes
    return [
        (partition, ordered.slice(start, size))
        for partition, start, size in zip(present.tolist(), starts.tolist(), sizes.tolist(), strict=True)
    ]


def _check_count(n: int) -> None:
    if not 0 < n < MAX_PARTITIONS:
        raise SchemaError(f"A stream cannot have {n} partitions.", hint="Declare at least one partition.", partitions=n)


def _type_name(kind: DataType | str) -> str:
    return key_type(parse_type(kind) if isinstance(kind, str) else kind)


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    import pyarrow as pa

    place = batch.schema.get_field_index(name)
    if place < 0:
        raise SchemaError(f"There is no key column {name!r}.", hint=f"The columns are {', '.join(batch.schema.names)}.", column=name)
    column = batch.column(place)
    if pa.types.is_dictionary(column.type) and column.dictionary.null_count:  # a null may hide behind a valid index
        return column.cast(column.type.value_type)
    return column


# --- one value -------------------------------------------------------------------------------------------------------


def _signed(value: int) -> int:
    return value - (1 << 32) if value & 0x80000000 else value


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


def _hash_value(value: Any, name: str, seed: int) -> int:
    try:
        return _hash_known(value, name, seed)
    except (TypeError, ValueError, AttributeError, decimal.InvalidOperation, OverflowError) as error:
        raise SchemaError(
            f"The key value {value!r} is not a {name}.",
            hint="Give a value that the column's type can hold.",
            value=repr(value),
            type=name,
        ) from error


def _hash_known(value: Any, name: str, seed: int) -> int:
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
    return _hash_long(_in_64_bits(unscaled), seed) if kind.precision <= 18 else _hash_bytes(_big_integer(unscaled), seed)


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


def _hash_column(column: pa.Array, seeds: np.ndarray[Any, Any] | None) -> np.ndarray[Any, Any]:
    """The Murmur3 of each value, chained to ``seeds`` (uint32 per row; None for the first column); a null keeps its seed."""
    import numpy as np
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        if seeds is None:
            return _take_hashes(column)
        column = column.cast(column.type.value_type)
    name = key_type(type_from_arrow(column.type))
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


def _take_hashes(column: pa.DictionaryArray) -> np.ndarray[Any, Any]:
    """The hashes of a dictionary-encoded first key column: each distinct value is hashed once."""
    import numpy as np

    hashed = _hash_column(column.dictionary, None)
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
        wide = column if pa.types.is_decimal128(column.type) else column.cast(pa.decimal128(column.type.precision, column.type.scale))
        halves = np.frombuffer(wide.buffers()[1], np.int64, 2 * len(wide), 16 * wide.offset) if len(wide) else np.empty(0, np.int64)
        longs = np.ascontiguousarray(halves[::2])
    words = longs.view(np.uint32)  # little-endian: the low word first
    return _murmur(words[0::2], words[1::2], seeds, 8)


def _murmur(low: Any, high: Any, seeds: Any, length: int) -> np.ndarray[Any, Any]:
    """Murmur3 of one or two words per row."""
    import numpy as np

    rows = len(low)
    out = np.empty(rows, np.uint32)
    spare, word = np.empty(_CHUNK, np.uint32), np.empty(_CHUNK, np.uint32)
    for start in range(0, rows, _CHUNK):
        end = min(start + _CHUNK, rows)
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


def _pmod(hashes: Any, n: int, out: Any) -> None:
    import numpy as np

    if n & (n - 1) == 0:
        for start in range(0, len(hashes), _CHUNK):
            out[start : start + _CHUNK] = hashes[start : start + _CHUNK] & np.uint32(n - 1)
        return
    for start in range(0, len(hashes), _CHUNK):
        signed = hashes[start : start + _CHUNK].view(np.int32)
        floor = signed // np.int32(n)  # numpy divides by one number with multiplications; its remainder does not
        floor *= np.int32(-n)
        floor += signed
        out[start : start + _CHUNK] = floor


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
            return _take_hashes(column.dictionary_encode())
    large = pa.types.is_large_binary(column.type)
    _, ends, data = column.buffers()
    offsets = np.frombuffer(ends, np.int64 if large else np.int32)[column.offset : column.offset + len(column) + 1].astype(np.int64)
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

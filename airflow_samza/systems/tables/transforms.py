"""Partition transforms and sort orders of Iceberg over Arrow columns: rows split by partitions, and rows in order.

Partition values are as the specification has them: days and months are numbers since 1970, hashes are Murmur3 with
seed 0. Null is first or last in an order, as it says; NaN is above all numbers. Outputs to Iceberg write by them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from decimal import Context, Decimal
from typing import Any, Literal, NamedTuple
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from airflow_samza.errors import RuntimeMissing, install
from airflow_samza.murmur3 import hash_column
from airflow_samza.partitioner import split_by_partition
from airflow_samza.systems.tables.columns import TableField

_WITH_WIDTH = re.compile(r"(bucket|truncate)\[([1-9]\d*)\]")
_MICROS_OF_HOUR = 3_600_000_000
_EXACT = Context(prec=100)
"""Arithmetic of decimals that rounds nothing: that of Python keeps 28 digits, and columns have up to 38."""

_HASHED_AS_LONGS = ("int", "long", "date", "time", "timestamp", "timestamptz")


class PartitionField(NamedTuple):
    """Field of a partition spec: its name, the id of the column that it is made of, and the transform."""

    name: str
    source: int | str
    transform: str


def is_transform(transform: str) -> bool:
    """Return whether rows can be written by a transform.

    >>> is_transform("bucket[16]"), is_transform("zorder")
    (True, False)
    """
    return transform in _PLAIN or _WITH_WIDTH.fullmatch(transform) is not None


def split_rows(
    batch: pa.RecordBatch, partition: Sequence[tuple[PartitionField, TableField]], rows: pa.RecordBatch | None = None
) -> Iterator[tuple[tuple[Any, ...], pa.RecordBatch]]:
    """Yield the rows of each partition that has any, with its values as JSON can hold them; rows keep their order.

    The partitions are those of the rows of ``batch``; ``rows`` are the same in another form, if they come in another.
    """
    rows = batch if rows is None else rows
    if not partition:
        yield (), rows
        return
    columns = [
        transformed(batch.column(batch.schema.get_field_index(column.name)), column.type.word, field.transform)
        for field, column in partition
    ]
    encoded = [column.dictionary_encode(null_encoding="encode") for column in columns]
    places = np.zeros(batch.num_rows, np.int64)
    for column in encoded:
        places = places * len(column.dictionary) + np.asarray(column.indices)
        _, places = np.unique(places, return_inverse=True)  # keeps the numbers small
    _, first, groups = np.unique(places, return_index=True, return_inverse=True)
    for group, part in split_by_partition(rows, groups, len(first)):
        row = int(first[group])
        values = (column.dictionary[column.indices[row].as_py()] for column in encoded)
        yield tuple(map(_plain, values)), part


def transformed(column: pa.Array, word: str, transform: str) -> pa.Array:
    """Return the partition values of a column of a type of Iceberg; null stays null."""
    sized = _WITH_WIDTH.fullmatch(transform)
    if sized is None:
        return _PLAIN[transform](column)
    width = int(sized[2])
    return _buckets(column, word, width) if sized[1] == "bucket" else _truncated(column, width)


def partition_value(value: Any, word: str) -> Any:
    """Return a partition value from its JSON, as manifests have it; ``word`` is the type of the partition field."""
    if value is None:
        return None
    if word.startswith("decimal"):
        return Decimal(value)
    if word in ("float", "double"):
        return float(value)
    if word == "uuid":
        return UUID(value)
    return bytes.fromhex(value) if word == "binary" or word.startswith("fixed") else value


def _plain(value: pa.Scalar) -> Any:
    kind = value.type
    if not value.is_valid:
        return None
    if types.is_date(kind):
        return value.cast(pa.int32()).as_py()
    if types.is_timestamp(kind):
        return value.cast(pa.timestamp("us", kind.tz)).value
    plain = value.as_py()
    if isinstance(plain, bytes):
        return plain.hex()
    return str(plain) if isinstance(plain, float | Decimal) else plain


def _years(column: pa.Array) -> pa.Array:
    return pc.subtract(pc.year(column), 1970).cast(pa.int32())


def _months(column: pa.Array) -> pa.Array:
    years = pc.subtract(pc.year(column), 1970)
    return pc.add(pc.multiply(years, 12), pc.subtract(pc.month(column), 1)).cast(pa.int32())


def _days(column: pa.Array) -> pa.Array:
    return column if types.is_date(column.type) else _floor_divided(column, 24 * _MICROS_OF_HOUR)


def _hours(column: pa.Array) -> pa.Array:
    return _floor_divided(column, _MICROS_OF_HOUR)


def _floor_divided(column: pa.Array, unit: int) -> pa.Array:
    """Return times before 1970 rounded down, too."""
    micros = column.cast(pa.timestamp("us", column.type.tz)).view(pa.int64())
    divided = pa.array(np.asarray(micros.fill_null(0)) // unit, pa.int32())
    return _with_nulls_of(divided, column)


def _with_nulls_of(values: pa.Array, column: pa.Array) -> pa.Array:
    if not column.null_count:
        return values
    return pc.if_else(column.is_valid(), values, pa.scalar(None, values.type))


_PLAIN: dict[str, Callable[[pa.Array], pa.Array]] = {
    "identity": lambda column: column,
    "void": lambda column: pa.nulls(len(column), pa.int32()),
    "year": _years,
    "month": _months,
    "day": _days,
    "hour": _hours,
}


def _buckets(column: pa.Array, word: str, count: int) -> pa.Array:
    if word in _HASHED_AS_LONGS:
        hashes = _hashes_of_longs(column)
    else:
        encoded = column.dictionary_encode()
        values = [] if not len(encoded.dictionary) else [_hash(value, word) for value in encoded.dictionary.to_pylist()]
        hashes = np.asarray([*values, 0], np.uint32)[np.asarray(encoded.indices.fill_null(len(values)))]
    return _with_nulls_of(pa.array((hashes & 0x7FFFFFFF) % count, pa.int32()), column)


def _hashes_of_longs(column: pa.Array) -> np.ndarray[Any, Any]:
    kind = column.type
    if types.is_date(kind):
        column = column.cast(pa.date32()).view(pa.int32())
    elif types.is_timestamp(kind):
        column = column.cast(pa.timestamp("us", kind.tz)).view(pa.int64())
    longs = column.cast(pa.int64()).fill_null(0)
    return hash_column(longs, "bigint", np.zeros(len(longs), np.uint32))


def _hash(value: Any, word: str) -> int:
    """Return the hash of one distinct text, number or run of bytes."""
    try:
        import mmh3
    except ModuleNotFoundError:
        raise RuntimeMissing(
            f"Rows that are partitioned by a bucket of {word} are hashed by mmh3, which is not installed here.",
            hint=f"{install('iceberg')} Workers need it, too.",
            library="mmh3",
        ) from None
    if word == "uuid":
        data = UUID(value).bytes
    elif word.startswith("decimal"):
        unscaled = int(value.scaleb(-value.as_tuple().exponent, _EXACT))
        data = unscaled.to_bytes((unscaled + (unscaled < 0)).bit_length() // 8 + 1, "big", signed=True)
    else:
        data = value if isinstance(value, bytes) else str(value).encode()
    return int(mmh3.hash(data, 0, signed=False))


def _truncated(column: pa.Array, width: int) -> pa.Array:
    kind = column.type
    if types.is_integer(kind):
        numbers = np.asarray(column.fill_null(0))
        return _with_nulls_of(pa.array(numbers - numbers % width, kind), column)
    if types.is_string(kind):
        return pc.utf8_slice_codeunits(column, 0, width)
    if types.is_decimal(kind):
        encoded = column.dictionary_encode()
        unscaled = [int(value.scaleb(kind.scale, _EXACT)) for value in encoded.dictionary.to_pylist()]
        floors = [Decimal(number - number % width).scaleb(-kind.scale, _EXACT) for number in unscaled]
        # One digit more: below zero the floor may be longer than the value.
        return pa.array(floors, pa.decimal256(kind.precision + 1, kind.scale)).take(encoded.indices)
    return pc.binary_slice(column, 0, width)


class SortField(NamedTuple):
    """Field of a sort order: the id of the column that it is made of, the transform, and the direction."""

    source: int
    transform: str
    descending: bool
    nulls_first: bool


def sorted_rows(rows: pa.Table, fields: Sequence[tuple[SortField, TableField, int]]) -> pa.Table:
    """Return rows in the order of some fields, each with its column and the place of that among those of the rows."""
    rows = rows.combine_chunks()
    keys: dict[str, pa.Array] = {}
    order: list[tuple[str, Literal["ascending", "descending"]]] = []

    def by(values: pa.Array, *, descending: bool) -> None:
        name = str(len(keys))
        keys[name] = values
        order.append((name, "descending" if descending else "ascending"))

    for field, column, place in fields:
        whole = rows.column(place).combine_chunks()
        values = transformed(whole, column.type.word, field.transform)
        if values.null_count:
            by(values.is_null(), descending=field.nulls_first)
        if types.is_floating(values.type):
            by(pc.is_nan(values).fill_null(False), descending=field.descending)
        by(values, descending=field.descending)
    return rows.take(pc.sort_indices(pa.table(keys), sort_keys=order))

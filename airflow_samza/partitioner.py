"""Key → partition: one hash and one null rule, bit-equal on Arrow batches and in Spark (decision 1).

The hash is Spark's Murmur3 (seed 42) of the key columns in order, the partition its ``pmod`` by the partition count:

* integers of any width hash as ``bigint``, floats as ``double`` (``-0.0`` as ``0.0``, every NaN alike), so that
  widening a key column moves no message;
* a null column of a composite key is skipped, as Spark's ``hash(a, b)`` does; a key that is null in every column, or a
  stream of one partition, gives partition 0 (rule P11).

Used wherever rows go to a partition by key: when tasks send, in pushes, and in stores.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from airflow_samza.errors import SchemaError
from airflow_samza.murmur3 import CHUNK, hash_column
from airflow_samza.schema import key_type, type_from_arrow


def partition_array(batch: pa.RecordBatch, key_columns: Sequence[str], n: int) -> np.ndarray[Any, Any]:
    """The partition of every row of a batch, as numpy ``uint8``, ``uint16`` or ``uint32``.

    The narrowest that holds n.
    """
    kind = np.uint8 if n <= 1 << 8 else np.uint16 if n <= 1 << 16 else np.uint32
    columns = [_column(batch, name) for name in key_columns]
    if n == 1 or not columns:
        return np.zeros(batch.num_rows, kind)
    hashes: np.ndarray[Any, Any] | None = None
    for column in columns:
        hashes = hash_column(column, _arrow_type_name(column), hashes)
    assert hashes is not None
    out = np.empty(batch.num_rows, kind)
    _pmod(hashes, n, out)
    if all(column.null_count for column in columns):
        nulls = [column.is_null().to_numpy(zero_copy_only=False) for column in columns]
        out[np.logical_and.reduce(nulls)] = 0
    return out


def value_hashes(column: pa.Array, seed: int) -> np.ndarray[Any, Any]:
    """The Murmur3 (uint32) of each value of a key column under a seed of one's own; a null has the seed."""
    return hash_column(column, _arrow_type_name(column), np.full(len(column), seed, np.uint32))


def split_by_partition(
    batch: pa.RecordBatch, partitions: np.ndarray[Any, Any], n: int
) -> list[tuple[int, pa.RecordBatch]]:
    """The rows of each partition that has any, as (partition, batch) in partition order; rows keep their order.

    The batches are slices of one re-ordered copy: keeping one of them keeps that copy alive.
    """
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


def _arrow_type_name(column: pa.Array) -> str:
    return key_type(type_from_arrow(column.type))


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    place = batch.schema.get_field_index(name)
    if place < 0:
        raise SchemaError(
            f"There is no key column {name!r}.", hint=f"The columns are {', '.join(batch.schema.names)}.", column=name
        )
    column = batch.column(place)
    if pa.types.is_dictionary(column.type) and column.dictionary.null_count:  # a null may hide behind a valid index
        return column.cast(column.type.value_type)
    return column


def _pmod(hashes: Any, n: int, out: Any) -> None:
    for start in range(0, len(hashes), CHUNK):
        signed = hashes[start : start + CHUNK].view(np.int32)
        floor = signed // np.int32(n)  # numpy divides by one number with multiplications; its remainder does not
        floor *= np.int32(-n)
        floor += signed
        out[start : start + CHUNK] = floor

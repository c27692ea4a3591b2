"""The limits on what is read of a file at once: a few bytes of one can stand for more than any memory holds.

They are not configured (decision 107): whoever has larger values reads the stream by Spark, or leaves the column out.
Readers of files and of tables check by them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from airflow_samza.errors import SchemaError
from airflow_samza.systems.files.formats.file_format import READ_BY_SPARK
from airflow_samza.systems.files.formats.nested import offsets_of

LARGEST_VALUE = 64 * 2**20
"""Bytes of one text or binary value, at any depth: those of the longest line of a text file."""

LARGEST_BATCH = 256 * 2**20
"""Bytes of the rows that become a batch, unless one row alone has more."""

LARGEST_PIECE = 2**30
"""Bytes of what a format has to unpack as a whole: a page of a column, the text of a stripe."""


def too_large(file: str, stream: str, column: str, what: str, where: str) -> SchemaError:
    """Return the error of a file of which a part is larger than what is read at once."""
    return SchemaError(
        f"File {file} of stream {stream!r} has {what} in column {column!r} ({where}), and at most "
        f"{LARGEST_VALUE // 2**20} MiB of a value and {LARGEST_PIECE // 2**20} MiB of a page or a stripe are read.",
        hint=f"Leave {column!r} out of the declared schema, leave the file out, or {READ_BY_SPARK}.",
        file=file,
        stream=stream,
        column=column,
    )


def check_values(batch: pa.RecordBatch, first_row: int, file: str, stream: str) -> None:
    """Reject a batch with a value that is larger than the limit; ``first_row`` is the number of its first row."""
    if batch.nbytes <= LARGEST_VALUE and not any(map(types.is_dictionary, batch.schema.types)):
        return
    for place, name in enumerate(batch.schema.names):
        column = batch.column(place)
        for row, size in _largest(column):
            if size > LARGEST_VALUE:
                where = f"row {first_row + row + 1:,} of those that were read"
                raise too_large(file, stream, name, f"a value of {size / 2**20:,.1f} MiB", where)


def _largest(column: pa.Array) -> Iterator[tuple[int, int]]:
    """Yield the largest text or binary values of a column, and the rows in which they are."""
    kind = column.type
    if types.is_dictionary(kind):
        for place, size in _largest(column.dictionary):
            row = pc.index(column.indices, pa.scalar(place, column.indices.type)).as_py()
            if row >= 0:
                yield row, size
    elif _is_of_bytes(kind) or types.is_large_string(kind) or types.is_large_binary(kind):
        lengths = pc.binary_length(column)
        size = pc.max(lengths).as_py()
        if size is not None:
            yield pc.index(lengths, pa.scalar(size, lengths.type)).as_py(), size
    elif types.is_struct(kind):
        for inner in column.flatten():
            yield from _largest(inner)
    elif types.is_map(kind):
        for inner in (column.keys, column.items):
            yield from _largest(pa.ListArray.from_arrays(offsets_of(column), inner))
    elif types.is_list(kind) or types.is_large_list(kind):
        parents = pc.list_parent_indices(column)
        for row, size in _largest(pc.list_flatten(column)):
            yield parents[row].as_py(), size


def _is_of_bytes(kind: pa.DataType) -> bool:
    return bool(types.is_string(kind) or types.is_binary(kind))


def in_batches(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield a batch in pieces of which none is larger than a batch when its dictionaries are decoded."""
    worst = sum(
        pc.max(pc.binary_length(column.dictionary)).as_py() or 0
        for column in batch.columns
        if types.is_dictionary(column.type) and _is_of_bytes(column.type.value_type) and len(column.dictionary)
    )
    rows = batch.num_rows if worst * batch.num_rows <= LARGEST_BATCH else max(1, LARGEST_BATCH // worst)
    for start in range(0, batch.num_rows, rows or 1):
        yield batch.slice(start, rows)

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
from airflow_samza.systems.files.formats.nested import leaves_of

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
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if _largest(column) <= LARGEST_VALUE:
            continue
        for row in range(len(column)):
            one = column.take(pa.array([row]))
            size = _largest(one.dictionary_decode() if types.is_dictionary(one.type) else one)
            if size > LARGEST_VALUE:
                where = f"row {first_row + row + 1:,} of those that were read"
                raise too_large(file, stream, name, f"a value of {size / 2**20:,.1f} MiB", where)


def _largest(column: pa.Array) -> int:
    """Return the bytes of the largest text or binary value in a column, at any depth; of a dictionary all count."""
    texts = [leaf for leaf in leaves_of(column) if _is_of_bytes(leaf.type)]
    return max((pc.max(pc.binary_length(leaf)).as_py() or 0 for leaf in texts), default=0)


def _is_of_bytes(kind: pa.DataType) -> bool:
    return any(
        is_of(kind) for is_of in (types.is_string, types.is_binary, types.is_large_string, types.is_large_binary)
    )


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

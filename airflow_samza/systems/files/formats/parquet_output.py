"""Writing of Parquet: with snappy and row groups of 128k rows, without statistics of floats."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import types

ROW_GROUP_ROWS = 131_072
"""Rows of a written row group: small enough that a file of a few million rows can be split among several tasks."""

ROW_GROUP_BYTES = 128 * 2**20
"""A writer lets go of its rows at this size, so that wide rows do not fill the memory."""

_REPEATS = 8
"""Average number of times that a value has to come up for a dictionary to pay."""

_LOOKED_AT = 1 << 17
"""Rows in which repeated values are looked for."""


class ParquetOutput:
    """Writer that gathers rows to row groups; the first one decides which columns are worth a dictionary."""

    def __init__(self, sink: IO[bytes] | pa.NativeFile, schema: pa.Schema, compression: str) -> None:
        self.sink = sink
        self.schema = schema
        self.compression = compression
        self.writer: pq.ParquetWriter | None = None
        self.held: list[pa.RecordBatch] = []
        self.rows = 0
        self.size = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Take rows; write a row group when there are enough."""
        start = 0
        while batch.num_rows - start:
            part = batch.slice(start, ROW_GROUP_ROWS - self.rows)
            self.held.append(part)
            self.rows += part.num_rows
            self.size += part.nbytes
            start += part.num_rows
            if self.rows == ROW_GROUP_ROWS or self.size >= ROW_GROUP_BYTES:
                self.flush()

    def flush(self) -> None:
        """Write what was gathered as a row group."""
        table = pa.Table.from_batches(self.held, self.schema)
        if self.writer is None:
            dictionaries = dictionary_columns(table)
            self.writer = pq.ParquetWriter(
                self.sink,
                self.schema,
                compression=self.compression,
                use_dictionary=dictionaries,
                write_statistics=columns_with_statistics(self.schema),
                write_page_checksum=True,
            )
        if self.rows:
            self.writer.write_table(table, row_group_size=self.rows)
        self.held, self.rows, self.size = [], 0, 0

    def close(self) -> None:
        """Write the last row group and the footer."""
        self.flush()
        if self.writer is not None:
            self.writer.close()


def columns_with_statistics(schema: pa.Schema) -> bool | list[str]:
    """Return the columns whose least and greatest values are written: all (True) but those of floats.

    Arrow leaves NaN out of these values, and Spark, which sorts NaN above all numbers, would skip the row groups
    that have a NaN.
    """
    leaves = list(leaf_fields(schema))
    kept = [path for path, field in leaves if not types.is_floating(field.type)]
    return True if len(kept) == len(leaves) else kept


def leaf_fields(schema: Iterable[pa.Field]) -> Iterator[tuple[str, pa.Field]]:
    """Yield the fields of plain values of which columns are made in a file, by the paths that they have there."""
    for field in schema:
        yield from _leaves(field.name, field)


def _leaves(path: str, field: pa.Field) -> Iterator[tuple[str, pa.Field]]:
    kind = field.type
    if types.is_struct(kind):
        inner = [(child.name, child) for child in kind]
    elif types.is_map(kind):
        inner = [("key_value.key", kind.key_field), ("key_value.value", kind.item_field)]
    elif types.is_list(kind) or types.is_large_list(kind):
        inner = [("list.element", kind.value_field)]
    else:
        yield path, field
        return
    for name, child in inner:
        yield from _leaves(f"{path}.{name}", child)


def dictionary_columns(table: pa.Table) -> bool | list[str]:
    """Return the columns whose values repeat often enough for a dictionary; True, every column, when some are nested.

    Building a dictionary that is thrown away doubles the cost of writing. Repeated values are looked for among the
    first rows: counting all would cost a tenth of the writing, and a column that repeats only over more rows is written
    plain. What nested columns hold is not counted here.
    """
    if not table.num_rows or any(field.type.num_fields for field in table.schema):
        return True
    looked_at = table.slice(0, _LOOKED_AT)
    return [
        name
        for name in table.column_names
        if pc.count_distinct(looked_at.column(name)).as_py() * _REPEATS <= looked_at.num_rows
    ]

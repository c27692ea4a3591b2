"""Writing of Parquet: with snappy and row groups of 128k rows, without statistics of floats.

Outputs of files and of tables write by it; Delta and Iceberg take statistics from its footers.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import types

from airflow_samza.systems.dictionaries import is_encoded_as

ROW_GROUP_ROWS = 131_072
"""Rows of a written row group: small enough that a file of a few million rows can be split among several tasks."""

ROW_GROUP_BYTES = 128 * 2**20
"""A writer lets go of its rows at this size, so that wide rows do not fill the memory."""

_REPEATS = 8
"""Average number of times that a value has to come up for a dictionary to pay."""

_LOOKED_AT = 1 << 17
"""Rows in which repeated values are looked for."""

_FEW_ROWS = 1 << 13
_COPIED_BYTES = 32 * 2**20
"""The rows of a gathered batch, on average, below which it is copied together with others, and the most that is."""

_MARKED = 1 << 20
"""The range of integers of which the different ones are marked in a table; of a wider one they are hashed."""

_AT_A_TIME = 1 << 14
"""Values of fixed size that Arrow encodes at a time: by itself it takes 1,024, and looks at its pages after each."""


class ParquetOutput:
    """Writer that gathers rows to row groups; the first one decides which columns are worth a dictionary.

    Texts may come with dictionaries, which then are those of the file's columns.
    """

    def __init__(self, sink: IO[bytes] | pa.NativeFile, schema: pa.Schema, compression: str) -> None:
        self.sink = sink
        self.schema = schema
        self.compression = compression
        self.writer: pq.ParquetWriter | None = None
        self.held: list[pa.RecordBatch] = []
        self.rows = 0
        self.size = 0
        self._written = schema

    def write(self, batch: pa.RecordBatch) -> None:
        """Take rows; write a row group when there are enough."""
        start = 0
        batch = self._without_long_dictionaries(batch)
        while batch.num_rows - start:
            part = batch.slice(start, ROW_GROUP_ROWS - self.rows)
            self.held.append(part)
            self.rows += part.num_rows
            self.size += part.nbytes
            start += part.num_rows
            if self.rows == ROW_GROUP_ROWS or self.size >= ROW_GROUP_BYTES:
                self.flush()

    def _without_long_dictionaries(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch of which no dictionary is larger than the rows: what is held would be mostly dictionaries."""
        columns = [
            column.dictionary_decode()
            if types.is_dictionary(column.type) and len(column.dictionary) > batch.num_rows
            else column
            for column in batch.columns
        ]
        return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)

    def flush(self) -> None:
        """Write what was gathered as a row group."""
        if self.writer is None:
            encoded = self._encoded_columns()
            kinds = [pa.dictionary(pa.int32(), f.type) if f.name in encoded else f.type for f in self.schema]
            self._written = pa.schema([f.with_type(kind) for f, kind in zip(self.schema, kinds, strict=True)])
            table = self._table()
            plain = table.select([name for name in table.column_names if name not in encoded])
            dictionaries = dictionary_columns(plain)
            # Of long values a page would be too large.
            are_short = all(types.is_dictionary(kind) or types.is_primitive(kind) for kind in self._written.types)
            self.writer = pq.ParquetWriter(
                self.sink,
                self._written,
                compression=self.compression,
                use_dictionary=dictionaries if isinstance(dictionaries, bool) else [*dictionaries, *encoded],
                write_statistics=columns_with_statistics(self.schema),
                write_page_checksum=True,
                write_batch_size=_AT_A_TIME if are_short else None,
            )
            if encoded:  # readers get the columns as they are declared
                described = base64.b64encode(self.schema.serialize().to_pybytes())
                self.writer.add_key_value_metadata({"ARROW:schema": described.decode()})
        else:
            table = self._table()
        if self.rows:
            self.writer.write_table(table, row_group_size=self.rows)
        self.held, self.rows, self.size = [], 0, 0

    def _encoded_columns(self) -> list[str]:
        """Return the columns of texts that came with dictionaries of values that repeat often enough."""
        encoded = []
        for place, field in enumerate(self.schema):
            chunks = [batch.column(place) for batch in self.held]
            if chunks and types.is_string(field.type) and all(is_encoded_as(chunk, field.type) for chunk in chunks):
                values = _in_one_dictionary(chunks, field.type).chunk(0).dictionary
                if len(values) * _REPEATS <= self.rows:
                    encoded.append(field.name)
        return encoded

    def _table(self) -> pa.Table:
        """Return what was gathered, as it is written: texts as places in one dictionary, or plain.

        Many small batches become one: Arrow writes each by itself, which takes longer than to copy it.
        """
        columns = []
        for place, field in enumerate(self._written):
            chunks = [batch.column(place) for batch in self.held]
            if types.is_dictionary(field.type):
                columns.append(_in_one_dictionary(chunks, field.type.value_type))
            else:
                plain = [chunk.dictionary_decode() if types.is_dictionary(chunk.type) else chunk for chunk in chunks]
                columns.append(pa.chunked_array(plain, field.type))
        table = pa.Table.from_arrays(columns, schema=self._written)
        is_in_pieces = len(self.held) * _FEW_ROWS > self.rows and self.size <= _COPIED_BYTES
        return table.combine_chunks() if is_in_pieces else table

    def close(self) -> None:
        """Write the last row group and the footer."""
        self.flush()
        if self.writer is not None:
            self.writer.close()


def _in_one_dictionary(chunks: list[pa.Array], kind: pa.DataType) -> pa.ChunkedArray:
    """Return texts as places in one dictionary: with several, Arrow writes what comes behind the first one plain."""
    alike = pa.dictionary(pa.int32(), kind)
    encoded = [chunk if types.is_dictionary(chunk.type) else chunk.dictionary_encode() for chunk in chunks]
    return pa.chunked_array([chunk.cast(alike) for chunk in encoded], alike).unify_dictionaries()


def columns_with_statistics(schema: pa.Schema) -> list[str]:
    """Return the columns whose least and greatest values are written: all but those of floats.

    Arrow leaves NaN out of these values, and Spark, which sorts NaN above all numbers, would skip the row groups
    that have a NaN.
    """
    return [path for path, field in leaf_fields(schema) if not types.is_floating(field.type)]


def leaf_fields(fields: Iterable[pa.Field], within: str = "") -> Iterator[tuple[str, pa.Field]]:
    """Yield the fields of plain values of which columns are made in a file, by the paths that they have there."""
    for field in fields:
        path, kind = f"{within}{field.name}", field.type
        if types.is_struct(kind):
            yield from leaf_fields(kind, f"{path}.")
        elif types.is_map(kind):
            entry = [kind.key_field.with_name("key"), kind.item_field.with_name("value")]
            yield from leaf_fields(entry, f"{path}.key_value.")
        elif types.is_list(kind) or types.is_large_list(kind):
            yield from leaf_fields([kind.value_field.with_name("element")], f"{path}.list.")
        else:
            yield path, field


def dictionary_columns(table: pa.Table) -> bool | list[str]:
    """Return the columns whose values repeat often enough for a dictionary; True, every column, when some are nested.

    Building a dictionary that is thrown away doubles the cost of writing. Repeated values are looked for among the
    first rows: counting all would cost a tenth of the writing, and a column that repeats only over more rows is written
    plain. What nested columns hold is not counted here.
    """
    if not table.num_rows or any(field.type.num_fields for field in table.schema):
        return True
    looked_at = table.slice(0, _LOOKED_AT)
    most = looked_at.num_rows // _REPEATS
    return [name for name in table.column_names if _has_at_most(most, looked_at.column(name))]


def _has_at_most(most: int, column: pa.ChunkedArray) -> bool:
    """Return whether a column has at most so many values: of one with many more, few rows say so already."""
    if types.is_integer(column.type) and column.null_count < len(column):
        low, high = pc.min_max(column).as_py().values()
        if high - low < _MARKED:  # several times as fast as to hash them: 14 ms of a million rows in 180
            marks = np.zeros(high - low + 1, bool)
            for chunk in column.chunks:
                values = chunk.drop_null().to_numpy()
                marks[(values - values.dtype.type(low)).view(f"u{values.itemsize}")] = True  # of an int8, up to 255
            return int(np.count_nonzero(marks)) <= most
    return all(pc.count_distinct(part).as_py() <= most for part in (column.slice(0, 2 * most), column))

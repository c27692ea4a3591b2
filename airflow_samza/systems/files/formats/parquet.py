"""Parquet: read by row groups, with column projection and row-group statistics.

Streams of files and tables of lakes read by it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from fractions import Fraction
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import types

from airflow_samza.systems.files.formats.file_format import (
    BATCH_ROWS,
    FileFormat,
    InputFile,
    OpenFile,
    TimeRange,
    changed,
    pieces_of,
    rows_without_columns,
)
from airflow_samza.systems.files.formats.limits import (
    LARGEST_BATCH,
    LARGEST_PIECE,
    LARGEST_VALUE,
    in_batches,
    too_large,
)
from airflow_samza.systems.files.formats.options import FileOptions
from airflow_samza.systems.files.formats.parquet_checks import check_columns, check_counts, pages_of
from airflow_samza.systems.files.formats.parquet_output import ParquetOutput
from airflow_samza.systems.files.formats.row_groups import may_fulfil, plain_columns, stored_columns
from airflow_samza.systems.files.formats.times import unit_of
from airflow_samza.systems.files.packing import Unit

BATCH_BYTES = 8 * 2**20
"""About what the columns of a batch read take; a task holds several batches at a time on their way."""

_MOST_ROWS = 1 << 18
"""Rows of a batch of few bytes a row: what each batch costs is then little beside its rows."""

_PLACE_WIDTH = 4
"""Bytes of a place in a dictionary in memory."""

_LEAST_ROWS = 256

READ_AHEAD_BYTES = 32 * 2**20
"""The most of a file that is in memory before it is asked for."""

_PAGE_BUFFER = 2**20

_PLACE_BYTES = 1.5
"""Bytes of a place in a dictionary, with the dictionary itself, up to which it is kept."""

_SHORT_BYTES = 16
"""Bytes of a value in a file, on average, below which it is a place in a dictionary rather than a text."""


class ParquetFormat(FileFormat):
    """The format ``parquet``."""

    codecs = ("snappy", "zstd", "gzip", "lz4", "brotli", "none")

    def open(self, file: InputFile, schema: pa.Schema | None, options: FileOptions) -> ParquetInput:
        """Open the file and read its footer."""
        return ParquetInput(file)

    def units(self, number: int, file: InputFile, within: TimeRange | None, options: FileOptions) -> list[Unit]:
        """Return a unit for each row group that may have rows in the slice."""
        with closing(ParquetInput(file)) as opened:
            metadata = opened.parquet.metadata
            groups = opened.groups(0, metadata.num_row_groups, within)
            return [Unit(number, group, group + 1, compressed_size(metadata.row_group(group))) for group in groups]

    def writer(self, sink: IO[bytes] | pa.NativeFile, schema: pa.Schema, options: FileOptions) -> ParquetOutput:
        """Return a writer to an open sink."""
        return ParquetOutput(sink, schema, options.compression or "snappy")


def compressed_size(group: pq.RowGroupMetaData) -> int:
    """Return the bytes of a row group in the file."""
    return sum(int(group.column(place).total_compressed_size) for place in range(group.num_columns))


class ParquetInput(OpenFile):
    """An open Parquet file. ``schema`` are its columns as they were written."""

    def __init__(self, file: InputFile) -> None:
        self.file = file
        self.source = file.random_access()
        # INT96, which older Spark writes, has nanoseconds in its form only; microseconds cover its whole range.
        self.parquet = pq.ParquetFile(self.source, coerce_int96_timestamp_unit="us", page_checksum_verification=True)
        self.schema: pa.Schema = self.parquet.schema_arrow
        metadata = self.parquet.metadata
        check_columns(metadata, file.size)
        check_counts(metadata, self.parquet.schema)
        self._repeating = repeating_texts(metadata, self.schema) if file.dictionaries else []
        self._decoded: list[str] = []
        # Arrow reads a row group ahead as a whole, which saves requests to a remote storage; a large one comes page by
        # page instead.
        self._large = any(
            compressed_size(metadata.row_group(group)) > READ_AHEAD_BYTES for group in range(metadata.num_row_groups)
        )
        if self._repeating or self._large:
            self.parquet = self._reopened(self._repeating, self._large)

    def _reopened(self, dictionaries: list[str], large: bool) -> pq.ParquetFile:
        """Return another reader of the file, which gives some columns with their dictionaries."""
        return pq.ParquetFile(
            self.source,
            metadata=self.parquet.metadata,
            read_dictionary=dictionaries,
            coerce_int96_timestamp_unit="us",
            page_checksum_verification=True,
            pre_buffer=not large,
            buffer_size=_PAGE_BUFFER if large else 0,
        )

    def groups(self, start: int, end: int, within: TimeRange | None) -> list[int]:
        """Return the row groups of [start, end) that statistics do not rule out, by the slice and the file's bounds."""
        metadata = self.parquet.metadata
        bounds = self.file.bounds
        places = plain_columns(self.schema)
        left = [
            group for group in range(start, end) if not bounds or may_fulfil(metadata.row_group(group), bounds, places)
        ]
        place = places.get(within.column) if within is not None else None
        if within is None or place is None:
            return left
        unit = unit_of(self.schema.field(within.column).type)
        if unit is None:
            return left
        return [group for group in left if _may_lie(metadata.row_group(group).column(place), within, unit)]

    def batches(
        self, start: int, end: int | None, names: Sequence[str], within: TimeRange | None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of row groups [start, end)."""
        count = self.parquet.metadata.num_row_groups
        if end is not None and end > count:
            raise changed(self.file.shown, self.file.stream, f"it has {count} row groups, the plan reads up to {end}")
        groups = self.groups(start, count if end is None else end, within)
        if not names:  # only rows are asked for: the footer knows them
            for group in groups:
                yield from pieces_of(rows_without_columns(self.parquet.metadata.row_group(group).num_rows))
            return
        fitting = {group: self._fitting(group, names) for group in groups}  # before a page is unpacked
        self._bound(groups, names)
        for some in read_together(self.parquet.metadata, groups):
            together = [self.parquet.metadata.row_group(group) for group in some]
            bound = batch_rows(together, self.schema, names, self._repeating)
            rows = min([bound, *(fitting[group] for group in some)])
            left = sum(group.num_rows for group in together)
            for batch in self.parquet.iter_batches(rows, row_groups=some, columns=list(names), use_threads=False):
                left -= batch.num_rows
                for piece in in_batches(batch):
                    yield self._plain(piece)
            if left:
                raise ValueError(f"the footer has {abs(left)} rows {'more' if left > 0 else 'fewer'} than the pages")

    def _bound(self, groups: Sequence[int], names: Sequence[str]) -> None:
        """Have columns read with their dictionaries where these make a batch of any size of a few bytes.

        Where values take few bytes, Arrow reads a dictionary with its places as fast as the texts. Elsewhere the
        dictionary alone is looked at first: it seldom has long values.
        """
        metadata = self.parquet.metadata
        decoded = dict.fromkeys(self._decoded)
        plain = [each for each in plain_columns(self.schema).items() if each[0] in names]
        for group in groups:
            for name, place in plain:
                column = metadata.row_group(group).column(place)
                if name not in self._repeating and may_grow(column, self.schema.field(name).type):
                    short = column.total_uncompressed_size <= _SHORT_BYTES * column.num_values
                    if short or self._longest(group, name) * min(BATCH_ROWS, column.num_values) > LARGEST_PIECE:
                        decoded[name] = None
        if len(decoded) > len(self._decoded):
            self._decoded = list(decoded)
            self.parquet = self._reopened([*self._repeating, *self._decoded], self._large)

    def _longest(self, group: int, name: str) -> int:
        """Return the bytes of the longest value in the dictionary of a column."""
        if name in self._decoded:
            return 0
        first = next(self._reopened([name], True).iter_batches(1, row_groups=[group], columns=[name]), None)
        if first is None or not types.is_dictionary(first.column(0).type):
            return 0
        return pc.max(pc.binary_length(first.column(0).dictionary)).as_py() or 0

    def _plain(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch with columns decoded of which the dictionary was only read to bound what they take."""
        columns = [
            column.dictionary_decode() if name in self._decoded and types.is_dictionary(column.type) else column
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)

    def _fitting(self, number: int, names: Sequence[str]) -> int:
        """Return the rows of a row group that fit into a batch by its pages; a page that is too large is rejected."""
        group = self.parquet.metadata.row_group(number)
        rows = _MOST_ROWS
        for place, name in enumerate(stored_columns(self.schema)):
            column = group.column(place)
            if name not in names or column.physical_type != "BYTE_ARRAY":
                continue
            if column.total_uncompressed_size <= LARGEST_VALUE:
                continue  # no value, and no page, can be larger
            for page in pages_of(self.source, column):
                mean = page.size // max(page.values, 1)
                if page.size > LARGEST_PIECE or mean > LARGEST_VALUE:
                    raise too_large(
                        self.file.shown,
                        self.file.stream,
                        name,
                        f"a page of {page.size / 2**20:,.0f} MiB for {page.values:,} value{'s'[: page.values != 1]}",
                        f"row group {number}",
                    )
                rows = min(rows, max(1, LARGEST_BATCH // max(mean, 1)))
        return rows

    def close(self) -> None:
        """Give the file back."""
        self.parquet.close()
        self.source.close()


def read_together(metadata: pq.FileMetaData, groups: Sequence[int]) -> Iterator[list[int]]:
    """Return the row groups that are read at once.

    What Arrow has read ahead it lets go of only when it has read all that it was asked for.
    """
    some: list[int] = []
    size = 0
    for group in groups:
        more = compressed_size(metadata.row_group(group))
        if some and size + more > READ_AHEAD_BYTES:
            yield some
            some, size = [], 0
        some.append(group)
        size += more
    if some:
        yield some


def batch_rows(
    groups: Sequence[pq.RowGroupMetaData], schema: pa.Schema, names: Sequence[str], repeating: Sequence[str] = ()
) -> int:
    """Return the rows of a batch of these columns: fewer where rows are wide, so that batches need no more memory.

    Rows of which it is known that they take few bytes in memory come more at a time; of ``repeating`` columns places in
    dictionaries are read.
    """
    columns = set(names)
    places = [place for place, name in enumerate(stored_columns(schema)) if name in columns]
    size = sum(group.column(place).total_uncompressed_size for group in groups for place in places)
    rows = sum(group.num_rows for group in groups)
    fitting: int = BATCH_BYTES * rows // max(size, 1)
    least: int = min(_LEAST_ROWS, max(1, LARGEST_BATCH * rows // max(size, 1)))
    most = max(BATCH_ROWS, min(_MOST_ROWS, _rows_in_memory(schema, columns, repeating)))
    return max(min(most, fitting), least)


def _rows_in_memory(schema: pa.Schema, names: set[str], repeating: Sequence[str]) -> int:
    """Return how many rows of these columns take as much memory as a batch should; 0 where the footer does not say.

    Of plain texts, or nested values, a dictionary may hide how long they are.
    """
    places = plain_columns(schema)
    if not names <= set(places):
        return 0
    width = 0
    for name in names:
        kind = schema.field(name).type
        if name in repeating:
            width += _PLACE_WIDTH
        elif types.is_primitive(kind):
            width += -(-kind.bit_width // 8)
        else:
            return 0
    return BATCH_BYTES // max(width, 1)


def repeating_texts(metadata: pq.FileMetaData, schema: pa.Schema) -> list[str]:
    """Return the columns of texts of so few values that their dictionaries are worth keeping.

    Their places take little more than a byte.
    """
    if not metadata.num_row_groups:
        return []
    group = metadata.row_group(0)
    columns = {name: group.column(place) for name, place in plain_columns(schema).items() if "." not in name}
    return [
        name
        for name, column in columns.items()
        if types.is_string(schema.field(name).type)
        and column.has_dictionary_page
        and column.total_uncompressed_size <= _PLACE_BYTES * max(column.num_values, 1)
    ]


def may_grow(column: pq.ColumnChunkMetaData, kind: pa.DataType) -> bool:
    """Return whether a column has a dictionary by which a batch of it might be larger than any piece should be."""
    return bool(
        column.has_dictionary_page
        and column.physical_type == "BYTE_ARRAY"
        and (types.is_string(kind) or types.is_binary(kind))
        and column.total_uncompressed_size * min(BATCH_ROWS, column.num_values) > LARGEST_PIECE
    )


def _may_lie(column: pq.ColumnChunkMetaData, within: TimeRange, unit: int | Fraction) -> bool:
    """Return whether the statistics leave open that a row of the column's group lies in the slice."""
    statistics = column.statistics
    if statistics is None or not statistics.has_min_max or column.physical_type not in ("INT32", "INT64"):
        return True
    lowest, highest = (int(raw) * unit // 1 for raw in (statistics.min_raw, statistics.max_raw))
    return highest >= within.of_statistics and lowest < within.end

"""ORC: read by stripes, with column projection; written with zlib.

How many rows and how much text its stripes have is what the tail says of them. Arrow reads and unpacks that, and gives
it as the Protobuf message that it is; of these two it says nothing else (decision 134).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import IO, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import orc, types

from airflow_samza.errors import SchemaError
from airflow_samza.grouping import grouped
from airflow_samza.systems.files.formats.file_format import (
    READ_BY_SPARK,
    FileFormat,
    InputFile,
    OpenFile,
    TimeRange,
    changed,
    pieces_of,
)
from airflow_samza.systems.files.formats.limits import LARGEST_PIECE, LARGEST_VALUE, too_large
from airflow_samza.systems.files.formats.nested import offsets_of
from airflow_samza.systems.files.formats.options import FileOptions
from airflow_samza.systems.files.formats.times import NANOSECONDS
from airflow_samza.systems.files.formats.varints import read_varint, zigzag
from airflow_samza.systems.files.packing import Unit

LARGEST_STRIPE = 4 * 2**30
"""Bytes that the columns read of a stripe take at least, by eight for each value."""


class OrcFormat(FileFormat):
    """The format ``orc``."""

    codecs = ("zlib", "zstd", "snappy", "lz4", "uncompressed")
    times = NANOSECONDS

    def open(self, file: InputFile, schema: pa.Schema | None, options: FileOptions) -> OrcInput:
        """Open the file and read its tail."""
        return OrcInput(file)

    def units(self, number: int, file: InputFile, within: TimeRange | None, options: FileOptions) -> list[Unit]:
        """Return a unit for each stripe; its size is an equal share, as the tail's sizes are not known."""
        with closing(OrcInput(file)) as opened:
            count = opened.orc.nstripes
        return [Unit(number, stripe, stripe + 1, max(1, file.size // count)) for stripe in range(count)]

    def writer(self, sink: IO[bytes] | pa.NativeFile, schema: pa.Schema, options: FileOptions) -> OrcOutput:
        """Return a writer to an open sink."""
        return OrcOutput(sink, schema, options.compression or "zlib")


class OrcInput(OpenFile):
    """An open ORC file."""

    def __init__(self, file: InputFile) -> None:
        self.file = file
        self.source = file.random_access()
        self.orc = orc.ORCFile(self.source)
        self.schema: pa.Schema = self.orc.schema
        self.tail = OrcTail.read(self.orc)
        if sum(self.tail.stripes) != self.orc.nrows:
            raise ValueError(f"its tail has {self.orc.nrows} rows, and its stripes have {sum(self.tail.stripes)}")

    def batches(
        self, start: int, end: int | None, names: Sequence[str], within: TimeRange | None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of stripes [start, end)."""
        count = self.orc.nstripes
        if end is not None and end > count:
            raise changed(self.file.shown, self.file.stream, f"it has {count} stripes, the plan reads up to {end}")
        # Without any column a stripe would not show its rows: read the first one and drop it.
        columns = list(names) or self.schema.names[:1]
        self._reject_huge(len(columns))
        self._reject_text(columns)
        for stripe in range(start, count if end is None else end):
            batch = self.orc.read_stripe(stripe, columns=columns).select(list(names))
            if batch.num_rows != self.tail.stripes[stripe]:
                raise ValueError(f"stripe {stripe} has {batch.num_rows} rows instead of {self.tail.stripes[stripe]}")
            yield from pieces_of(batch)

    def _reject_huge(self, columns: int) -> None:
        """Reject stripes that no memory holds.

        They are read as a whole, and a few bytes can stand for any number of equal rows.
        """
        rows = self.orc.nrows // max(self.orc.nstripes, 1)
        if rows * columns * 8 > LARGEST_STRIPE:
            raise SchemaError(
                f"File {self.file.shown} of stream {self.file.stream!r} has stripes of {rows} rows,"
                f" which take more than {LARGEST_STRIPE // 2**30} GiB when they are read.",
                hint=f"Declare only columns that are needed, {READ_BY_SPARK}, or write the file with smaller stripes, "
                "or as Parquet, which is read in pieces.",
                file=self.file.shown,
                stream=self.file.stream,
            )

    def _reject_text(self, columns: Sequence[str]) -> None:
        """Reject columns whose texts, by the tail, are more than a stripe of them may hold."""
        rows, stripes = max(self.orc.nrows, 1), max(len(self.tail.stripes), 1)
        for name in columns:
            size = self.tail.text.get(self.schema.get_field_index(name), 0)
            if size // rows > LARGEST_VALUE or size // stripes > LARGEST_PIECE:
                raise too_large(
                    self.file.shown,
                    self.file.stream,
                    name,
                    f"{size / 2**20:,.0f} MiB of text in {rows:,} row{'s'[: rows != 1]}",
                    f"{stripes} stripe{'s'[: stripes != 1]}",
                )

    def close(self) -> None:
        """Give the file back."""
        self.source.close()


class OrcOutput:
    """Writer of batches to stripes."""

    def __init__(self, sink: IO[bytes] | pa.NativeFile, schema: pa.Schema, compression: str) -> None:
        self.schema = schema
        self.writer = orc.ORCWriter(sink, compression=compression)
        self.writer.write(schema.empty_table())

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows."""
        columns = [_null_inside(_from_start(column)) for column in batch.columns]
        self.writer.write(pa.Table.from_arrays(columns, schema=self.schema))

    def close(self) -> None:
        """Write the tail."""
        self.writer.close()


def _from_start(column: pa.Array) -> pa.Array:
    """Return the column, copied when it is nested.

    Of one that is part of a longer one Arrow's writer takes the longer one's nulls for the part's.
    """
    return pc.take(column, np.arange(len(column))) if column.type.num_fields else column


def _null_inside(column: pa.Array) -> pa.Array:
    """Return the column with null in all fields of a struct that is null.

    Of a struct within another one Arrow's writer writes the values of such fields, too, in place of those that follow.
    """
    kind = column.type
    if types.is_struct(kind):
        inner = [_null_inside(field) for field in column.flatten()]
        return pa.StructArray.from_arrays(inner, fields=list(kind), mask=pc.is_null(column))
    if types.is_map(kind) and (kind.key_type.num_fields or kind.item_type.num_fields):
        keys, items = _null_inside(column.keys), _null_inside(column.items)
        return pa.MapArray.from_arrays(offsets_of(column), keys, items, type=kind)
    if types.is_list(kind) and kind.value_type.num_fields:
        return pa.ListArray.from_arrays(offsets_of(column), _null_inside(column.values), type=kind)
    return column


_FOOTER = 2
_STRIPES, _TYPES, _STATISTICS = 3, 4, 7
"""Fields of the footer."""

_TEXT_STATISTICS = {4: 3, 8: 1}
"""Fields of a column's statistics about texts, and about other bytes, and in each the field with their sum."""


class OrcTail(NamedTuple):
    """Contents of the tail: the rows of each stripe, and the bytes of text of each top column by place.

    ``text`` lacks columns that are no text, and all where the writer left no statistics.
    """

    stripes: tuple[int, ...]
    text: dict[int, int]

    @classmethod
    def read(cls, file: orc.ORCFile) -> OrcTail:
        """Return the tail of an open file. Damage is a ``ValueError``."""
        parts = grouped(_fields(_bytes(dict(_fields(file.reader.serialized_file_tail()))[_FOOTER])))
        stripes = tuple(_number(_bytes(stripe), 5) for stripe in parts.get(_STRIPES, ()))
        types, statistics = map(_bytes, parts.get(_TYPES, ())), map(_bytes, parts.get(_STATISTICS, ()))
        return cls(stripes, _text([*types], [*statistics]))


def _text(types: list[bytes], statistics: list[bytes]) -> dict[int, int]:
    """Return the bytes of text below each top column, by place."""
    if not types or len(types) != len(statistics):
        return {}
    tops = [number for field, value in _fields(types[0]) if field == 2 for number in _packed(_bytes(value))]
    text_bytes = {}
    for place, (first, last) in enumerate(zip(tops, [*tops[1:], len(types)], strict=True)):
        sums = [
            zigzag(_number(_bytes(value), _TEXT_STATISTICS[field]))
            for one in statistics[first:last]
            for field, value in _fields(one)
            if field in _TEXT_STATISTICS
        ]
        if sums:
            text_bytes[place] = sum(sums)
    return text_bytes


def _packed(data: bytes) -> Iterator[int]:
    place = 0
    while place < len(data):
        number, place = read_varint(data, place, "its tail has")
        yield number


def _number(message: bytes, field: int) -> int:
    """Return a field of a message that is a number, 0 where it has none."""
    value = dict(_fields(message)).get(field, 0)
    if isinstance(value, bytes):
        raise ValueError("its tail has bytes where a number should be")
    return value


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("its tail has a number where bytes should be")
    return value


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the fields of a Protobuf message: numbers, or bytes; those of eight and four bytes are passed over."""
    place = 0
    while place < len(data):
        tag, place = read_varint(data, place, "its tail has")
        kind = tag & 7
        if kind == 0:
            number, place = read_varint(data, place, "its tail has")
            yield tag >> 3, number
        elif kind == 2:
            size, place = read_varint(data, place, "its tail has")
            yield tag >> 3, data[place : place + size]
            place += size
        elif kind in (1, 5):
            place += 8 if kind == 1 else 4
        else:
            raise ValueError("its tail has a field of an unknown kind")

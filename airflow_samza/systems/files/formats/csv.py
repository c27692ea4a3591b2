"""CSV: parsed by the declared schema; columns are found by the names in the header, without one by their order.

A file is read from its start to its end, because a quoted value may hold line ends; with ``multiline=false`` it is
split at line ends. An empty value without quotes is null, with quotes it is empty text. Written with a header, text
quoted, times as ISO 8601.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import IO, NamedTuple

import pyarrow as pa
import pyarrow.csv as pacsv
from pyarrow import types

from airflow_samza.errors import SamzaError, SchemaError
from airflow_samza.quoting import plainly, quoted
from airflow_samza.systems.files.formats.casts import shown
from airflow_samza.systems.files.formats.csv_records import Dialect, Head, count_lines, last_line, lines_of, read_head
from airflow_samza.systems.files.formats.csv_values import CsvOutput, parse_column, type_of
from airflow_samza.systems.files.formats.file_format import (
    LEAVE_RECORDS_OUT,
    FileFormat,
    InputFile,
    OpenFile,
    TimeRange,
    Unreadable,
    as_text,
    bad_record,
    beginning_of,
    pieces_of,
)
from airflow_samza.systems.files.formats.lines import BLOCK_BYTES, SHOWN_BYTES, Block, line_blocks, place_of
from airflow_samza.systems.files.formats.options import FileOptions, compression_of
from airflow_samza.systems.files.formats.times import FOUR_DIGITS
from airflow_samza.systems.files.packing import Unit

LONGEST_RECORD = 16 * 2**20
"""Bytes of a record that is read."""

_TOO_LONG = f"a record of more than {LONGEST_RECORD // 2**20} MiB, or a quote that is never closed"

_PLACE = re.compile(r"^(CSV parse error: |In CSV column #\d+: )?(Row #\d+: )?")
"""Arrow's statement of the place of a record: in the bytes that it was given."""


class CsvFormat(FileFormat):
    """The format ``csv``."""

    times = FOUR_DIGITS

    def open(self, file: InputFile, schema: pa.Schema | None, options: FileOptions) -> CsvInput:
        """Open the file and read its header; without a ``schema`` the first block determines the types, too."""
        return CsvInput(file, schema, options)

    def units(self, number: int, file: InputFile, within: TimeRange | None, options: FileOptions) -> list[Unit]:
        """Return the whole file, or its bytes cut anywhere when no value holds a line end."""
        if options.multiline or compression_of(file.path):
            return super().units(number, file, within, options)
        return [Unit(number, 0, file.size, file.size, divisible=True)]

    def check(self, schema: pa.Schema, stream: str, options: FileOptions) -> None:
        """Reject nested and binary columns."""
        for field in schema:
            if field.type.num_fields or types.is_binary(field.type):
                raise SchemaError(
                    f"Column {field.name!r} of stream {stream!r} is {field.type}, which CSV cannot hold.",
                    hint="Write Parquet or JSON lines, or turn the column into text first.",
                    stream=stream,
                    column=field.name,
                )

    def writer(self, sink: IO[bytes] | pa.NativeFile, schema: pa.Schema, options: FileOptions) -> CsvOutput:
        """Return a writer to an open sink."""
        return CsvOutput(sink, schema, options)


class _Bad(NamedTuple):
    """A record that cannot be read, its offset, why, and the column, if the value of one is to blame."""

    record: bytes
    offset: int
    reason: str
    column: str | None = None


class CsvInput(OpenFile):
    """An open CSV file."""

    def __init__(self, file: InputFile, declared: pa.Schema | None, options: FileOptions) -> None:
        self.file = file
        self.options = options
        self.dialect = Dialect(options)
        self.head: Head = read_head(file, self.dialect, header=options.header, named=options.header or declared is None)
        names = self.head.names
        if declared is not None and (not options.header or not names):
            names = list(declared.names)
        self.header = names if options.header or declared is not None else [f"_c{place}" for place in range(len(names))]
        if declared is not None:
            CsvFormat().check(declared, file.stream, options)
            fields = {field.name: field for field in declared}
            # What is not declared is never read; its type plays no part.
            self.schema = pa.schema([fields.get(name, pa.field(name, pa.string())) for name in self.header])
        else:
            self.schema = self._inferred()

    def batches(
        self, start: int, end: int | None, names: Sequence[str], within: TimeRange | None
    ) -> Iterator[pa.RecordBatch | Unreadable]:
        """Yield the rows of the file, or those whose lines start in the bytes [start, end)."""
        if self.file.size == 0 or not self.header:
            return
        target = pa.schema([self.schema.field(name) for name in list(names) or self.header[:1]])
        for piece in self._pieces(self._blocks(start, end), target):
            if isinstance(piece, pa.RecordBatch):
                yield from pieces_of(piece.select(list(names)))
            elif self.file.tolerant:
                column = f", in column {piece.column!r}" if piece.column is not None else ""
                yield Unreadable(as_text(piece.record), piece.reason + column)
            else:
                raise self._rejection(piece)

    def _blocks(self, start: int, end: int | None) -> Iterator[Block]:
        """Yield the lines that start in [start, end), without the header."""
        if end is not None and end <= self.head.body:
            return
        first = start if start > self.head.body else 0
        blocks = line_blocks(
            self.file, first, end, block_bytes=BLOCK_BYTES, ending=self.head.line_end, longest=LONGEST_RECORD
        )
        for block in blocks:
            before = max(0, self.head.body - block.offset)
            if before < len(block.data):
                yield Block(block.offset + before, block.data[before:], block.truncated) if before else block

    def _pieces(self, blocks: Iterator[Block], target: pa.Schema) -> Iterator[pa.RecordBatch | _Bad]:
        """Yield rows, and between them the records that are bad."""
        held = lost = b""
        held_at = lost_at = 0
        for block in blocks:
            if not held:
                held_at = block.offset
            if block.truncated:
                yield _Bad(lost or held + block.data, lost_at if lost else held_at, _TOO_LONG)
                held = lost = b""
                continue
            if not held:
                batch = self._parsed(block.data, target)
                if batch is not None and self._is_one_per_line(batch.num_rows, block.data):
                    yield batch
                    continue
                if not self.options.multiline:
                    yield from self._sorted_out(lines_of(block), target)
                    continue
            # A quote is open at the end of a line, or something is bad: see where records end.
            data = held + block.data
            record_end = self.dialect.closed(data)
            begin = 0
            if lost and record_end:  # the end of a record whose beginning was too long to be kept
                yield _Bad(lost, lost_at, _TOO_LONG)
                begin, lost = len(next(self.dialect.records(Block(0, data))).data), b""
            yield from self._whole(Block(held_at + begin, data[begin:record_end]), target)
            held, held_at = data[record_end:], held_at + record_end
            if len(held) > LONGEST_RECORD:
                end = held_at + len(held)
                lost, lost_at = (lost, lost_at) if lost else (held[:SHOWN_BYTES], held_at)
                held = self.dialect.quote.encode()
                held_at = end - len(held)
        if lost:
            yield _Bad(lost, lost_at, _TOO_LONG)
        elif held:
            yield from self._sorted_out([Block(held_at, held)], target)

    def _is_one_per_line(self, rows: int, data: bytes) -> bool:
        """Return whether that many rows of data mean that no line end is part of a value.

        Then the data end where a record ends.
        """
        if rows != count_lines(data, blank=True) and (len(self.header) == 1 or rows != count_lines(data, blank=False)):
            return False
        return self.dialect.has_ended(last_line(data))

    def _whole(self, block: Block, target: pa.Schema) -> Iterator[pa.RecordBatch | _Bad]:
        """Return the records that are known to be whole."""
        batch = self._parsed(block.data, target)
        if batch is None:
            yield from self._sorted_out(list(self.dialect.records(block)), target)
        else:
            yield batch

    def _sorted_out(self, records: Sequence[Block], target: pa.Schema) -> Iterator[pa.RecordBatch | _Bad]:
        """Yield rows in pieces, and between them the records that are bad, which are found by halving."""
        if len(self.header) != 1:
            records = [record for record in records if record.data.strip(b"\r\n")]
        if not records:
            return
        batch = self._parsed(b"".join(record.data for record in records), target)
        if batch is not None and batch.num_rows == len(records) and self.dialect.is_closed(records[-1].data):
            yield batch
        elif len(records) == 1:
            yield self._blamed(records[0], target)
        else:
            middle = len(records) // 2
            yield from self._sorted_out(records[:middle], target)
            yield from self._sorted_out(records[middle:], target)

    def _parsed(self, data: bytes, target: pa.Schema) -> pa.RecordBatch | None:
        """Return the rows of whole records, None when one of them is bad."""
        nullable = pa.schema([field.with_nullable(True) for field in target])
        if len(self.header) != 1 and not data.strip(b"\r\n"):
            return pa.RecordBatch.from_pylist([], schema=nullable)
        try:
            texts = self._texts(data, target)
            columns = [parse_column(texts.column(place), field.type) for place, field in enumerate(nullable)]
        except pa.ArrowInvalid:
            return None
        return pa.RecordBatch.from_arrays(columns, schema=nullable)

    def _texts(self, data: bytes, target: pa.Schema) -> pa.RecordBatch:
        """Return the values of whole records as text.

        Columns are named by their places: names of a header may come twice.
        """
        places = [str(self.header.index(name)) for name in target.names]
        convert = pacsv.ConvertOptions(
            column_types=dict.fromkeys(places, pa.string()),
            include_columns=places,
            null_values=[self.options.null_value],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        named = [str(place) for place in range(len(self.header))]
        read = pacsv.ReadOptions(use_threads=False, column_names=named, block_size=len(data) + 1)
        parse = pacsv.ParseOptions(
            delimiter=self.dialect.delimiter,
            quote_char=self.dialect.quote or False,
            escape_char=self.dialect.escape or False,
            newlines_in_values=True,
            # In a file of one column an empty line is a row that is null.
            ignore_empty_lines=len(self.header) != 1,
        )
        table = pacsv.read_csv(pa.BufferReader(data), read, parse, convert).combine_chunks()
        return table.to_batches()[0] if table.num_rows else pa.RecordBatch.from_pylist([], schema=table.schema)

    def _blamed(self, block: Block, target: pa.Schema) -> _Bad:
        """Return the error of a record that was read by itself."""
        at, record = block.offset, block.data
        if not self.dialect.is_closed(record):
            if self.options.multiline:
                return _Bad(record, at, "a quote that is never closed")
            return _Bad(record, at, "a quote that is not closed on its line (multiline=false)")
        try:
            texts = self._texts(record, target)
        except pa.ArrowInvalid as error:
            return _Bad(record, at, plainly(_PLACE.sub("", " ".join(str(error).split()))))
        for place, field in enumerate(target):
            try:
                parse_column(texts.column(place), field.type)
            except pa.ArrowInvalid:
                value = texts.column(place)[0].as_py()
                brief = value if len(value) <= 60 else value[:57] + "…"
                return _Bad(record, at, f"{quoted(brief)}, which is no {shown(field.type)}", field.name)
        return _Bad(record, at, f"{texts.num_rows} records where one should be")

    def _rejection(self, bad: _Bad) -> SamzaError:
        place = place_of(self.file, bad.offset, self.head.line_end)
        if bad.column is None:
            beginning = quoted(bad.record[:60].rstrip().decode(errors="replace"))
            reason = f"{bad.reason} {place}, which begins with {beginning}"
            return bad_record(self.file, "csv", reason, place.line, bad.record)
        return SchemaError(
            f"File {self.file.shown} of stream {self.file.stream!r} has a value that does not fit column "
            f"{bad.column!r} {place}: {bad.reason}.",
            hint="Declare the column with a type that holds the value, set null_value= if the text means null, "
            f"{LEAVE_RECORDS_OUT}, or correct the file.",
            file=self.file.shown,
            stream=self.file.stream,
            column=bad.column,
            line=place.line,
            record=beginning_of(bad.record),
        )

    def _inferred(self) -> pa.Schema:
        """Return the columns with the types that the values of the first block have: text where none, or several."""
        self.schema = texts = pa.schema([pa.field(name, pa.string()) for name in self.header])
        block = next(self._blocks(0, None), None) if self.header else None
        if block is None or block.truncated:
            return texts
        data = block.data[: self.dialect.closed(block.data)] or block.data
        batches = []
        for piece in self._whole(Block(block.offset, data), texts):
            if isinstance(piece, pa.RecordBatch):
                batches.append(piece)
            elif not self.file.tolerant:
                raise self._rejection(piece)
        rows = pa.Table.from_batches(batches, pa.schema([field.with_nullable(True) for field in texts]))
        return pa.schema(
            [pa.field(name, type_of(rows.column(place).combine_chunks())) for place, name in enumerate(self.header)]
        )

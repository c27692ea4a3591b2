"""CSV: parsed by the declared schema, columns found by the header's names (without a header: by their order).

A file is read whole, because a quoted value may hold line ends; with ``multiline=false`` it is split at line ends. An empty
value without quotes is null, with quotes it is empty text. Written with a header, text quoted, times as ISO 8601.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any

import pyarrow as pa
import pyarrow.csv as pacsv
from pyarrow import types

from airflow_samza.errors import SchemaError
from airflow_samza.systems.files.formats import BATCH_ROWS, InputFile, TimeRange
from airflow_samza.systems.files.lines import BLOCK_BYTES, line_blocks
from airflow_samza.systems.files.options import FileOptions, compression_of
from airflow_samza.systems.files.packing import Unit
from airflow_samza.systems.files.text_values import parse_text
from airflow_samza.systems.files.tolerance import Unreadable, as_text

_MULTILINE_BLOCK_BYTES = 16 * 2**20
"""One record has to fit into a block where quoted values may hold line ends."""

_HEADER_BLOCK_BYTES = 64 * 2**10

_BAD_VALUE = re.compile(r"In CSV column #(\d+): (.*)", re.DOTALL)


class CsvFormat:
    """The format ``csv``."""

    extension = "csv"

    def open(self, file: InputFile, wanted: pa.Schema | None, options: FileOptions) -> CsvInput:
        """Opens the file and reads its header; without ``wanted`` the first block tells the types, too."""
        return CsvInput(file, wanted, options)

    def units(self, number: int, file: InputFile, within: TimeRange | None, options: FileOptions) -> list[Unit]:
        """The whole file, or its bytes cut anywhere when no value holds a line end."""
        if options.multiline or compression_of(file.path):
            return [Unit(number, 0, None, file.size)]
        return [Unit(number, 0, file.size, file.size, divisible=True)]

    def check(self, schema: pa.Schema, stream: str) -> None:
        """Refuses nested and binary columns."""
        for field in schema:
            if field.type.num_fields or types.is_binary(field.type):
                raise SchemaError(
                    f"Column {field.name!r} of stream {stream!r} is {field.type}, which CSV cannot hold.",
                    hint="Write Parquet or JSON lines, or turn the column into text first.",
                    stream=stream,
                    column=field.name,
                )

    def writer(self, sink: IO[bytes] | pa.NativeFile, schema: pa.Schema, options: FileOptions) -> CsvOutput:
        """A writer to an open sink."""
        return CsvOutput(sink, schema, options)


class CsvInput:
    """An open CSV file."""

    def __init__(self, file: InputFile, wanted: pa.Schema | None, options: FileOptions) -> None:
        self.file = file
        self.options = options
        self.header = self._read_header(wanted)
        if wanted is not None:
            CsvFormat().check(wanted, file.stream)
            known = {field.name: field for field in wanted}
            # What is not declared is never read; its type plays no part.
            self._schema = pa.schema([known.get(name, pa.field(name, pa.string())) for name in self.header])
        else:
            self._schema = self._inferred()

    @property
    def schema(self) -> pa.Schema:
        """The columns as they are parsed."""
        return self._schema

    def _read_header(self, wanted: pa.Schema | None) -> list[str]:
        if wanted is not None and not self.options.header:
            return list(wanted.names)
        first = next(iter(line_blocks(self.file, block_bytes=_HEADER_BLOCK_BYTES)), None)
        text = first.data.decode("utf-8-sig", errors="replace") if first is not None else ""
        if not text.strip():
            return list(wanted.names) if wanted is not None else []
        quote, escape = self.options.quote, self.options.escape
        reader = csv.reader(
            io.StringIO(text),
            delimiter=self.options.delimiter,
            quotechar=quote or None,
            quoting=csv.QUOTE_MINIMAL if quote else csv.QUOTE_NONE,
            escapechar=escape or None,
        )
        record = next(record for record in reader if record)
        return record if self.options.header else [f"_c{place}" for place in range(len(record))]

    def _inferred(self) -> pa.Schema:
        first = next(iter(line_blocks(self.file)), None)
        if first is None or not self.header:
            return pa.schema([])
        read = self._read(column_names=self.header, skip_rows=1 if self.options.header else 0, block_size=len(first.data) + 1)
        found = pacsv.read_csv(pa.BufferReader(first.data), read, self._parsing(), _convert({}, self.options)).schema
        return pa.schema([field.with_type(pa.string()) if types.is_null(field.type) else field for field in found])

    def batches(self, start: int, end: int | None, names: Sequence[str], within: TimeRange | None) -> Iterator[pa.RecordBatch | Unreadable]:
        """The rows of the file, or those whose lines start in the bytes [start, end)."""
        if self.file.size == 0 or not self.header:
            return
        reading = list(names) or self.header[:1]
        target = pa.schema([self._schema.field(name) for name in reading])
        convert = _convert({field.name: pa.string() if types.is_timestamp(field.type) else field.type for field in target}, self.options)
        convert.include_columns = reading
        if self.file.tolerant:
            for records in self._whole_records(start, end):
                for piece in self._tolerantly(records, target, convert):
                    yield piece if isinstance(piece, Unreadable) else piece.select(list(names))
            return
        for raw in self._raw_batches(start, end, convert):
            try:
                batch = _typed(raw, target)
            except pa.ArrowInvalid as error:
                raise self._unfit(str(error), next((f.name for f in target if types.is_timestamp(f.type)), "")) from error
            for row in range(0, batch.num_rows, BATCH_ROWS):
                yield batch.slice(row, BATCH_ROWS).select(list(names))

    def _whole_records(self, start: int, end: int | None) -> Iterator[bytes]:
        """The records of a part of the file, some at a time; the header is left out."""
        begins = start == 0
        for records in self._closed(block.data for block in line_blocks(self.file, start, end, block_bytes=BLOCK_BYTES)):
            if begins:
                records = records.removeprefix(b"\xef\xbb\xbf")
                records = records[len(self._records(records)[0]) :] if self.options.header and records else records
                begins = False
            yield records

    def _closed(self, parts: Iterable[bytes]) -> Iterator[bytes]:
        """Parts of whole lines put together until no quoted value is open, in which a line end would be text."""
        held: list[bytes] = []
        quotes = 0
        for part in parts:
            held.append(part)
            quotes += self._quotes(part)
            if quotes % 2 == 0:
                yield b"".join(held)
                held = []
        if held:
            yield b"".join(held)

    def _quotes(self, data: bytes) -> int:
        quote = self.options.quote.encode()
        if not self.options.multiline or not quote:
            return 0
        if self.options.escape:
            data = re.sub(re.escape(self.options.escape.encode()) + b".", b"", data, flags=re.DOTALL)
        return data.count(quote)

    def _records(self, data: bytes) -> list[bytes]:
        """Records with their line ends."""
        return list(self._closed(re.findall(rb"[^\n]*\n|[^\n]+", data)))

    def _tolerantly(
        self, data: bytes | list[bytes], target: pa.Schema, convert: pacsv.ConvertOptions
    ) -> Iterator[pa.RecordBatch | Unreadable]:
        """Rows in pieces, and between them the records that are bad; those are found by halving."""
        joined = data if isinstance(data, bytes) else b"".join(data)
        if not joined.strip() and len(self.header) != 1:
            return
        try:
            read = self._read(column_names=self.header, block_size=len(joined) + 1)
            batches = pacsv.read_csv(pa.BufferReader(joined), read, self._parsing(), convert).to_batches()
            made = [_typed(batch, target) for batch in batches]
        except pa.ArrowInvalid as error:
            records = self._records(data) if isinstance(data, bytes) else data
            if len(records) == 1:
                yield Unreadable(as_text(records[0]), " ".join(str(error).split())[:300])
                return
            middle = len(records) // 2
            yield from self._tolerantly(records[:middle], target, convert)
            yield from self._tolerantly(records[middle:], target, convert)
            return
        for batch in made:
            for row in range(0, batch.num_rows, BATCH_ROWS):
                yield batch.slice(row, BATCH_ROWS)

    def _raw_batches(self, start: int, end: int | None, convert: pacsv.ConvertOptions) -> Iterator[pa.RecordBatch]:
        skip = 1 if self.options.header else 0
        try:
            if start == 0 and end is None:
                with self.file.sequential() as source:
                    read = self._read(column_names=self.header, skip_rows=skip, block_size=_MULTILINE_BLOCK_BYTES)
                    yield from pacsv.open_csv(source, read, self._parsing(), convert)
                return
            for block in line_blocks(self.file, start, end, block_bytes=BLOCK_BYTES):
                # Here no value holds a line end, so the header is the first line.
                data = block.data.partition(b"\n")[2] if skip and block.offset == 0 else block.data
                if data.strip() or (data and len(self.header) == 1):
                    read = self._read(column_names=self.header, block_size=len(data) + 1)
                    yield from pacsv.read_csv(pa.BufferReader(data), read, self._parsing(), convert).to_batches()
        except pa.ArrowInvalid as error:
            if "Empty CSV" in str(error) or "Could not skip initial 1 rows" in str(error):
                return  # nothing but a header, or blank lines
            found = _BAD_VALUE.match(str(error))
            if found is None:
                raise
            name = self.header[int(found[1])] if int(found[1]) < len(self.header) else f"#{found[1]}"
            raise self._unfit(found[2], name) from error

    def _unfit(self, reason: str, column: str) -> SchemaError:
        text = " ".join(reason.split())[:300].rstrip(".")
        return SchemaError(
            f"File {self.file.shown} of stream {self.file.stream!r} has a value that does not fit column {column!r}: {text}.",
            hint="Declare the column with a type that holds the value, set null_value= if the text means null, or repair the file.",
            file=self.file.shown,
            stream=self.file.stream,
            column=column,
        )

    def _read(self, **more: Any) -> pacsv.ReadOptions:
        return pacsv.ReadOptions(use_threads=False, **more)

    def _parsing(self) -> pacsv.ParseOptions:
        return pacsv.ParseOptions(
            delimiter=self.options.delimiter,
            quote_char=self.options.quote or False,
            escape_char=self.options.escape or False,
            newlines_in_values=self.options.multiline,
            # In a file of one column an empty line is a row that is null.
            ignore_empty_lines=len(getattr(self, "header", ())) != 1,
        )

    def close(self) -> None:
        """Nothing is held between blocks."""


def _typed(raw: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    columns = [parse_text(c, field.type) if types.is_timestamp(field.type) else c for c, field in zip(raw, target, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema([field.with_nullable(True) for field in target]))


def _convert(kinds: dict[str, pa.DataType], options: FileOptions | None = None) -> pacsv.ConvertOptions:
    return pacsv.ConvertOptions(
        column_types=kinds,
        null_values=[options.null_value] if options is not None else [""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )


class CsvOutput:
    """Writes a header, then a line for each row."""

    def __init__(self, sink: IO[bytes] | pa.NativeFile, schema: pa.Schema, options: FileOptions) -> None:
        write = pacsv.WriteOptions(include_header=options.header, delimiter=options.delimiter)
        self.writer = pacsv.CSVWriter(sink, schema, write_options=write)

    def write(self, batch: pa.RecordBatch) -> None:
        """Appends lines."""
        self.writer.write_batch(batch)

    def close(self) -> None:
        """Writes what is held back."""
        self.writer.close()

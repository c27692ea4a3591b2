"""JSON lines: one object per line, read in blocks of whole lines by Arrow's parser, else by Python.

Forms as Spark's: timestamps and dates as ISO 8601 text, bytes as base64, decimals as numbers, maps as objects. A
missing key is null, a key that is not declared is left out. Python's parser is exact on what Arrow's rejects (nested
times, maps, numbers as ``1.0`` for an integer, NaN) and says which line and column is wrong. Where no schema is
declared, the columns are those of the first block of lines. Streams of files read by it, and the serde ``json`` shares
its parsers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pajson
from pyarrow import types

from airflow_samza.errors import SamzaError, SchemaError
from airflow_samza.systems.files.formats.file_format import (
    LEAVE_RECORDS_OUT,
    FileFormat,
    FileWriter,
    InputFile,
    OpenFile,
    Sample,
    TimeRange,
    Unreadable,
    as_text,
    bad_record,
    beginning_of,
    pieces_of,
    rows_without_columns,
)
from airflow_samza.systems.files.formats.json_blocks import count_objects
from airflow_samza.systems.files.formats.json_values import (
    BadValue,
    LineReader,
    from_lines,
    parsed_line,
    readable_lines,
    to_lines,
)
from airflow_samza.systems.files.formats.lines import (
    BOM,
    LONGEST_LINE,
    Block,
    line_blocks,
    line_end,
    place_of,
    reject_binary,
)
from airflow_samza.systems.files.formats.nested import leaves_of
from airflow_samza.systems.files.formats.options import FileOptions, compression_of
from airflow_samza.systems.files.formats.text_values import is_text_leaf, parse_text
from airflow_samza.systems.files.formats.times import FOUR_DIGITS
from airflow_samza.systems.files.packing import Unit

_LOOKED_AT = 64 * 2**10


class JsonLinesFormat(FileFormat):
    """The format ``json``."""

    times = FOUR_DIGITS

    def open(self, file: InputFile, schema: pa.Schema | None, options: FileOptions) -> JsonLinesInput:
        """Open the file; without a ``schema`` its first block determines the columns."""
        return JsonLinesInput(file, schema)

    def units(self, number: int, file: InputFile, within: TimeRange | None, options: FileOptions) -> list[Unit]:
        """Return the bytes of the file, cut anywhere; a compressed file is one unit."""
        if compression_of(file.path):
            return super().units(number, file, within, options)
        return [Unit(number, 0, file.size, file.size, divisible=True)]

    def check(self, schema: pa.Schema, stream: str, options: FileOptions) -> None:
        """Reject maps whose keys are not text: a JSON key is."""
        for field in schema:
            if _has_odd_map(field.type):
                raise SchemaError(
                    f"Column {field.name!r} of stream {stream!r} is a map whose keys are not strings, which JSON "
                    "cannot hold.",
                    hint="Cast the keys to string, or write Parquet.",
                    stream=stream,
                    column=field.name,
                )

    def writer(self, sink: IO[bytes] | pa.NativeFile, schema: pa.Schema, options: FileOptions) -> JsonLinesOutput:
        """Return a writer to an open sink."""
        return JsonLinesOutput(sink)


def _has_odd_map(kind: pa.DataType) -> bool:
    if types.is_map(kind) and not types.is_string(kind.key_type):
        return True
    return any(_has_odd_map(kind.field(place).type) for place in range(kind.num_fields))


class JsonLinesInput(OpenFile):
    """An open file of JSON lines."""

    def __init__(self, file: InputFile, declared: pa.Schema | None) -> None:
        self.file = file
        with file.sequential() as source:
            self._beginning: bytes = source.read(_LOOKED_AT)
        reject_binary(file, "JSON lines", self._beginning)
        self._line_end = line_end(self._beginning)
        self.schema = declared if declared is not None else self._inferred()

    def sample(self) -> Sample:
        """Return the fields of the lines at the beginning of the file; lines that are no objects have none."""
        fields: dict[str, None] = {}
        lines = 0
        for line in self._beginning.removeprefix(BOM).split(self._line_end):
            if line.strip():
                with suppress(BadValue):  # the last one may be cut off
                    fields.update(dict.fromkeys(parsed_line(line, 0)))
                    lines += 1
        return Sample(tuple(fields), lines)

    def batches(
        self, start: int, end: int | None, names: Sequence[str], within: TimeRange | None
    ) -> Iterator[pa.RecordBatch | Unreadable]:
        """Yield the lines that start in the bytes [start, end)."""
        target = pa.schema([self.schema.field(name) for name in names])
        read = arrow_first if is_for_arrow(target) else from_lines
        for block in self._blocks(start, end):
            if block.truncated:
                reason = f"a line of more than {LONGEST_LINE // 2**20} MiB"
                if not self.file.tolerant:
                    raise self._rejection(BadValue(reason, offset=block.offset), block)
                yield Unreadable(as_text(block.data), reason)
                continue
            if self.file.tolerant:
                yield from _tolerantly(block, target, read)
                continue
            try:
                batch = read(block, target)
            except BadValue as bad:
                raise self._rejection(bad, block) from bad
            yield from pieces_of(batch)

    def _blocks(self, start: int, end: int | None) -> Iterator[Block]:
        """Yield the lines that start in the bytes [start, end), ended by LF, without a byte order mark."""
        for block in line_blocks(self.file, start, end, ending=self._line_end):
            data = block.data.removeprefix(BOM) if block.offset == 0 else block.data
            data = (
                data.replace(b"\r", b"\n") if self._line_end == b"\r" else data
            )  # in JSON a CR is never part of a value
            if data.strip() or block.truncated:
                yield Block(block.offset + len(block.data) - len(data), data, block.truncated)

    def _inferred(self) -> pa.Schema:
        """Return the columns and types that Arrow finds; of a tolerant file lines that cannot be read play no part."""
        for block in self._blocks(0, None):
            data = b"" if block.truncated else block.data
            if count_objects(data) is None:
                data = self._objects(Block(block.offset, data))
            if not data.strip():
                continue
            try:
                schema = arrow_table(data).schema
            except pa.ArrowInvalid as error:
                if not self.file.tolerant:
                    raise _untold(self.file, error) from error
                try:
                    schema = arrow_table(b"\n".join(line for line in data.split(b"\n") if _is_readable(line))).schema
                except pa.ArrowInvalid as left:
                    raise _untold(self.file, left) from left
            return pa.schema([field.with_type(pa.string()) if types.is_null(field.type) else field for field in schema])
        return pa.schema([])

    def _objects(self, block: Block) -> bytes:
        """Return the lines that are objects; another one is an error, unless the file is tolerant."""
        lines, offset = [], block.offset
        for line in block.data.split(b"\n"):
            if line.strip():
                try:
                    parsed_line(line, offset)
                    lines.append(line)
                except BadValue as bad:
                    if not self.file.tolerant:
                        raise self._rejection(bad, block) from bad
            offset += len(line) + 1
        return b"\n".join(lines)

    def _rejection(self, bad: BadValue, block: Block) -> SamzaError:
        place = place_of(self.file, bad.offset, self._line_end)
        record = block.data[bad.offset - block.offset :].partition(b"\n")[0]
        if bad.column is None:
            return bad_record(self.file, "JSON lines", f"{bad} {place}", place.line, record)
        return SchemaError(
            f"File {self.file.shown} of stream {self.file.stream!r} has {bad}, in column {bad.column!r} {place}.",
            hint=f"Declare the column with a type that holds the value, {LEAVE_RECORDS_OUT}, or correct the file.",
            file=self.file.shown,
            stream=self.file.stream,
            column=bad.column,
            line=place.line,
            record=beginning_of(record),
        )


def _tolerantly(block: Block, target: pa.Schema, read: LineReader) -> Iterator[pa.RecordBatch | Unreadable]:
    """Yield the rows of a block in pieces, and between them the lines that are bad."""
    try:
        yield from pieces_of(read(block, target))
        return
    except BadValue:
        lines = [line for line in block.data.split(b"\n") if line.strip()]
    for piece in readable_lines(lines, target, read):
        if isinstance(piece, pa.RecordBatch):
            yield from pieces_of(piece)
        else:
            place, bad = piece
            column = f", in column {bad.column!r}" if bad.column is not None else ""
            yield Unreadable(as_text(lines[place]), f"{bad}{column}")


def arrow_first(block: Block, target: pa.Schema) -> pa.RecordBatch:
    """Return the rows of a block of lines as Arrow reads them, or else as Python does."""
    batch = parsed_by_arrow(block.data, target)
    return batch if batch is not None else from_lines(block, target)


def is_for_arrow(target: pa.Schema) -> bool:
    """Return whether Arrow reads all columns: nested values of JSON's own types.

    Others inside of them, and maps, are Python's.
    """
    return all(is_text_leaf(field.type) or _is_plain(field.type) for field in target)


def _is_plain(kind: pa.DataType) -> bool:
    if types.is_map(kind) or is_text_leaf(kind):
        return False
    return all(_is_plain(kind.field(place).type) for place in range(kind.num_fields))


def parsed_by_arrow(data: bytes, target: pa.Schema) -> pa.RecordBatch | None:
    """Return a block of lines as Arrow parses it, in columns that may be null.

    None when something in it needs Python's parser, or is bad.
    """
    rows = count_objects(data)
    if rows is None:
        return None
    raw = pa.schema([field.with_type(pa.string()) if is_text_leaf(field.type) else field for field in target])
    parse = pajson.ParseOptions(explicit_schema=raw.remove_metadata(), unexpected_field_behavior="ignore")
    try:
        table = arrow_table(data, parse)
        if table.num_rows != rows:
            return None  # several objects on one line
        if not target.names:
            return rows_without_columns(table.num_rows)
        columns = [table.column(field.name).combine_chunks() for field in target]
        parsed = [
            parse_text(c, field.type) if is_text_leaf(field.type) else c
            for c, field in zip(columns, target, strict=True)
        ]
    except pa.ArrowInvalid:
        return None
    leaves = [leaf for column in columns for leaf in leaves_of(column)]
    if any(types.is_floating(leaf.type) and pc.any(pc.is_inf(leaf)).as_py() for leaf in leaves):
        return None  # a number that was too large
    # Nulls in a column that is declared not null are rejected by the reader, with the file's name.
    return pa.RecordBatch.from_arrays(parsed, schema=pa.schema([field.with_nullable(True) for field in target]))


class JsonLinesOutput(FileWriter):
    """Writer of a line for each row."""

    def __init__(self, sink: IO[bytes] | pa.NativeFile) -> None:
        self.sink = sink

    def write(self, batch: pa.RecordBatch) -> None:
        """Append lines."""
        for piece in pieces_of(batch):
            self.sink.write(to_lines(piece))


def _untold(file: InputFile, error: pa.ArrowInvalid) -> SchemaError:
    """Return the error of lines that are objects, and have no columns for all that."""
    several = "changed from" in str(error)
    reason = str(error).removeprefix("JSON parse error: ").rstrip(".")
    return SchemaError(
        f"File {file.shown} of stream {file.stream!r} has "
        + ("values of several types in one column" if several else "lines that show no columns")
        + f": {reason}.",
        hint="Declare schema= on the stream.",
        file=file.shown,
        stream=file.stream,
    )


def _is_readable(line: bytes) -> bool:
    try:
        arrow_table(line)
    except pa.ArrowInvalid:
        return False
    return True


def arrow_table(data: bytes, parse: pajson.ParseOptions | None = None) -> pa.Table:
    """Return a block of lines as Arrow reads it; what it cannot read is a ``pyarrow.ArrowInvalid``."""
    whole = pajson.ReadOptions(use_threads=False, block_size=len(data) + 1)
    return pajson.read_json(pa.BufferReader(data), read_options=whole, parse_options=parse)

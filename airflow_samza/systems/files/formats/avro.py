"""Avro object container files, through fastavro (the extra ``avro``).

Streams of files read by it, and the serdes of Avro share its types.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import IO, Any

import pyarrow as pa
from pyarrow import types

from airflow_samza.errors import RuntimeMissing, SchemaError, install
from airflow_samza.systems.files.formats.avro_blocks import (
    BLOCK_BYTES,
    CODECS,
    LARGEST_BLOCK,
    Container,
    ContainerWriter,
    long_bytes,
)
from airflow_samza.systems.files.formats.avro_records import BATCH_ROWS, RecordReader
from airflow_samza.systems.files.formats.avro_types import AvroTypes, column, readable, without_logical
from airflow_samza.systems.files.formats.file_format import (
    FileFormat,
    InputFile,
    OpenFile,
    TimeRange,
    rows_without_columns,
)
from airflow_samza.systems.files.formats.nested import rows_of
from airflow_samza.systems.files.formats.options import FileOptions
from airflow_samza.systems.files.formats.times import FOUR_DIGITS

_BATCH_BYTES = 8 * 2**20
"""Encoded bytes of the records that become a batch, unless a block alone has more."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def fastavro() -> ModuleType:
    """Return the library, or what to install."""
    try:
        import fastavro as library
    except ImportError as error:
        raise RuntimeMissing(
            "Avro files need the package fastavro, which is not installed.",
            hint=install("avro"),
            package="fastavro",
        ) from error
    return library


class AvroFormat(FileFormat):
    """The format ``avro``."""

    codecs = CODECS
    times = FOUR_DIGITS

    def __init__(self) -> None:
        self.library = fastavro()

    def open(self, file: InputFile, schema: pa.Schema | None, options: FileOptions) -> AvroInput:
        """Open the file and read its schema."""
        return AvroInput(self.library, file)

    def check(self, schema: pa.Schema, stream: str, options: FileOptions) -> None:
        """Reject names that Avro does not allow, and maps whose keys are not text."""
        for field in schema:
            _check(field, stream, field.name)

    def writer(self, sink: IO[bytes] | pa.NativeFile, schema: pa.Schema, options: FileOptions) -> AvroOutput:
        """Return a writer to an open sink."""
        return AvroOutput(self.library, sink, schema, options.compression or "deflate")


class AvroInput(OpenFile):
    """An open Avro file."""

    def __init__(self, library: ModuleType, file: InputFile) -> None:
        self.container = Container(file.sequential())
        with _damage_as_value_error():
            types = AvroTypes(library.parse_schema(without_logical(self.container.schema)))
        if isinstance(types.root, list) or types.root["type"] != "record":
            raise SchemaError(
                f"File {file.shown} of stream {file.stream!r} holds Avro values that are no records.",
                hint="Write records, one field for each column.",
                file=file.shown,
                stream=file.stream,
            )
        with _damage_as_value_error():
            self.schema = pa.schema(types.fields())
            self._records = RecordReader(library, types)

    def batches(
        self, start: int, end: int | None, names: Sequence[str], within: TimeRange | None
    ) -> Iterator[pa.RecordBatch]:
        """Yield all rows of the file; each block has to hold the records that it claims, and nothing else."""
        target = pa.schema([field.with_type(readable(field.type)) for field in map(self.schema.field, names)])
        held: list[Any] = []
        size = 0
        for block in self.container.blocks():
            for rows in self._records.rows(block):
                held += rows
                size += len(block.data)
                if len(held) >= BATCH_ROWS or size >= _BATCH_BYTES:
                    yield _batch(held, target)
                    held, size = [], 0
        if held:
            yield _batch(held, target)

    def close(self) -> None:
        """Give the file back."""
        self.container.source.close()


@contextmanager
def _damage_as_value_error() -> Iterator[None]:
    """Turn whatever a schema that is none raises into one error."""
    try:
        yield
    except Exception as error:
        raise ValueError(f"its schema is none ({type(error).__name__}: {error})") from error


def _batch(rows: list[Any], target: pa.Schema) -> pa.RecordBatch:
    if not target.names:
        return rows_without_columns(len(rows))
    return pa.RecordBatch.from_arrays([column([row[f.name] for row in rows], f.type) for f in target], schema=target)


class AvroOutput:
    """Writer of rows as records of the container's schema."""

    def __init__(self, library: ModuleType, sink: IO[bytes] | pa.NativeFile, schema: pa.Schema, codec: str) -> None:
        fields = [{"name": field.name, "type": _avro(field.type, f"{field.name}_", field.nullable)} for field in schema]
        record = {"type": "record", "name": "message", "fields": fields}
        self.records = library.parse_schema({"type": "array", "items": record})
        self.library = library
        self.container = ContainerWriter(sink, record, codec)

    def write(self, batch: pa.RecordBatch) -> None:
        """Append records."""
        for start in range(0, batch.num_rows, BATCH_ROWS):
            part = batch.slice(start, BATCH_ROWS)
            rows = rows_of(part)
            some = max(1, BLOCK_BYTES * len(rows) // max(part.nbytes, 1))
            for first in range(0, len(rows), some):
                self._write(rows[first : first + some])

    def _write(self, rows: list[dict[str, Any]]) -> None:
        """Append records, as an array of them without its beginning and its end."""
        sink = io.BytesIO()
        self.library.schemaless_writer(sink, self.records, rows)
        data = sink.getvalue()[len(long_bytes(len(rows))) : -1]
        if len(data) > LARGEST_BLOCK and len(rows) > 1:
            half = len(rows) // 2
            self._write(rows[:half])
            self._write(rows[half:])
        else:
            self.container.write(len(rows), data)

    def close(self) -> None:
        """Write the last block."""
        self.container.flush()


def _avro(kind: pa.DataType, path: str, nullable: bool = True) -> Any:
    """Return the Avro schema of an Arrow type; ``path`` makes the names of records unique."""
    plain = _avro_plain(kind, path)
    return ["null", plain] if nullable else plain


def _avro_plain(kind: pa.DataType, path: str) -> Any:
    if types.is_decimal(kind):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if types.is_timestamp(kind):
        return {"type": "long", "logicalType": "timestamp-micros" if kind.tz else "local-timestamp-micros"}
    if types.is_date(kind):
        return {"type": "int", "logicalType": "date"}
    if types.is_struct(kind):
        inner = [{"name": f.name, "type": _avro(f.type, f"{path}{f.name}_", f.nullable)} for f in kind]
        return {"type": "record", "name": f"{path}record", "fields": inner}
    if types.is_map(kind):
        return {"type": "map", "values": _avro(kind.item_type, f"{path}value_")}
    if types.is_list(kind):
        return {"type": "array", "items": _avro(kind.value_type, f"{path}item_")}
    if types.is_integer(kind):
        return "long" if kind.bit_width == 64 else "int"
    simple = {
        pa.bool_(): "boolean",
        pa.float32(): "float",
        pa.float64(): "double",
        pa.string(): "string",
        pa.binary(): "bytes",
    }
    return simple[kind]


def _check(field: pa.Field, stream: str, path: str) -> None:
    problem = None
    if not _NAME.fullmatch(field.name):
        problem = "whose name Avro does not allow (letters, digits and _ only)"
    elif types.is_map(field.type) and not types.is_string(field.type.key_type):
        problem = "a map whose keys are not strings, which Avro cannot hold"
    if problem is not None:
        raise SchemaError(
            f"Stream {stream!r} has column {path!r}, {problem}.",
            hint="Rename or cast the column, or write Parquet.",
            stream=stream,
            column=path,
        )
    for place in range(field.type.num_fields):
        inner = field.type.field(place)
        if types.is_struct(field.type):
            _check(inner, stream, f"{path}.{inner.name}")
        elif inner.type.num_fields:
            _check(pa.field("item", inner.type), stream, path)

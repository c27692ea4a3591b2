"""Avro object container files, through fastavro (the extra ``avro``)."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import IO, Any

import pyarrow as pa
from pyarrow import types

from airflow_samza.errors import RuntimeMissing, SamzaError, SchemaError, install
from airflow_samza.systems.files.formats.avro_blocks import BlockSource
from airflow_samza.systems.files.formats.file_format import READ_BY_SPARK, InputFile, TimeRange
from airflow_samza.systems.files.formats.options import FileOptions
from airflow_samza.systems.files.formats.packing import Unit
from airflow_samza.systems.files.formats.times import FOUR_DIGITS

_BATCH_ROWS = 16_384
"""Rows turned into Python objects at once."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_SIMPLE: dict[str, pa.DataType] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
    "enum": pa.string(),
    "fixed": pa.binary(),
}

_LOGICAL: dict[str, pa.DataType] = {
    "date": pa.date32(),
    "timestamp-millis": pa.timestamp("ms", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "local-timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"),
    "uuid": pa.string(),
}


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


class AvroFormat:
    """The format ``avro``."""

    extension = "avro"
    times = FOUR_DIGITS

    def __init__(self) -> None:
        self.library = fastavro()

    def open(self, file: InputFile, wanted: pa.Schema | None, options: FileOptions) -> AvroInput:
        """Open the file and read its schema."""
        return AvroInput(self.library, file)

    def units(self, number: int, file: InputFile, within: TimeRange | None, options: FileOptions) -> list[Unit]:
        """Return the whole file."""
        return [Unit(number, 0, None, file.size)]

    def check(self, schema: pa.Schema, stream: str) -> None:
        """Reject names that Avro does not allow, and maps whose keys are not text."""
        for field in schema:
            _check(field, stream, field.name)

    def writer(self, sink: IO[bytes] | pa.NativeFile, schema: pa.Schema, options: FileOptions) -> AvroOutput:
        """Return a writer to an open sink."""
        return AvroOutput(self.library, sink, schema, options.compression or "deflate")


class AvroInput:
    """An open Avro file."""

    def __init__(self, library: ModuleType, file: InputFile) -> None:
        self.source = BlockSource(file.sequential())
        with _damage_as_value_error():
            self.reader = library.reader(self.source)
        self.source.codec = str(self.reader.codec or "")
        root = self.reader.writer_schema
        if not isinstance(root, dict) or root.get("type") != "record":
            raise SchemaError(
                f"File {file.shown} of stream {file.stream!r} holds Avro values that are no records.",
                hint="Write records, one field for each column.",
                file=file.shown,
                stream=file.stream,
            )
        named: dict[str, Any] = {}
        with _damage_as_value_error():
            try:
                self._schema = pa.schema([_field(field, named, file) for field in root["fields"]])
            except RecursionError:
                raise SchemaError(
                    f"File {file.shown} of stream {file.stream!r} has an Avro type that contains itself, which no "
                    "column can hold.",
                    hint="Write the file with a schema that is not recursive.",
                    file=file.shown,
                    stream=file.stream,
                ) from None

    @property
    def schema(self) -> pa.Schema:
        """The columns of the file."""
        return self._schema

    def batches(
        self, start: int, end: int | None, names: Sequence[str], within: TimeRange | None
    ) -> Iterator[pa.RecordBatch]:
        """Yield all rows of the file."""
        target = pa.schema([self._schema.field(name) for name in names])
        while True:
            with _damage_as_value_error():
                rows = list(itertools.islice(self.reader, _BATCH_ROWS))
                batch = _batch(rows, target)
            if not rows:
                return
            yield batch

    def close(self) -> None:
        """Give the file back."""
        self.source.close()


@contextmanager
def _damage_as_value_error() -> Iterator[None]:
    """Turn whatever fastavro's decoder raises on damaged data into one error."""
    try:
        yield
    except (OSError, SamzaError):
        raise
    except Exception as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error


def _batch(rows: list[Any], target: pa.Schema) -> pa.RecordBatch:
    if not target.names:
        return pa.RecordBatch.from_arrays([pa.nulls(len(rows))], ["_"]).select([])
    return pa.RecordBatch.from_arrays(
        [pa.array([_arrow_value(r[f.name], f.type) for r in rows], f.type) for f in target], schema=target
    )


def _arrow_value(value: Any, kind: pa.DataType) -> Any:
    if value is None or not kind.num_fields:
        return value
    if types.is_map(kind):
        return [(key, _arrow_value(item, kind.item_type)) for key, item in value.items()]
    if types.is_struct(kind):
        return {
            kind.field(place).name: _arrow_value(value[kind.field(place).name], kind.field(place).type)
            for place in range(kind.num_fields)
        }
    return [_arrow_value(item, kind.value_type) for item in value]


def _field(field: dict[str, Any], named: dict[str, Any], file: InputFile) -> pa.Field:
    kind, nullable = _kind(field["type"], named, file, field["name"])
    return pa.field(field["name"], kind, nullable)


def _kind(schema: Any, named: dict[str, Any], file: InputFile, path: str) -> tuple[pa.DataType, bool]:
    """Return the Arrow type of an Avro schema, and whether it may be null."""
    if isinstance(schema, list):
        members = [member for member in schema if member != "null"]
        if len(members) != 1:
            raise SchemaError(
                f"File {file.shown} of stream {file.stream!r} has column {path!r} as a union of {len(members)} Avro "
                "types.",
                hint='Only unions of "null" and one other type have a column type; write the file with one of the '
                f"types, or {READ_BY_SPARK}.",
                file=file.shown,
                stream=file.stream,
                column=path,
            )
        return _kind(members[0], named, file, path)[0], len(members) < len(schema)
    if isinstance(schema, str):
        if schema in _SIMPLE:
            return _SIMPLE[schema], schema == "null"
        return _kind(named[schema], named, file, path)
    name = schema["type"]
    if "name" in schema:
        named[schema["name"]] = schema
    logical = schema.get("logicalType")
    if logical == "decimal":
        return pa.decimal128(int(schema["precision"]), int(schema.get("scale", 0))), False
    if logical in _LOGICAL:
        return _LOGICAL[logical], False
    if name == "record":
        return pa.struct([_field(inner, named, file) for inner in schema["fields"]]), False
    if name == "array":
        items = _kind(schema["items"], named, file, path)[0]
        if types.is_null(items) or (types.is_struct(items) and not items.num_fields) or _is_empty(schema["items"]):
            raise SchemaError(
                f"File {file.shown} of stream {file.stream!r} has column {path!r} as an array of Avro values that "
                "take no bytes.",
                hint="A few bytes could stand for any number of them; write the file without the column.",
                file=file.shown,
                stream=file.stream,
                column=path,
            )
        return pa.list_(items), False
    if name == "map":
        return pa.map_(pa.string(), _kind(schema["values"], named, file, path)[0]), False
    if name in _SIMPLE:
        return _SIMPLE[name], False
    return _kind(name, named, file, path)  # {"type": {…}} and {"type": "SomeName"}


def _is_empty(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "fixed" and not schema.get("size")


class AvroOutput:
    """Writer of rows as records of the container's schema."""

    def __init__(self, library: ModuleType, sink: IO[bytes] | pa.NativeFile, schema: pa.Schema, codec: str) -> None:
        self.kinds = [(field.name, field.type) for field in schema]
        fields = [{"name": field.name, "type": _avro(field.type, f"{field.name}_", field.nullable)} for field in schema]
        record = library.parse_schema({"type": "record", "name": "message", "fields": fields})
        self.writer = library.write.Writer(sink, record, codec=codec)

    def write(self, batch: pa.RecordBatch) -> None:
        """Append records."""
        for start in range(0, batch.num_rows, _BATCH_ROWS):
            part = batch.slice(start, _BATCH_ROWS)
            columns = [
                [_avro_value(value, kind) for value in part.column(place).to_pylist()]
                for place, (_, kind) in enumerate(self.kinds)
            ]
            names = [name for name, _ in self.kinds]
            for values in zip(*columns, strict=True):
                self.writer.write(dict(zip(names, values, strict=True)))

    def close(self) -> None:
        """Write the last block."""
        self.writer.flush()


def _avro_value(value: Any, kind: pa.DataType) -> Any:
    if value is None or not kind.num_fields:
        return value
    if types.is_map(kind):
        return {key: _avro_value(item, kind.item_type) for key, item in value}
    if types.is_struct(kind):
        return {
            kind.field(place).name: _avro_value(value[kind.field(place).name], kind.field(place).type)
            for place in range(kind.num_fields)
        }
    return [_avro_value(item, kind.value_type) for item in value]


def _avro(kind: pa.DataType, path: str, nullable: bool = True) -> Any:
    """Return the Avro schema of an Arrow type; ``path`` makes the names of records unique."""
    found = _avro_plain(kind, path)
    return ["null", found] if nullable else found


def _avro_plain(kind: pa.DataType, path: str) -> Any:
    if types.is_decimal(kind):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if types.is_timestamp(kind):
        return {"type": "long", "logicalType": "timestamp-micros" if kind.tz else "local-timestamp-micros"}
    if types.is_date(kind):
        return {"type": "int", "logicalType": "date"}
    if types.is_struct(kind):
        fields = [kind.field(place) for place in range(kind.num_fields)]
        inner = [{"name": f.name, "type": _avro(f.type, f"{path}{f.name}_", f.nullable)} for f in fields]
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

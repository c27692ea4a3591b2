"""Columns of data files: as they are written, and as those of their table when they are read.

Files have them by names and field ids, by which readers of the table find them, so that renamed ones are right. Outputs
and inputs of both lake formats go through it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from airflow_samza.errors import SchemaError
from airflow_samza.systems.dictionaries import is_encoded_as
from airflow_samza.systems.files.formats.casts import cast
from airflow_samza.systems.files.formats.nested import offsets_of
from airflow_samza.systems.files.formats.plain_types import as_plain, uuid_texts
from airflow_samza.systems.tables.columns import LIST, MAP, STRUCT, TableField, TableType, data_type
from airflow_samza.systems.tables.transforms import partition_value

_TYPES = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "string": pa.string(),
    "uuid": pa.binary(16),
    "binary": pa.binary(),
}
_SIZED = re.compile(r"(decimal|fixed)[(\[]\s*(\d+)\s*(?:,\s*(\d+)\s*)?[)\]]")


_DAY_MICROS = 86_400_000_000


def arrow_field(field: TableField) -> pa.Field:
    """Return a column as data files have it.

    Fields within it may be null in the file, also required ones: Arrow has null in them where the column is null.

    >>> arrow_field(TableField(3, "at", TableType("date"), required=True)).metadata
    {b'PARQUET:field_id': b'3'}
    """
    return _inner_field(field).with_nullable(not field.required)


def _inner_field(field: TableField) -> pa.Field:
    metadata = None if field.field_id is None else {"PARQUET:field_id": str(field.field_id)}
    return pa.field(field.file_name or field.name, _arrow_type(field.type), metadata=metadata)


def _arrow_type(kind: TableType) -> pa.DataType:
    inner = [_inner_field(field) for field in kind.fields]
    if kind.word == STRUCT:
        return pa.struct(inner)
    if kind.word == LIST:
        return pa.list_(inner[0])
    if kind.word == MAP:
        return pa.map_(inner[0].with_nullable(False), inner[1])
    sized = _SIZED.fullmatch(kind.word)
    if sized is None:
        return _TYPES[kind.word]
    return pa.binary(int(sized[2])) if sized[1] == "fixed" else pa.decimal128(int(sized[2]), int(sized[3]))


def for_file(column: pa.Array, field: TableField, table: str) -> pa.Array:
    """Return a column of the type here of a table's column as its data files have it.

    A value that the column cannot hold, and null where it may be none, is a ``SchemaError``.
    """
    if field.required and column.null_count:
        raise null_error(field.name, table)
    return _converted(column, field, table, field.name)


def _converted(column: pa.Array, field: TableField, table: str, path: str) -> pa.Array:
    target = _arrow_type(field.type)
    word, fields = field.type.word, field.type.fields
    if word == STRUCT:
        inner = [
            _converted(one, of, table, f"{path}.{of.name}") for one, of in zip(column.flatten(), fields, strict=True)
        ]
        for one, of in zip(inner, fields, strict=True):
            # A child is null below a null, too.
            if of.required and one.null_count > column.null_count:
                raise null_error(f"{path}.{of.name}", table)
        return pa.StructArray.from_arrays(inner, fields=list(target), mask=pc.is_null(column))
    if word == LIST:
        values = _converted(column.values, fields[0], table, f"{path}.{fields[0].name}")
        found = pa.ListArray.from_arrays(offsets_of(column), values, type=target)
        if fields[0].required and found.flatten().null_count:
            raise null_error(f"{path}.{fields[0].name}", table)
        return found
    if word == MAP:
        keys, items = (
            _converted(one, of, table, f"{path}.{of.name}")
            for one, of in zip((column.keys, column.items), fields, strict=True)
        )
        offsets = offsets_of(column)
        if fields[1].required and pa.ListArray.from_arrays(offsets, items).flatten().null_count:
            raise null_error(f"{path}.{fields[1].name}", table)
        return pa.MapArray.from_arrays(offsets, keys, items, type=target)
    if column.type.equals(target):
        return column
    try:
        if word == "uuid":
            return pa.array([None if value is None else UUID(value).bytes for value in column.to_pylist()], target)
        if word == "time":
            _check_times(column)
        return column.cast(target)
    except (pa.ArrowException, ValueError) as error:
        raise SchemaError(
            f"Column {path!r} of the table {table} is {word}, and a value of the messages does not fit: {error}.",
            hint="Correct the value where it is made, for example with select.",
            table=table,
            column=path,
        ) from error


def _check_times(column: pa.Array) -> None:
    """Reject microseconds that are of no day; Arrow would take them."""
    bounds = pc.min_max(column).as_py()
    if bounds["min"] is not None and (bounds["min"] < 0 or bounds["max"] >= _DAY_MICROS):
        wrong = bounds["min"] if bounds["min"] < 0 else bounds["max"]
        raise ValueError(f"{wrong} is no microsecond of a day")


def null_error(path: str, table: str) -> SchemaError:
    """Return the error of null where a table has none."""
    return SchemaError(
        f"Column {path!r} of the table {table} is required, and is null in a row of the messages.",
        hint="Leave such rows out with where, or give the column a value with select, for example by coalesce.",
        table=table,
        column=path,
    )


_ID = b"PARQUET:field_id"


class FileField(NamedTuple):
    """Column or inner field of a file; ``id`` None: neither the file nor the table's name mapping gives it one.

    Where a table knows the columns of its files by their names, the name is the id.
    """

    id: int | str | None
    name: str
    type: pa.DataType
    fields: tuple[FileField, ...] = ()


def file_fields(schema: pa.Schema, mapping: Sequence[Mapping[str, Any]] | None) -> tuple[FileField, ...] | None:
    """Return the columns of a file; those of one without ids by the table's name mapping. None: there is neither."""
    fields = tuple(_field(field, None) for field in schema)
    if not fields or any(map(_has_id, fields)):
        return fields
    return None if mapping is None else tuple(_field(field, mapping) for field in schema)


def named_fields(fields: Iterable[pa.Field]) -> tuple[FileField, ...]:
    """Return the columns of a file whose names are their ids."""
    return tuple(FileField(field.name, field.name, field.type, named_fields(inner_of(field.type))) for field in fields)


def _has_id(field: FileField) -> bool:
    return field.id is not None or any(map(_has_id, field.fields))


def _field(field: pa.Field, mapping: Sequence[Mapping[str, Any]] | None) -> FileField:
    named: Mapping[str, Any] = next((one for one in mapping or () if field.name in one.get("names", ())), {})
    if mapping is None:
        text = (field.metadata or {}).get(_ID)
        number = int(text) if text is not None else None
    else:
        number = named.get("field-id")
    within = None if mapping is None else named.get("fields", ())
    return FileField(number, field.name, field.type, tuple(_field(inner, within) for inner in inner_of(field.type)))


def inner_of(kind: pa.DataType) -> list[pa.Field]:
    """Return the fields within a type, with the names that a name mapping has for those of lists and maps."""
    if types.is_struct(kind):
        return [kind.field(place) for place in range(kind.num_fields)]
    if types.is_map(kind):
        return [kind.key_field.with_name("key"), kind.item_field.with_name("value")]
    if types.is_list(kind) or types.is_large_list(kind):
        return [kind.value_field.with_name("element")]
    return []


def projected(column: pa.Array, found: FileField, wanted: TableType) -> pa.Array:
    """Return a column of a file as the table has it now; a text may stay dictionary-encoded."""
    if wanted.word == STRUCT:
        return _struct(column, found, wanted)
    if wanted.word == LIST:
        plain = column if types.is_list(column.type) else column.cast(pa.list_(column.type.value_field))
        return pa.ListArray.from_arrays(
            offsets_of(plain), projected(plain.values, found.fields[0], wanted.fields[0].type)
        )
    if wanted.word == MAP:
        keys = projected(column.keys, found.fields[0], wanted.fields[0].type)
        items = projected(column.items, found.fields[1], wanted.fields[1].type)
        return pa.MapArray.from_arrays(offsets_of(column), keys, items)
    target = data_type(wanted).to_arrow()
    if column.type.equals(target) or is_encoded_as(column, target):
        return column
    if wanted.word == "uuid" and types.is_fixed_size_binary(column.type):
        return uuid_texts(column)
    return cast(as_plain(column), target)


def _struct(column: pa.StructArray, found: FileField, wanted: TableType) -> pa.StructArray:
    inner = dict(
        zip((field.id for field in found.fields), zip(found.fields, column.flatten(), strict=True), strict=True)
    )
    columns = []
    for field in wanted.fields:
        of_file = inner.get(field.id)
        columns.append(
            pa.nulls(len(column), data_type(field.type).to_arrow())
            if of_file is None
            else projected(of_file[1], of_file[0], field.type)
        )
    fields = [pa.field(field.name, one.type) for field, one in zip(wanted.fields, columns, strict=True)]
    return pa.StructArray.from_arrays(columns, fields=fields, mask=column.is_null())


def constant(field: TableField, value: Any, rows: int) -> pa.Array:
    """Return a column of one value of the table's metadata; None is null."""
    word = field.type.word
    one = value if word == "uuid" else partition_value(value, word)  # which is a text here
    return pa.repeat(pa.scalar(one, data_type(field.type).to_arrow()), rows)

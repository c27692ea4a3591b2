"""Columns of a data file that is written: with the field ids of the table, by which its readers find them."""

from __future__ import annotations

import re
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from airflow_samza.errors import SchemaError
from airflow_samza.systems.files.formats.nested import offsets_of
from airflow_samza.systems.tables.columns import LIST, MAP, STRUCT, TableField, TableType

_TYPES = {
    "boolean": pa.bool_(),
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


def arrow_field(field: TableField) -> pa.Field:
    """Return a field as data files have it.

    >>> arrow_field(TableField(3, "at", TableType("date"), required=True)).metadata
    {b'PARQUET:field_id': b'3'}
    """
    ids = {"PARQUET:field_id": str(field.id)}
    return pa.field(field.name, _arrow_type(field.type), not field.required, metadata=ids)


def _arrow_type(kind: TableType) -> pa.DataType:
    inner = [arrow_field(field) for field in kind.fields]
    if kind.word == STRUCT:
        return pa.struct(inner)
    if kind.word == LIST:
        return pa.list_(inner[0])
    if kind.word == MAP:
        return pa.map_(inner[0], inner[1])
    sized = _SIZED.fullmatch(kind.word)
    if sized is None:
        return _TYPES[kind.word]
    return pa.binary(int(sized[2])) if sized[1] == "fixed" else pa.decimal128(int(sized[2]), int(sized[3]))


def for_file(column: pa.Array, field: TableField, table: str) -> pa.Array:
    """Return a column of the type here of a table's column as its data files have it."""
    target = _arrow_type(field.type)
    word = field.type.word
    if word == STRUCT:
        inner = [for_file(one, wanted, table) for one, wanted in zip(column.flatten(), field.type.fields, strict=True)]
        return pa.StructArray.from_arrays(inner, fields=list(target), mask=pc.is_null(column))
    if word == LIST:
        values = for_file(column.values, field.type.fields[0], table)
        return pa.ListArray.from_arrays(offsets_of(column), values, type=target)
    if word == MAP:
        keys, items = (
            for_file(one, wanted, table)
            for one, wanted in zip((column.keys, column.items), field.type.fields, strict=True)
        )
        return pa.MapArray.from_arrays(offsets_of(column), keys, items, type=target)
    if column.type.equals(target):
        return column
    try:
        if word == "uuid":
            return pa.array([None if value is None else UUID(value).bytes for value in column.to_pylist()], target)
        return column.cast(target)
    except (pa.ArrowException, ValueError) as error:
        raise SchemaError(
            f"Column {field.name!r} of the table {table} is {word}, and a value of the messages does not fit: {error}.",
            hint="Correct the value where it is made, for example with select.",
            table=table,
            column=field.name,
        ) from error

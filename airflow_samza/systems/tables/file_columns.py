"""Columns of a data file that is written: with the names and field ids by which readers of the table find them."""

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

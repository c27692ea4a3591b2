"""Columns of a table as the metadata of Iceberg has them, in JSON, and the column types here.

A field is found by its id, whatever its name is in a file or in another schema of the table. Input ranges of other
tables have their columns in the same form; the id of a column may be its name in files. Inputs and outputs of both lake
formats describe columns by it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from airflow_samza.errors import SchemaError
from airflow_samza.schema import DataType, Field
from airflow_samza.systems.files.formats.file_format import READ_BY_SPARK

STRUCT, LIST, MAP = "struct", "list", "map"

_PLAIN = {
    "boolean": "boolean",
    "byte": "tinyint",
    "short": "smallint",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "date": "date",
    "time": "bigint",
    "timestamp": "timestamp_ntz",
    "timestamptz": "timestamp",
    "string": "string",
    "uuid": "string",
    "binary": "binary",
}
"""Types here of the types of tables that have no parameters, as of files: a time of day is microseconds."""

_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")


TIME_UNITS = {"timestamp": 1, "timestamptz": 1, "date": 86_400_000_000, "long": 1000, "int": 1000}
"""Microseconds of one unit of the types of event times."""


class TableType(NamedTuple):
    """Type of a field: a word of Iceberg, and the fields within a struct, a list (one) or a map (key and value)."""

    word: str
    fields: tuple[TableField, ...] = ()


class TableField(NamedTuple):
    """Column or inner field of a table. ``default`` is True where rows of older files have a value other than null.

    Files have it by ``file_name`` ("": by its name) and with the field id ``file_id`` (None: its id, where that is a
    number), if the table maps its columns.
    """

    id: int | str
    name: str
    type: TableType
    required: bool = False
    default: bool = False
    file_name: str = ""
    file_id: int | None = None

    @property
    def field_id(self) -> int | None:
        """The field id that files have; None: they have none."""
        number = self.id if self.file_id is None else self.file_id
        return number if isinstance(number, int) and number else None


def columns_of(fields: Iterable[Mapping[str, Any]]) -> tuple[TableField, ...]:
    """Return the columns that the ``fields`` of a schema's JSON describe.

    >>> columns_of([{"id": 1, "name": "at", "type": "timestamptz", "required": True}])[0].type
    TableType(word='timestamptz', fields=())
    """
    return tuple(
        TableField(
            field["id"],
            str(field["name"]),
            _type(field["type"]),
            bool(field["required"]),
            field.get("initial-default") is not None,
            str(field.get("file-name", "")),
            field.get("file-id"),
        )
        for field in fields
    )


def _type(kind: Any) -> TableType:
    if not isinstance(kind, Mapping):
        return TableType(str(kind))
    word = str(kind["type"])
    if word == STRUCT:
        return TableType(STRUCT, columns_of(kind["fields"]))
    names = ("element",) if word == LIST else ("key", "value") if word == MAP else ()
    return TableType(
        word,
        tuple(
            TableField(kind[f"{name}-id"], name, _type(kind[name]), bool(kind.get(f"{name}-required", True)))
            for name in names
        ),
    )


def inner_fields(columns: Iterable[TableField]) -> Iterator[tuple[int | str, str, TableField]]:
    """Yield columns and all fields within them, each with its key and its path.

    The key is the id where that is a field's own, else it follows from the keys of those around it.
    """
    for column in columns:
        yield column.id, column.name, column
        yield from _within(column.type, str(column.id), column.name)


def _within(kind: TableType, key: str, path: str) -> Iterator[tuple[int | str, str, TableField]]:
    for field in kind.fields:
        own = field.id if isinstance(field.id, int) and field.id else f"{key}.{field.id or field.name}"
        yield own, f"{path}.{field.name}", field
        yield from _within(field.type, str(own), f"{path}.{field.name}")


def column_type(field: TableField, table: str) -> DataType:
    """Return the type here of a column; a type that has none, and a default of older rows, is a ``SchemaError``."""
    lacking = next(_without_type(field, field.name), None)
    if lacking is not None:
        path, what = lacking
        raise SchemaError(
            f"Column {path!r} of the table {table} {what}.",
            hint=f"Declare schema= with the columns that are needed, without {field.name!r}, or {READ_BY_SPARK}.",
            table=table,
            column=path,
        )
    return data_type(field.type)


def _without_type(field: TableField, path: str) -> Iterator[tuple[str, str]]:
    if field.default:
        yield path, "has a default value for rows that were written before it was added, which is not read here"
    if not field.type.fields and field.type.word != STRUCT and _plain(field.type.word) is None:
        yield path, f"is {field.type.word}, which has no column type here"
    for inner in field.type.fields:
        yield from _without_type(inner, f"{path}.{inner.name}")


def _plain(word: str) -> DataType | None:
    if word in _PLAIN:
        return DataType(_PLAIN[word])
    decimal = _DECIMAL.fullmatch(word)
    if decimal is not None and int(decimal[1]) <= 38:
        return DataType("decimal", int(decimal[1]), int(decimal[2]))
    return DataType("binary") if word.startswith("fixed[") else None


def data_type(kind: TableType) -> DataType:
    """Return the type here of a type that has one."""
    children = tuple(data_type(field.type) for field in kind.fields)
    if kind.word == STRUCT:
        return DataType("struct", children=children, names=tuple(field.name for field in kind.fields))
    if kind.word in (LIST, MAP):
        return DataType("array" if kind.word == LIST else "map", children=children)
    plain = _plain(kind.word)
    assert plain is not None
    return plain


def fields_of(columns: Iterable[TableField], table: str) -> tuple[Field, ...]:
    """Return the columns as those of a stream; the first that cannot be one is a ``SchemaError``."""
    return tuple(Field(column.name, column_type(column, table), not column.required) for column in columns)

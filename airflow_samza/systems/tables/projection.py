"""Columns of a data file as those of its table: by field id or by physical name, so that renamed ones are right.

Readers of both lake formats go through it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import types

from airflow_samza.systems.dictionaries import is_encoded_as
from airflow_samza.systems.files.formats.casts import cast
from airflow_samza.systems.files.formats.nested import offsets_of
from airflow_samza.systems.files.formats.plain_types import as_plain, uuid_texts
from airflow_samza.systems.tables.columns import LIST, MAP, STRUCT, TableField, TableType, data_type
from airflow_samza.systems.tables.transforms import partition_value

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

"""Reading of Python annotations: the columns of a dataclass, and their types."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import types
import typing
from collections.abc import Hashable
from typing import Any

from airflow_samza.errors import SchemaError
from airflow_samza.schema.data_type import DataType, Field
from airflow_samza.schema.ddl import parse_type

_PYTHON_TYPES: dict[object, str] = {
    bool: "boolean",
    int: "bigint",
    float: "double",
    str: "string",
    bytes: "binary",
    datetime.date: "date",
    datetime.datetime: "timestamp",
}


def declared_type(declared: object, where: str) -> DataType:
    """Return the type that a user declared, as a name in DDL or a Python type; ``where`` is its place for errors.

    >>> declared_type("bigint", "the key").ddl(), declared_type(list[str], "the value").ddl()
    ('bigint', 'array<string>')
    """
    if isinstance(declared, str):
        return parse_type(declared)
    return _from_annotation(declared, where)[0]


def dataclass_columns(declared: type, inside: tuple[type, ...] = ()) -> tuple[Field, ...]:
    """Return the columns of a dataclass, one for each field; ``inside`` are the dataclasses around it."""
    if declared in inside:
        raise SchemaError(
            f"The dataclass {declared.__name__} contains itself, which no column type does.",
            hint="Keep the id of the other message instead.",
            value=declared.__name__,
        )
    try:
        hints = typing.get_type_hints(declared, include_extras=True)
    except (NameError, TypeError, SyntaxError) as error:
        raise SchemaError(
            f"The annotations of the dataclass {declared.__name__} cannot be resolved: {error}.",
            hint="Define or import what they name at the top of the module, not inside a function or for type "
            "checkers only.",
            value=declared.__name__,
        ) from error
    fields = []
    for field in dataclasses.fields(declared):
        if not field.init:
            raise SchemaError(
                f"The field {declared.__name__}.{field.name} is not set by the constructor, so no message can be made "
                "with it.",
                hint="Leave out init=False; make a derived value a property.",
                column=field.name,
            )
        kind, nullable = _from_annotation(hints[field.name], f"{declared.__name__}.{field.name}", (*inside, declared))
        fields.append(Field(field.name, kind, nullable))
    if not fields:
        raise SchemaError(f"The dataclass {declared.__name__} has no fields.", hint="Give it one field per column.")
    return tuple(fields)


def _from_annotation(annotation: Any, where: str, inside: tuple[type, ...] = ()) -> tuple[DataType, bool]:
    origin = typing.get_origin(annotation)
    arguments = typing.get_args(annotation)
    if origin is typing.Annotated:  # Annotated[int, "int"] names the exact width
        names = [extra for extra in arguments[1:] if isinstance(extra, str)]
        if names:
            return parse_type(names[0]), _from_annotation(arguments[0], where, inside)[1]
        return _from_annotation(arguments[0], where, inside)
    if origin in (typing.Union, types.UnionType):
        members = [member for member in arguments if member is not type(None)]
        if len(members) == 1 and len(members) < len(arguments):
            return _from_annotation(members[0], where, inside)[0], True
    if isinstance(annotation, Hashable) and annotation in _PYTHON_TYPES:
        return DataType(_PYTHON_TYPES[annotation]), False
    if annotation is decimal.Decimal:
        return DataType("decimal", 38, 18), False
    if origin is list or (origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis):
        return DataType("array", children=(_from_annotation(arguments[0], where, inside)[0],)), False
    if origin is dict:
        return DataType("map", children=tuple(_from_annotation(part, where, inside)[0] for part in arguments)), False
    if isinstance(annotation, type) and dataclasses.is_dataclass(annotation):
        inner = dataclass_columns(annotation, inside)
        return DataType("struct", children=tuple(f.type for f in inner), names=tuple(f.name for f in inner)), False
    raise SchemaError(
        f"The type {annotation!r} of {where} has no column type.",
        hint="Use bool, int, float, str, bytes, date, datetime, Decimal, list, dict, a dataclass, "
        'or Annotated[int, "smallint"].',
        column=where,
    )

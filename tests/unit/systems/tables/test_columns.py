"""Columns of a table's metadata, and the column types here."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_samza.errors import SchemaError
from airflow_samza.schema import Schema
from airflow_samza.systems.tables.columns import columns_of, fields_of


def ddl(*fields: dict[str, Any]) -> str:
    described = [{"id": number, "required": False, **field} for number, field in enumerate(fields, 1)]
    return Schema(fields_of(columns_of(described), "web.views")).ddl()


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        ("boolean", "boolean"),
        ("int", "int"),
        ("long", "bigint"),
        ("float", "float"),
        ("double", "double"),
        ("decimal(9, 2)", "decimal(9,2)"),
        ("date", "date"),
        ("time", "bigint"),
        ("timestamp", "timestamp_ntz"),
        ("timestamptz", "timestamp"),
        ("string", "string"),
        ("uuid", "string"),
        ("fixed[16]", "binary"),
        ("binary", "binary"),
        ({"type": "list", "element-id": 9, "element": "int", "element-required": True}, "array<int>"),
        (
            {"type": "map", "key-id": 8, "key": "string", "value-id": 9, "value": "date", "value-required": False},
            "map<string,date>",
        ),
        (
            {"type": "struct", "fields": [{"id": 9, "name": "a b", "type": "int", "required": True}]},
            "struct<`a b`:int>",
        ),
    ],
)
def test_each_type_has_its_column_type(kind: Any, found: str) -> None:
    assert ddl({"name": "x", "type": kind}) == f"x {found}"


def test_a_required_column_is_not_null() -> None:
    assert ddl({"name": "x", "type": "int", "required": True}) == "x int not null"


@pytest.mark.parametrize("kind", ["timestamp_ns", "variant", "geometry(srid:4326)", "decimal(39, 1)", "unknown"])
def test_a_type_that_no_column_has_is_rejected_by_name(kind: str) -> None:
    with pytest.raises(SchemaError) as error:
        ddl({"name": "x", "type": {"type": "list", "element-id": 9, "element": kind, "element-required": False}})
    assert (
        error.value.sentence == f"Column 'x.element' of the table web.views is {kind}, which has no column type here."
    )
    assert "without 'x'" in error.value.hint


def test_a_default_for_older_rows_is_rejected() -> None:
    with pytest.raises(SchemaError, match=r"'x' of the table web\.views has a default value"):
        ddl({"name": "x", "type": "int", "initial-default": 7})

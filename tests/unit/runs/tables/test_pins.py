"""Versions that a table can read: pushed by its key, with its columns."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_samza.application.descriptors import TableDescriptor, TableKind
from airflow_samza.errors import SchemaError
from airflow_samza.runs.tables.pins import check_columns
from airflow_samza.runs.tables.table_version import TableVersion
from airflow_samza.schema import Schema
from tests.support.record_samples import SAMPLES

VERSION = replace(
    next(sample for sample in SAMPLES if isinstance(sample, TableVersion)),
    schema="id bigint, tier string",
    key=("id",),
)


def table(key: str, schema: str | None) -> TableDescriptor:
    return TableDescriptor("t", TableKind.PUSHED, (key,), None if schema is None else Schema.of(schema))


@pytest.mark.parametrize("schema", [None, "id bigint", "id bigint, tier string"])
def test_a_version_with_the_key_and_the_columns_of_its_table_is_read(schema: str | None) -> None:
    check_columns(table("id", schema), VERSION)


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        (table("tier", None), "was pushed by the key id, and the table is declared with tier"),
        (table("id", "id bigint, age int"), "has no column 'age'"),
        (table("id", "id bigint, tier date"), "has the column 'tier' as string"),
    ],
)
def test_p11_a_version_of_another_key_or_other_columns_is_rejected(declared: TableDescriptor, said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        check_columns(declared, VERSION)

"""The page on Iceberg, done as a reader does it: its files, its commands, and what its tables promise."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from airflow_samza.schema import Schema
from airflow_samza.systems.iceberg.options import CATALOG_TYPES
from airflow_samza.systems.tables.columns import columns_of, fields_of
from tests.support.documentation_pages import text_of
from tests.support.iceberg_page import PAGE, check_first_table


@pytest.mark.extended
def test_the_first_table_is_read_by_the_commands_of_the_page(tmp_path: Path) -> None:
    check_first_table(["-m", "tests.support.command_without_spark"], tmp_path)


def test_the_types_are_those_of_the_code() -> None:
    for words, found in re.findall(r"^\| (`[^|]+) \| (`[^|]+|the same) \|$", text_of(PAGE), flags=re.M):
        for word in re.findall(r"`([\w(), \[\]]+)`", words):
            if word in ("struct", "list", "map"):
                continue
            kind = word.replace("p, s", "9, 2").replace("[n]", "[4]")
            field = {"id": 1, "name": "x", "type": kind, "required": False}
            wanted = word if found == "the same" else re.findall(r"`([^`]+)`", found)[0].replace("p,s", "9,2")
            assert Schema(fields_of(columns_of([field]), "t")).ddl() == f"x {wanted}"


def test_every_type_of_catalog_is_named() -> None:
    assert all(f"`{kind}`" in text_of(PAGE) for kind in CATALOG_TYPES)

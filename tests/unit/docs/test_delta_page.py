"""The page on Delta, done as a reader does it: its files, its commands, and what its tables promise."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from airflow_samza.schema import Schema
from airflow_samza.systems.delta.columns import _type
from airflow_samza.systems.delta.table_version import READ
from airflow_samza.systems.tables.columns import columns_of, fields_of
from tests.support.delta_page import PAGE, check_first_table
from tests.support.documentation_pages import text_of


@pytest.mark.nightly
def test_the_first_table_is_read_by_the_commands_of_the_page(tmp_path: Path) -> None:
    check_first_table(["-m", "tests.support.command_without_spark"], tmp_path)


def test_the_types_are_those_of_the_code() -> None:
    found = re.findall(r"^\| (`[^|]+) \| (`[^|]+|the same) \|$", text_of(PAGE).split("| Delta |")[1], flags=re.M)
    assert found
    for words, here in found:
        for word in re.findall(r"`([\w(), ]+)`", words):
            if word in ("struct", "array", "map") or "." in word:
                continue
            kind: Any = _type(word.replace("p,s", "9,2"), "none")
            wanted = word if here == "the same" else re.findall(r"`([^`]+)`", here)[0].replace("p,s", "9,2")
            field = {"id": "x", "name": "x", "type": kind, "required": False}
            assert Schema(fields_of(columns_of([field]), "t")).ddl() == f"x {wanted}"


def test_the_features_are_those_of_the_code() -> None:
    (line,) = [line for line in text_of(PAGE).splitlines() if line.startswith("|") and line.endswith("| read |")]
    assert set(re.findall(r"`(\w+)`", line)) == READ

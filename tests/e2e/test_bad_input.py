"""docs/reference/errors.md says what is really raised.

Every row is provoked through a way in that a user has, and compared word for word.

``WRITE_ERRORS_PAGE=1 pytest tests/e2e/test_bad_input.py`` writes the rows anew; read the difference before it is
committed.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.e2e.bad_input import (  # noqa: F401 (they enter the rows)
    page,
    rows_bad_records,
    rows_chooser,
    rows_compare,
    rows_connect,
    rows_dag,
    rows_delta,
    rows_expectations,
    rows_files,
    rows_iceberg,
    rows_kafka,
    rows_launch,
    rows_object_stores,
    rows_plan,
    rows_push,
    rows_registry,
    rows_remote,
    rows_serdes,
    rows_side_inputs,
    rows_spark,
    rows_spark_system,
    rows_stage,
    rows_state,
    rows_tasks,
    rows_upserts,
    rows_wrong_use,
)
from tests.e2e.bad_input.page import ROWS, Row
from tests.e2e.bad_input.scene import Scene


def slug(row: Row) -> str:
    return re.sub(r"[^a-z0-9]+", "-", row.what.lower()).strip("-")


QUICK = [
    rows.__name__
    for rows in (
        rows_bad_records,
        rows_chooser,
        rows_compare,
        rows_delta,
        rows_expectations,
        rows_files,
        rows_iceberg,
        rows_plan,
        rows_side_inputs,
        rows_upserts,
        rows_wrong_use,
    )
]
"""Modules of the rows that each change provokes: those that start no process and load no Airflow."""


def marks_of(row: Row) -> list[pytest.MarkDecorator]:
    return [] if row.provoke is None or row.provoke.__module__ in QUICK else [pytest.mark.extended]


@pytest.mark.parametrize(
    "row", [pytest.param(row, marks=marks_of(row), id=slug(row)) for row in ROWS if row.provoke is not None]
)
def test_the_page_says_what_is_raised(row: Row, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert row.provoke is not None
    text = page.normalised(row.provoke(Scene(tmp_path, monkeypatch)), tmp_path)
    page.compare(row, text)


def test_every_entry_of_the_page_is_provoked() -> None:
    assert sorted(page.entries()) == sorted(row.what for row in ROWS)

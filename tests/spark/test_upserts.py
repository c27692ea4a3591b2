"""Changes that stages on Spark upsert into tables of Iceberg and Delta, and into a table of a database by JDBC."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_samza.systems.system import SystemBinding
from tests.support import upserting_apps
from tests.support.budgets import extended_but
from tests.support.one_session import Runs
from tests.support.upserting_apps import APPLICATION, SAID, Members

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

SHIPPED = upserting_apps

Changes = list[tuple[str, int, str | None, int]]

FIRST: Changes = [("c", 1, "silver", 1), ("c", 2, "silver", 2), ("u", 1, "gold", 5), ("c", 3, "late", 1)]
SECOND: Changes = [("u", 1, "late", 4), ("d", 2, None, 7), ("u", 3, "gold", 8), ("c", 4, "new", 9), ("c", 4, "new", 9)]
NEWEST = [(1, "gold"), (3, "gold"), (4, "new")]


@pytest.fixture(autouse=True)
def said() -> Iterator[None]:
    SAID.clear()
    yield
    SAID.clear()


@pytest.mark.parametrize("kind", extended_but(["iceberg"], ["delta", "iceberg"]))
def test_tables_of_lakes_have_the_newest_rows_and_their_history(session: Any, tmp_path: Path, kind: str) -> None:
    SAID["kind"] = kind
    here = Members(tmp_path)
    runs = Runs(session, tmp_path / "root", here.bindings)
    for run, changes in {"one": FIRST, "two": SECOND}.items():
        here.write(run, changes)
        runs.one_by_one(runs.prepare(APPLICATION, run))
    assert here.newest() == NEWEST
    assert here.history() == [
        (1, "silver", 1, 5),
        (1, "gold", 5, None),
        (2, "silver", 2, 7),
        (3, "late", 1, 8),
        (3, "gold", 8, None),
        (4, "new", 9, None),
    ]


def test_a_database_has_the_newest_rows(session: Any, tmp_path: Path) -> None:
    here = Members(tmp_path)
    url = f"jdbc:derby:{tmp_path / 'db'};create=true"
    options = {"url": url, "driver": "org.apache.derby.iapi.jdbc.AutoloadedDriver"}
    bindings = {**here.bindings, "db": SystemBinding("spark", {"format": "jdbc", **options})}
    SAID["newest"] = {"system": "db", "table": "members", "create": None}
    runs = Runs(session, tmp_path / "root", bindings)
    for run, changes in {"one": FIRST, "two": SECOND}.items():
        here.write(run, changes)
        runs.one_by_one(runs.prepare(APPLICATION, run))
    with session.stage_session({}, own=False) as spark:
        found = spark.read.format("jdbc").options(**options, dbtable="members").load().collect()
    assert sorted((row["member"], row["tier"]) for row in found) == NEWEST

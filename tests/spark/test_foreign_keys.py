"""Foreign keys on Spark: workers look rows up in the tables that they have, of outputs and of inputs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza.schema import Schema
from tests.support import referring_apps
from tests.support.one_session import Runs, open_session
from tests.support.pushes import Pushes
from tests.support.referring_apps import EXPECT, VIEWS

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

APPS = f"{referring_apps.__name__}:"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    EXPECT.clear()  # workers know nothing of it
    made = open_session(tmp_path_factory.mktemp("session"), referring_apps.__name__)
    yield made
    made.stop()


@pytest.mark.parametrize("app", ["of_output", "of_input"])
def test_rows_without_a_row_of_the_table_become_dead_letters(session: Any, tmp_path: Path, app: str) -> None:
    runs = Runs(session, tmp_path / "root")
    Pushes(tmp_path / "root").push("one", dict.fromkeys(range(0, 40, 2), "gold"), keep_versions=10)
    views = [{"n": n, "member": None if n % 7 == 0 else n % 40} for n in range(200)]
    table = pa.Table.from_pylist(views, Schema.of(VIEWS).to_arrow())
    runs.log.append("views", table, key=["member"], partitions=2)
    runs.one_by_one(runs.prepare(APPS + app, "run-1"))
    known = [view["n"] for view in views if view["member"] is None or view["member"] % 2 == 0]
    assert sorted(row["n"] for row in runs.rows("copies")) == known
    assert len(runs.rows("bad")) == 200 - len(known)

"""Upserts into a database, which need the driver's Java: over Spark Connect they are rejected before anything runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_samza.errors import ConfigError
from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.systems.system import SystemBinding
from tests.support.upserting_apps import APPLICATION, SAID, Members

SERVER = "sc://127.0.0.1:1/;token=abc"
SAYS = re.escape(
    "The output 'members' is upserted into jdbc members, which needs a connection of the driver's Java, and over "
    "Spark Connect there is none."
)


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Members]:
    SAID.clear()
    SAID["newest"] = {"system": "db", "table": "members", "create": None}
    made = Members(tmp_path)
    made.bindings = {**made.bindings, "db": SystemBinding("spark", {"format": "jdbc", "url": "jdbc:derby:db"})}
    made.write("first", [("c", 1, "silver", 1)])
    yield made
    SAID.clear()


def runtime(here: Members, master: str) -> SparkRuntime:
    return SparkRuntime(str(here.root), systems=here.bindings, master=master)


def test_the_plan_rejects_them_and_holds_no_state(here: Members) -> None:
    for _ in range(2):  # a retry
        with pytest.raises(ConfigError, match=SAYS):
            runtime(here, SERVER).prepare(RunRequest(APPLICATION, "run-1"))
    with pytest.raises(ConfigError, match=SAYS):
        runtime(here, SERVER).preview(RunRequest(APPLICATION, "run-1"))
    assert not list(here.root.rglob("plan/*.json"))
    assert runtime(here, "local[1]").prepare(RunRequest(APPLICATION, "run-2")).run_id == "run-2"


def test_a_stage_that_was_planned_for_another_master_is_rejected_before_it_is_submitted(here: Members) -> None:
    run = runtime(here, "local[1]").prepare(RunRequest(APPLICATION, "run-1"))
    with pytest.raises(ConfigError, match=SAYS):
        runtime(here, SERVER).submit(run, run.plan.stages[-1].stage_id)
    assert not list(here.root.rglob("request.json"))


def test_appended_changes_are_planned(here: Members) -> None:
    SAID["newest"] |= {"mode": "append"}
    assert runtime(here, SERVER).prepare(RunRequest(APPLICATION, "run-1")).run_id == "run-1"

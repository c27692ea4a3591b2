"""Keys and event times that are made anew, on Spark: checked behind Catalyst, and in every mode."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from samza_spark_apps import columns

from airflow_samza.errors import PartitioningMismatch
from airflow_samza.schema import Schema
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import SystemBinding
from tests.support.budgets import extended_but
from tests.support.one_session import Runs
from tests.support.topic_rows import topic_rows

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

SHIPPED = columns

NOON = datetime(2013, 1, 1, 12, tzinfo=timezone.utc)


@pytest.fixture
def runs(session: Any, tmp_path: Path) -> Runs:
    found = Runs(session, tmp_path)
    found.make("rows", Schema.of(columns.ROWS), 2)
    return found


def send(runs: Runs, *numbers: int) -> None:
    rows = [{"k": number, "at": NOON + timedelta(hours=6 * number)} for number in numbers]
    runs.send("rows", Schema.of(columns.ROWS), rows)


@pytest.mark.parametrize("mode", extended_but(["pipelined"], ["staged", "pipelined"]))
def test_a_key_that_a_callable_has_changed_is_rejected_behind_catalyst(runs: Runs, mode: str) -> None:
    send(runs, *range(12))
    run = runs.prepare(f"{columns.__name__}:moved", "run-1", mode=mode)
    with pytest.raises(PartitioningMismatch, match="aggregate 'n' takes its messages as partitioned by 'k'"):
        runs.one_by_one(run) if mode == "staged" else runs.together(run)


@pytest.mark.parametrize("mode", extended_but(["pipelined"], ["staged", "pipelined"]))
def test_a_key_that_is_kept_under_another_name_is_counted(runs: Runs, mode: str) -> None:
    send(runs, *range(12), *range(5))
    run = runs.prepare(f"{columns.__name__}:kept", "run-1", mode=mode)
    runs.one_by_one(run) if mode == "staged" else runs.together(run)
    assert runs.outputs(run) == {"out": sorted(repr({"kk": k, "n": 2 if k < 5 else 1}) for k in range(12))}


def test_an_event_time_that_catalyst_makes_loses_nothing_in_catch_up_runs(runs: Runs, tmp_path: Path) -> None:
    for number in range(4):
        send(runs, number * 3, number * 3 + 1, number * 3 + 2)
        run = runs.prepare(f"{columns.__name__}:days", f"run-{number}")
        runs.one_by_one(run)
        runs.runtime.close(run)
    run = runs.prepare(f"{columns.__name__}:days", "last", mode="continuous")
    stages = [runs.start(run, stage.stage_id) for stage in run.plan.stages]
    runs.runtime.drain(run, "a test")
    for stage in stages:
        stage.join(timeout=240)
    log = LogSystem("log", SystemBinding("log", {"root": str(tmp_path)}))
    found = list(topic_rows(log, run.stream("out").spec.name))
    assert sorted((row["k"], row["n"]) for row in found) == [(k, 1) for k in range(12)]
    assert all(row["window_start"].hour == 0 for row in found)

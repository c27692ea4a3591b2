"""The operator that sweeps a root, and its example Dag."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza.errors import ConfigError
from airflow_samza.provider.hooks.samza import SamzaHook
from airflow_samza.provider.operators.retention import SamzaRetentionOperator
from tests.support.runs_here import Here

PRODUCING = "tests.support.carrying_apps:producing"
SCHEMA = pa.schema([("member", pa.int64()), ("page", pa.string()), ("n", pa.int64())])


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Here:
    made = Here(tmp_path)
    connection = {"conn_type": "samza", "extra": {"root": str(tmp_path)}}
    monkeypatch.setenv("AIRFLOW_CONN_SWEPT", json.dumps(connection))
    for run in range(7):
        rows = [{"member": n % 3, "page": f"p{n}", "n": n} for n in range(3)]
        made.log.append("clicks", pa.Table.from_pylist(rows, SCHEMA), key=["member"], partitions=2)
        plan = made.plan(PRODUCING, f"run-{run}")
        made.stages(plan)
        made.runtime.close(plan, keep_seconds=-1.0)
    return made


def test_it_deletes_what_has_expired_and_leaves_in_xcom_what_that_was(here: Here, make_context: Any) -> None:
    told = SamzaRetentionOperator(task_id="look", conn_id="swept", keep_runs=1, dry_run=True)
    would = told.execute(make_context(told))
    assert would["runs"] == ["producing/run-0", "producing/run-1"]
    assert here.log.filesystem.exists("runs/producing/run-0")
    operator = SamzaRetentionOperator(task_id="sweep", conn_id="swept", keep_runs=1)
    assert json.loads(json.dumps(operator.execute(make_context(operator)))) == would
    assert here.log.filesystem.list("runs/producing") == [f"run-{n}" for n in range(2, 7)]


@pytest.mark.parametrize("name", ["keep_runs", "keep_runs_days"])
def test_fewer_than_no_runs_and_days_are_rejected(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    below: dict[str, Any] = {name: -1}
    with pytest.raises(ConfigError, match=f"{name}=-1 of the task 'sweep' is not 0 or more"):
        SamzaRetentionOperator(task_id="sweep", **below)
    monkeypatch.setenv(f"AIRFLOW__SAMZA__{name.upper()}", "0")
    assert 0 in vars(SamzaHook("swept").keep).values()
    monkeypatch.setenv(f"AIRFLOW__SAMZA__{name.upper()}", "-1")
    with pytest.raises(ConfigError, match=rf"\[samza\] {name} = -1 in Airflow's configuration is not 0 or more"):
        _ = SamzaHook("swept").keep


def test_the_example_dag_sweeps_the_default_connection_once_a_day() -> None:
    found = runpy.run_path(str(Path(__file__).parents[4] / "dags/samza_retention.py"))["dag"]
    (task,) = found.tasks
    assert (task.conn_id, task.keep_runs, task.keep_runs_days, task.only_tell) == ("samza_default", 200, 60, False)
    assert found.max_active_runs == 1

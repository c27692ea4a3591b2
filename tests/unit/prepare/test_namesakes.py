"""Two applications of one name on one root: a state that one has written and the other continues. No Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from airflow_samza.application.loader import function_module
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.state_history.folder import StateHistory
from airflow_samza.runs.state_history.state_upkeep import reset
from tests.support.changing_modules import ChangingModules
from tests.support.runs_here import Here

APPLICATION = """
from airflow_samza import stream_application

@stream_application("numbering")
def app(app):
    lines = app.input_stream("lines", system="log", schema="n bigint", slice="checkpoint")
    lines.map(lambda line: {body}, schema="n bigint").send_to(app.output_stream("out", system="log", partitions=1))
"""
WARNED = (
    "The state (version {}) was written by the run {} of {}:app, and {}:app continues from it. Unless the one has "
    "become the other, give one of them another name, an app_id=, or a root of its own."
)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Here:
    modules = ChangingModules(tmp_path, monkeypatch)
    for name, body in (("first", "line"), ("second", "dict(n=0)")):
        modules.write(name, APPLICATION.format(body=body))
        modules.write(function_module("numbered", body), APPLICATION.format(body=body))
    return Here(tmp_path / "root")


def run(here: Here, module: str, run_id: str) -> RunPlan:
    here.log.append("lines", pa.table({"n": pa.array([1, 2], pa.int64())}), partitions=1)
    return here.whole(f"{module}:app", run_id)


def test_the_plan_warns_of_a_state_that_another_module_has_written(here: Here) -> None:
    assert run(here, "first", "run-1").plan.warnings == ()
    assert run(here, "first", "run-2").plan.warnings == ()
    assert run(here, "second", "run-3").plan.warnings == (WARNED.format(2, "run-2", "first", "second"),)
    assert run(here, "second", "run-4").plan.warnings == ()
    assert here.plan("first:app", "fresh", state_from="fresh").plan.warnings == ()


def test_the_plan_warns_of_a_state_of_another_module_that_a_reset_has_brought_back(here: Here) -> None:
    run(here, "first", "run-1")
    run(here, "second", "run-2")
    files = here.log.filesystem
    reset(files, StateHistory("numbering", "1"), 1)
    assert run(here, "second", "run-3").plan.warnings == (WARNED.format(3, "run-1", "first", "second"),)


def test_no_plan_warns_of_a_state_that_the_same_function_of_a_dag_file_has_written(here: Here) -> None:
    run(here, function_module("numbered", "line"), "run-1")
    assert run(here, function_module("numbered", "dict(n=0)"), "run-2").plan.warnings == ()

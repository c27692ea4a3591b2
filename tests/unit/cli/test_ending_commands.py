"""Runs that go on come to an end by a word from the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from airflow_samza import stream_application
from airflow_samza.cli.app import app
from airflow_samza.cli.run_command import parse_length
from airflow_samza.errors import ConfigError
from airflow_samza.planner.planner import ExecutionPlanner
from airflow_samza.runs.records.folders import RunFolder, write_once
from airflow_samza.runs.records.run_plan import BoundStream, RunPlan
from airflow_samza.runs.stages.run_ends import is_ending, set_deadline
from airflow_samza.runs.stages.stage_runners import Claim, RunnerFolder
from airflow_samza.systems.filesystems.local import LocalFilesystem
from airflow_samza.systems.system import StreamSpec


@stream_application("views")
def views(app: Any) -> None:
    lines = app.input_stream("page-views", system="log", schema="member bigint", partitions=2, bounded=False)
    lines.partition_by("member", id="by-member").send_to(app.output_stream("out", system="log", partitions=2))


def plan_a_run(root: Path, run_id: str, mode: str) -> None:
    files = LocalFilesystem(root)
    plan = ExecutionPlanner({}, {"page-views": 2, "out": 2}).plan(views.spec({}))
    streams = {s.stream_id: BoundStream(s.stream_id, s.role, "log", StreamSpec(s.stream_id)) for s in plan.streams}
    run = RunPlan("views", "1", "tests:views", run_id, 1, plan, streams, mode=mode)
    write_once(files, RunFolder("views", run_id).plan(1), run)
    write_once(files, RunnerFolder(RunFolder("views", run_id), "key", 1).claim, Claim(claimed_at=1.0))


def ask(root: Path, *words: str) -> Any:
    return CliRunner().invoke(app, [*words, "--root", str(root)])


@pytest.mark.parametrize(
    ("word", "final", "says"), [("drain", True, "what has arrived is processed"), ("stop", False, "keeps its state")]
)
def test_leaves_the_request_for_the_stages(tmp_path: Path, word: str, final: bool, says: str) -> None:
    plan_a_run(tmp_path, "run-1", "continuous")
    files, folder = LocalFilesystem(tmp_path), RunFolder("views", "run-1")
    assert is_ending(files, folder, 1) is None
    said = ask(tmp_path, word, "views", "run-1")
    assert said.exit_code == 0, said.output
    assert says in said.output
    assert is_ending(files, folder, 1) is final
    assert is_ending(files, folder, 2) is None  # planned anew, the run goes on
    assert ask(tmp_path, word, "run-1").exit_code == 0  # asking again changes nothing


def test_a_stop_comes_before_a_drain(tmp_path: Path) -> None:
    plan_a_run(tmp_path, "run-1", "continuous")
    ask(tmp_path, "drain", "run-1")
    ask(tmp_path, "stop", "run-1")
    assert is_ending(LocalFilesystem(tmp_path), RunFolder("views", "run-1"), 1) is False


def test_a_deadline_ends_a_run_when_it_is_reached(tmp_path: Path) -> None:
    files, folder = LocalFilesystem(tmp_path), RunFolder("views", "run-1")
    set_deadline(files, folder, 1, at=1000.0)
    assert is_ending(files, folder, 1, now=999.0) is None
    assert is_ending(files, folder, 1, now=1000.0) is False


def test_a_staged_run_is_rejected(tmp_path: Path) -> None:
    plan_a_run(tmp_path, "run-1", "staged")
    said = ask(tmp_path, "drain", "run-1")
    assert said.exit_code == 2
    assert "is staged, and ends by itself" in said.output


def test_a_length_of_time_is_only_for_runs_that_go_on() -> None:
    assert parse_length("10 minutes", "continuous") == 600.0
    with pytest.raises(ConfigError, match="a staged run ends by itself"):
        parse_length("10 minutes", "staged")

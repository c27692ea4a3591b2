"""Runs on record, logs of their runners, and an end to their work, by the command line."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import airflow_samza
from airflow_samza import stream_application
from airflow_samza.cli.app import app
from airflow_samza.cli.run_command import parse_interval
from airflow_samza.planner.planner import ExecutionPlanner
from airflow_samza.runs.progress.run_list import note_origin
from airflow_samza.runs.records.folders import RunFolder, write_once
from airflow_samza.runs.records.liveness import identity
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import BoundStream, RunPlan
from airflow_samza.runs.stages.run_ends import RunEnd
from airflow_samza.runs.stages.stage_runners import Claim, RunnerFolder, RunnerPlace, StageRequest
from airflow_samza.systems.filesystems.local import LocalFilesystem
from airflow_samza.systems.system import StreamSpec


@stream_application("views")
def views(app: Any) -> None:
    app.input_stream("page-views", system="log", schema="member bigint", partitions=2).partition_by(
        "member", id="by-member"
    ).send_to(app.output_stream("out", system="log", partitions=2))


class Root:
    """A root with runs as records have them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.files = folder, LocalFilesystem(folder)

    def plan(self, run_id: str, at: float, mode: str = "staged", interval: tuple[str, str] | None = None) -> RunPlan:
        plan = ExecutionPlanner({}, {"page-views": 2, "out": 2}).plan(views.spec({}))
        streams = {s.stream_id: BoundStream(s.stream_id, s.role, "log", StreamSpec(s.stream_id)) for s in plan.streams}
        run = RunPlan("views", "1", "tests:views", run_id, 1, plan, streams, mode=mode, interval=interval)
        write_once(self.files, RunFolder("views", run_id).plan(1), run)
        write_once(self.files, self.runner(run_id).claim, Claim(claimed_at=at, host="worker-7"))
        return run

    def runner(self, run_id: str, number: int = 1) -> RunnerFolder:
        return RunnerFolder(RunFolder("views", run_id), "key", number)

    def submit(self, run_id: str, stage_id: str) -> Any:
        """Submit a stage to a runner that lives: this process."""
        alive = RunnerFolder(RunFolder("views", run_id), "alive", 1)
        write_once(self.files, alive.claim, Claim(**identity(), claimed_at=time.time()))
        folder = RunFolder("views", run_id).stage(stage_id, Generation(1, 1))
        write_once(
            self.files, folder.attempt(1, "request"), StageRequest(stage_id, "1.1", 1, runner=RunnerPlace("alive", 1))
        )
        return folder

    def close(self, run_id: str, succeeded: bool) -> None:
        write_once(self.files, RunFolder("views", run_id).closed, RunEnd(succeeded, 9.0))

    def ask(self, *words: str) -> Any:
        return CliRunner().invoke(app, [*words, "--root", str(self.folder)])


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path)


def test_runs_are_listed_newest_first_with_their_ends_and_where_they_come_from(root: Root) -> None:
    root.plan("one", 1000.0)
    root.plan("two", 2000.0, mode="pipelined")
    root.plan("three", 3000.0)
    root.close("one", True)
    root.close("three", False)
    note_origin(root.files, RunFolder("views", "two"), {"dag_id": "views_dag", "run_id": "manual", "task_id": "plan"})
    lines = root.ask("runs", "list", "--json").output.splitlines()
    found = {facts["run_id"]: facts for facts in map(json.loads, lines)}
    assert {name: facts["state"] for name, facts in found.items()} == {
        "one": "succeeded",
        "two": "running",
        "three": "failed",
    }
    assert (found["two"]["dag_id"], found["two"]["dag_run"], found["two"]["mode"]) == (
        "views_dag",
        "manual",
        "pipelined",
    )
    assert found["three"]["at"] == "1970-01-01T00:50:00Z"
    assert [json.loads(line)["run_id"] for line in lines if json.loads(line)["dag_id"] is None] == ["three", "one"]


def test_the_list_of_runs_has_data_intervals_as_the_option_takes_them(root: Root) -> None:
    root.plan("hour", 1000.0, interval=("2026-01-01T05:00:00+00:00", "2026-01-01T06:00:30+00:00"))
    root.plan("none", 2000.0)
    none, hour = (json.loads(line)["interval"] for line in root.ask("runs", "list", "--json").output.splitlines())
    assert (none, hour) == (None, ["2026-01-01T05:00:00+00:00", "2026-01-01T06:00:30+00:00"])
    heading, *rows = root.ask("runs", "list").stdout.splitlines()
    place = heading.index("DATA INTERVAL")
    assert [row[place:].split("  ")[0] for row in rows] == ["", "2026-01-01T05:00/2026-01-01T06:00:30"]
    assert str(parse_interval(rows[1][place:].split()[0])) == f"[{hour[0]}, {hour[1]})"


def test_the_list_of_runs_is_for_people_by_default_and_says_what_it_leaves_out(root: Root) -> None:
    for number in range(3):
        root.plan(f"run-{number}", 1000.0 + number)
    said = root.ask("runs", "list", "views", "-n", "2")
    assert [line.split()[:3] for line in said.stdout.splitlines()] == [
        ["APPLICATION", "RUN", "STATE"],
        ["views", "run-2", "running"],
        ["views", "run-1", "running"],
    ]
    assert "Older runs are left out" in said.stderr
    assert len(root.ask("runs", "list", "-n", "0").stdout.splitlines()) == 4
    root.close("run-2", True)
    assert "run-2" not in root.ask("runs", "list", "--running").stdout


def test_a_list_without_runs_names_what_was_asked_for_and_the_root(root: Root) -> None:
    assert root.ask("runs", "list").stdout.strip() == f"There are no runs under {root.folder}."
    root.plan("run-0", 1000.0)
    assert root.ask("runs", "list", "clicks").stdout.strip() == f"There are no runs of 'clicks' under {root.folder}."
    root.close("run-0", True)
    found = root.ask("runs", "list", "views", "--running").stdout.strip()
    assert found == f"There are no running runs of 'views' under {root.folder}."


def test_logs_print_the_last_lines_of_each_runner_of_a_run(root: Root) -> None:
    root.plan("one", 1000.0)
    write_once(root.files, root.runner("one", 2).claim, Claim(claimed_at=5.0, host="worker-8"))
    root.files.put(root.runner("one").log, b"starting\nFrozen\n")
    root.files.put(root.runner("one", 2).log, b"starting\n\xff\nready\n")
    said = root.ask("logs", "views", "one", "-n", "1")
    assert said.stdout.splitlines() == ["Frozen", "ready"]
    assert ["worker-7" in line or "worker-8" in line for line in said.stderr.splitlines()] == [True, True]
    assert root.ask("logs", "one", "-n", "0").stdout.splitlines()[0] == "starting"


def test_rejects_logs_of_a_run_that_has_none(root: Root) -> None:
    root.plan("one", 1000.0)
    said = root.ask("logs", "one")
    assert said.exit_code == 2
    assert "There is no log of the run 'one' of 'views'" in said.stderr


def test_cancel_asks_for_the_end_of_stages_that_are_at_work_and_of_no_other(root: Root) -> None:
    root.plan("one", 1000.0)
    other = root.plan("two", 2000.0)
    at_work = root.submit("one", "page-views")
    beside = root.submit(other.run_id, "page-views")
    said = root.ask("cancel", "views", "one")
    assert said.exit_code == 0, said.output
    assert "Stage page-views (partition-by-member) of run one is cancelled" in said.stdout
    assert "Stage by-member" not in said.stdout
    assert root.files.exists(at_work.attempt(1, "cancel"))
    assert not root.files.exists(beside.attempt(1, "cancel"))


def test_cancel_takes_one_stage_and_rejects_one_that_the_run_does_not_have(root: Root) -> None:
    root.plan("one", 1000.0)
    at_work = root.submit("one", "page-views")
    assert "Nothing of run one" in root.ask("cancel", "one", "--stage", "by-member").stdout
    assert not root.files.exists(at_work.attempt(1, "cancel"))
    assert root.ask("cancel", "one", "--stage", "by-mmber").exit_code == 2


def test_version_is_an_option_too(root: Root) -> None:
    said = CliRunner().invoke(app, ["--version"])
    assert (said.exit_code, said.stdout.strip()) == (0, f"airflow-samza {airflow_samza.__version__}")
    assert said.stdout.strip() in CliRunner().invoke(app, ["version"]).stdout


def test_a_shells_completion_can_be_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    said = CliRunner().invoke(app, ["--show-completion", "bash"], prog_name="airflow-samza")
    assert "_AIRFLOW_SAMZA_COMPLETE" in said.stdout


def test_the_root_is_found_by_a_connection_of_airflow(
    root: Root, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root.plan("one", 1000.0)
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    connection = {"conn_type": "samza", "extra": {"root": str(root.folder)}}
    monkeypatch.setenv("AIRFLOW_CONN_SAMZA_EU", json.dumps(connection))
    said = CliRunner().invoke(app, ["runs", "list", "--json", "--conn-id", "samza_eu"])
    assert json.loads(said.stdout)["run_id"] == "one"
    assert CliRunner().invoke(app, ["status", "one", "--json", "--conn-id", "samza_eu"]).exit_code == 0
    twice = root.ask("runs", "list", "--conn-id", "samza_eu")
    assert twice.exit_code == 2
    assert "--conn-id samza_eu and --root" in twice.stderr


def test_the_file_of_environments_is_named_by_config_file(root: Root, tmp_path: Path) -> None:
    root.plan("one", 1000.0)
    file = tmp_path / "other.toml"
    file.write_text(f'[env.dev]\nroot = "{root.folder}"\n')
    for option in ("--config-file", "--environments"):
        said = CliRunner().invoke(app, ["runs", "list", "--json", option, str(file)])
        assert json.loads(said.stdout)["run_id"] == "one"

"""Runs on record, logs of their runners, and an end to their work, by the command line."""

from __future__ import annotations

import dataclasses
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
from airflow_samza.errors import ConfigError, StageFailed
from airflow_samza.planner.planner import ExecutionPlanner
from airflow_samza.runs.progress.run_list import note_not_planned, note_origin
from airflow_samza.runs.records.folders import RunFolder, write_once
from airflow_samza.runs.records.liveness import identity
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import BoundStream, RunPlan
from airflow_samza.runs.stages.run_ends import RunEnd
from airflow_samza.runs.stages.stage_runners import (
    DID_NOT_START,
    Claim,
    RunnerEnd,
    RunnerFolder,
    RunnerPlace,
    StageRequest,
)
from airflow_samza.runs.stages.stage_state import CANCELLED, FAILED, StatusRecord
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


def test_logs_and_status_end_with_why_a_stage_has_failed_and_what_to_do(root: Root) -> None:
    root.plan("one", 1000.0)
    error = StageFailed("There is no column 'membr'.", hint="Clear the stage.")
    folder = root.submit("one", "page-views")
    write_once(root.files, folder.attempt(1, "status"), StatusRecord(FAILED, error.to_dict()))
    root.files.put(root.runner("one").log, b"starting\n")
    why = [
        "  Error: There is no column 'membr'.",
        "  Hint: Run it again with --again.",
        f"  More: {error.entry}",
        "  Next: airflow-samza run tests:views --run-id one --again (in Airflow: clear its plan)",
    ]
    stage = "Stage page-views (partition-by-member) has failed."
    assert root.ask("logs", "one").stdout.splitlines() == ["starting", stage, *why]
    assert root.ask("logs", "one", "--errors").stdout.splitlines() == [stage, *why]
    assert root.ask("status", "one").stdout.splitlines()[2:6] == why
    (found, _) = json.loads(root.ask("status", "one", "--json").stdout)["stages"]
    assert found["error"]["sentence"] == error.sentence


def test_logs_end_with_the_reason_for_which_other_stages_were_cancelled(root: Root) -> None:
    root.plan("one", 1000.0)
    for stage_id, status in (
        ("page-views", StatusRecord(FAILED, StageFailed("It broke.").to_dict())),
        ("by-member", StatusRecord(CANCELLED)),
    ):
        write_once(root.files, root.submit("one", stage_id).attempt(1, "status"), status)
    said = root.ask("logs", "one").stdout.splitlines()
    assert [line for line in said if "Error" in line] == [
        "  Error: The stage by-member was cancelled.",
        "  Error: It broke.",
    ]
    assert said[-1] == "  Next: airflow-samza run tests:views --run-id one (in Airflow: clear its failed tasks)"


def test_the_end_of_a_runner_that_did_not_start_is_that_of_the_first_stage_that_waits_for_it(root: Root) -> None:
    root.plan("one", 1000.0)
    root.files.put(root.runner("one").log, b"no Java\n")
    error = StageFailed("There is no Java.", hint="Install Java 17.")
    write_once(root.files, root.runner("one").closed, RunnerEnd(DID_NOT_START, 5.0, error.to_dict()))
    said = root.ask("logs", "one").stdout.splitlines()
    assert said[:4] == [
        "no Java",
        "Stage page-views (partition-by-member) has failed.",
        "  Error: There is no Java.",
        "  Hint: Install Java 17.",
    ]


def test_logs_say_that_no_stage_has_failed(root: Root) -> None:
    root.plan("one", 1000.0)
    assert root.ask("logs", "one", "--errors").stdout == "No stage of run one of views has failed.\n"


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


def test_logs_and_status_of_a_run_that_could_not_be_planned_say_why(root: Root) -> None:
    root.plan("older", 1000.0)
    error = ConfigError("There is no folder /data/views.", hint="Clear the plan task.", key="path", value="/data")
    note_not_planned(root.files, RunFolder("views", "one"), "tests:views", error)
    why = [
        "Run one of views could not be planned.",
        "  Error: There is no folder /data/views.",
        "  Hint: Run it again with --again.",
        f"  More: {error.entry}",
        "  Next: airflow-samza run tests:views --run-id one (in Airflow: clear its plan with its downstream)",
    ]
    for asked in ([], ["views"], ["one"], ["views", "one"]):
        assert root.ask("logs", *asked).stdout.splitlines() == why, asked
        assert root.ask("status", *asked).stdout.splitlines() == why, asked
    assert json.loads(root.ask("status", "one", "--json").stdout)["error"]["sentence"] == error.sentence
    assert "could not be planned" not in root.ask("status", "older").stdout


def test_the_list_of_runs_has_those_that_could_not_be_planned(root: Root) -> None:
    root.plan("older", 1000.0)
    folder, error = RunFolder("views", "one"), ConfigError("There is no folder /data.", hint="Look.", key="a", value=1)
    note_not_planned(root.files, folder, "t:views", error, {"dag_id": "ours", "run_id": "at night", "task_id": "plan"})
    _, first, second = root.ask("runs", "list").stdout.splitlines()
    assert [first.split()[:4], second.split()[:3]] == [
        ["views", "one", "plan", "failed"],
        ["views", "older", "running"],
    ]
    assert first.endswith("ours  at night")
    found = [json.loads(line) for line in root.ask("runs", "list", "views", "--json").stdout.splitlines()]
    assert [(run["run_id"], run["state"], run["error"]) for run in found] == [
        ("one", "plan failed", "There is no folder /data."),
        ("older", "running", None),
    ]
    assert "one" not in root.ask("runs", "list", "--running").stdout
    note_not_planned(root.files, RunFolder("views", "older"), "t:views", error)
    states = [json.loads(line)["state"] for line in root.ask("runs", "list", "--json").stdout.splitlines()]
    assert states == ["plan failed", "plan failed"]


def test_logs_and_status_end_with_why_a_run_could_not_be_planned_anew_until_it_is(root: Root) -> None:
    root.plan("one", 1000.0)
    root.files.put(root.runner("one").log, b"starting\n")
    note_not_planned(root.files, RunFolder("views", "one"), "tests:views", ConfigError("No.", key="a", value=1))
    last = "  Next: airflow-samza run tests:views --run-id one --again (in Airflow: clear its plan with its downstream)"
    said = root.ask("logs", "one").stdout.splitlines()
    assert (said[0], said[-1]) == ("starting", last)
    assert root.ask("status", "one").stdout.splitlines()[-1] == last
    run = root.plan("two", 1001.0)
    write_once(root.files, RunFolder("views", "one").plan(2), dataclasses.replace(run, run_id="one", generation=2))
    assert root.ask("logs", "one").stdout.splitlines() == ["starting"]

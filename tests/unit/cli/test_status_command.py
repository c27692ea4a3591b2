"""Choice of a run, and the view of it; the figures themselves are tested with ``runs.stage_progress``."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from airflow_samza import stream_application
from airflow_samza.cli.app import app
from airflow_samza.cli.status_command import watched
from airflow_samza.errors import StorageUnavailable
from airflow_samza.launch.warm import places
from airflow_samza.planner.planner import ExecutionPlanner
from airflow_samza.private_folder import private_folder
from airflow_samza.runs.progress.progress import ProgressReport
from airflow_samza.runs.records.epoch_records import InputIntent, Intent, Manifest, Staged, commit
from airflow_samza.runs.records.folders import RunFolder, write_once
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import BoundStream, RunPlan
from airflow_samza.runs.records.stage_result import InputResult, OutputResult, StageResult
from airflow_samza.runs.stages.run_ends import RunEnd
from airflow_samza.runs.stages.stage_runners import Claim, RunnerFolder
from airflow_samza.systems.filesystems.local import LocalFilesystem
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import StreamSpec


@stream_application("views")
def views(app: Any) -> None:
    app.input_stream("page-views", system="log", schema="member bigint", partitions=2).partition_by(
        "member", id="by-member"
    ).send_to(app.output_stream("out", system="log", partitions=2))


def plan_a_run(root: Path, run_id: str, at: float, application: str = "views") -> RunPlan:
    files = LocalFilesystem(root)
    plan = ExecutionPlanner({}, {"page-views": 2, "out": 2}).plan(views.spec({}))
    streams = {s.stream_id: BoundStream(s.stream_id, s.role, "log", StreamSpec(s.stream_id)) for s in plan.streams}
    systems: dict[str, Any] = {"log": {"kind": "log", "options": {}}}
    run = RunPlan(application, "1", "tests:views", run_id, 1, plan, streams, systems=systems)
    folder = RunFolder(application, run_id)
    write_once(files, folder.plan(1), run)
    write_once(files, RunnerFolder(folder, "key", 1).claim, Claim(claimed_at=at))
    return run


def finish_first_stage(root: Path, run: RunPlan) -> None:
    files = LocalFilesystem(root)
    folder = RunFolder(run.application, run.run_id).stage("page-views", Generation(1, 1))
    intent = Intent(
        "page-views",
        "1.1",
        0,
        2,
        {"page-views": InputIntent("page-views", {})},
        {"by-member": "by-member"},
        time.time() - 2,
    )
    write_once(files, folder.intent(0), intent)
    staged = {"by-member": Staged({}, 90)}
    manifests = [Manifest(task, 0, "a", 1.0, {"page-views": {"messages": 100}}, staged) for task in (0, 1)]
    for manifest in manifests:
        write_once(files, folder.manifest(0, manifest.task), manifest)
    commit(files, folder, intent, manifests)
    read = InputResult("page-views", "log", "page-views", 2, 200, 2, 800)
    sent = OutputResult("by-member", "log", "by-member", 2, 180, 4, 700, own=True)
    write_once(
        files, folder.result, StageResult("views", run.run_id, "page-views", "1.1", 2, 4.0, 2.0, (read,), (sent,))
    )


def ask(root: Path, *words: str) -> Any:
    return CliRunner().invoke(app, ["status", *words, "--root", str(root)])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    plan_a_run(tmp_path, "older", 100.0)
    finish_first_stage(tmp_path, plan_a_run(tmp_path, "newer", 200.0))
    plan_a_run(tmp_path, "elsewhere", 50.0, "clicks")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ((), "Run newer of views"),
        (("views",), "Run newer of views"),
        (("clicks",), "Run elsewhere of clicks"),
        (("older",), "Run older of views"),
        (("views", "older"), "Run older of views"),
    ],
)
def test_a_run_is_named_by_its_application_by_itself_or_by_both(root: Path, words: tuple[str, ...], meant: str) -> None:
    assert ask(root, *words).stdout.startswith(meant)


def test_every_stage_is_shown(root: Path) -> None:
    lines = ask(root).stdout.splitlines()
    assert lines[0] == "Run newer of views (staged, plan 1): running, 1 of 2 stages succeeded"
    assert lines[1] == (
        "Stage page-views (partition-by-member): succeeded after 4.0 s; read 200 messages (50/s), sent 180 (45/s)"
    )
    assert lines[2] == "Stage by-member (write-out): not started"


def test_a_run_has_the_state_that_lists_of_runs_show(root: Path) -> None:
    write_once(LocalFilesystem(root), RunFolder("views", "newer").closed, RunEnd(False, 300.0))
    assert ask(root).stdout.splitlines()[0] == "Run newer of views (staged, plan 1): failed, 1 of 2 stages succeeded"
    assert json.loads(ask(root, "--format", "json").stdout)["state"] == "failed"
    listed = CliRunner().invoke(app, ["runs", "list", "views", "--json", "--root", str(root)]).stdout.splitlines()
    assert [json.loads(line)["state"] for line in listed] == ["failed", "running"]


def test_programs_get_json(root: Path) -> None:
    found = json.loads(ask(root, "--format", "json").stdout)
    assert (found["run_id"], [stage["state"] for stage in found["stages"]]) == ("newer", ["succeeded", "not started"])
    assert found["stages"][0]["read"] == 200


def test_a_run_that_is_not_there_names_the_newest(root: Path) -> None:
    done = ask(root, "views", "oldest")
    assert done.exit_code == 2
    assert "no record of a run 'oldest' of 'views'" in done.stderr
    assert "newer, older" in done.stderr


def test_two_runs_of_one_name_ask_for_the_application(root: Path) -> None:
    plan_a_run(root, "older", 1.0, "clicks")
    done = ask(root, "older")
    assert done.exit_code == 2
    assert "one of clicks, views" in done.stderr


def test_a_system_that_does_not_answer_hides_its_lag_alone(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def silent(self: LogSystem, streams: Sequence[StreamSpec]) -> Any:
        asked.extend(stream.name for stream in streams)
        raise StorageUnavailable("The brokers are away.")

    for stage, reads in (("page-views", "page-views"), ("by-member", "by-member")):
        folder = RunFolder("views", "older").stage(stage, Generation(1, 1))
        intent = Intent(stage, "1.1", 0, 2, {reads: InputIntent(reads, {"offsets": [(0, 4), (0, 5)]})}, {}, whole=False)
        write_once(LocalFilesystem(root), folder.intent(0), intent)
    monkeypatch.setattr(LogSystem, "metadata", silent)
    sentence = "The lag behind streams of the system 'log' is not known at present: The brokers are away."
    shown = ask(root, "views", "older")
    assert (shown.exit_code, asked) == (0, ["by-member"])
    assert "  by-member  2 partitions, end-of-stream 0 of 4" in shown.stdout
    assert shown.stdout.count(sentence) == 1
    for_programs = ask(root, "views", "older", "--json")
    assert [stage["lag"] for stage in json.loads(for_programs.stdout)["stages"]][1:] == [None]
    assert f"Note: {sentence}" in for_programs.stderr


def test_watching_ends_with_the_run() -> None:
    states = iter(["not started", "running", "succeeded"])
    status: Any = SimpleNamespace(state="running", reports=lambda: [ProgressReport("a", "1.1", next(states), 0.0)])
    pauses: list[float] = []
    assert [found[0].state for found in watched(status, 2.0, pauses.append)] == ["not started", "running", "succeeded"]
    assert pauses == [2.0, 2.0]


def test_watching_ends_with_a_run_that_has_failed_before_its_last_stage_began(root: Path) -> None:
    write_once(LocalFilesystem(root), RunFolder("views", "newer").closed, RunEnd(False, 300.0))
    shown = ask(root, "views", "newer", "--watch", "0.01")
    assert (shown.exit_code, shown.stdout.count("Stage by-member (write-out): not started")) == (0, 1)


def test_a_status_names_the_warm_runner_that_has_served_the_run_and_what_became_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = plan_a_run(tmp_path, "warm", 100.0)
    claim = RunnerFolder(RunFolder(run.application, run.run_id), "key", 2).claim
    write_once(LocalFilesystem(tmp_path), claim, Claim(claimed_at=101.0, warm="0123-4567, run 3, keeper 89"))
    served = "served by the warm runner 0123-4567, run 3, keeper 89 (it was there already"
    assert f"{served})" in ask(tmp_path, "warm").stdout
    monkeypatch.setattr(places, "scratch_folder", lambda name: private_folder(str(tmp_path / name)))
    places.note_end("0123-4567", "it was idle for 600 s; 3 runs")
    places.note_end("0123-8901", "it was asked to")
    assert f"{served}, and it has ended: it was idle for 600 s; 3 runs)" in ask(tmp_path, "warm").stdout
    private_folder(str(tmp_path / "warm" / "0123-4567"))
    assert f"{served}, and it is there for the next run)" in ask(tmp_path, "warm").stdout

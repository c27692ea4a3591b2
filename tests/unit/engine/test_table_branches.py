"""Write, audit, publish over whole runs: by the runtime, the command line and an operator, and by two at once."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import Table
from typer.testing import CliRunner

from airflow_samza.cli.app import app
from airflow_samza.errors import StageError, TopicError
from airflow_samza.runs.records.names import safe
from tests.support import slot_apps
from tests.support.iceberg_lake import catalog_at, system_at
from tests.support.slot_runs import DELTA, TABLE, Outputs, notes
from tests.support.table_outputs import output_stream

VERSIONS = {TABLE: "snapshot", DELTA: "version"}
"""Words for versions of the table that an application writes."""

KINDS = {TABLE: ("tables", "iceberg"), DELTA: ("deltas", "delta")}
"""The systems of these tables, and their kinds."""


@pytest.fixture
def outputs(tmp_path: Path) -> Iterator[Outputs]:
    slot_apps.OUTPUT["branch"] = "audit/{run_id}"
    yield Outputs(tmp_path)
    slot_apps.OUTPUT.clear()


@pytest.fixture(params=[TABLE, DELTA], ids=["iceberg", "delta"])
def application(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def name_of(application: str) -> str:
    return application.rpartition(":")[2].replace("_", "-")


def words(outputs: Outputs, application: str, *more: str) -> list[str]:
    """Return the words of the command line that publishes Monday's run."""
    system, kind = KINDS[application]
    folder = outputs.lake.parent / system
    found = ["publish", name_of(application), "monday", *more, "--root", str(outputs.here.root)]
    return [*found, "--system", f"{system}={kind}:{folder}", "--system", f"lake=files:{outputs.lake}"]


def tables(outputs: Outputs) -> str:
    return str(outputs.lake.parent / "tables")


def data_files(outputs: Outputs) -> set[str]:
    return {path.name for path in Path(tables(outputs)).rglob("*.parquet")}


def table_of_run(outputs: Outputs) -> Table:
    with catalog_at(tables(outputs)) as catalog:
        return catalog.load_table("web.out")


def test_a_run_is_published_when_it_has_succeeded(outputs: Outputs, application: str) -> None:
    outputs.day(1, 1, 2)
    plan = outputs.plan(application, "monday", 1)
    assert "commits to the branch 'audit/monday', which nobody sees until it is published" in notes(plan)
    with pytest.raises(StageError, match="cannot be published: its stage 'rows' has not succeeded"):
        outputs.here.runtime.publish(plan)
    outputs.here.stages(plan)
    assert outputs.rows(application) == []
    (published,) = outputs.here.runtime.publish(plan)
    version = f"{VERSIONS[application]} {published.told['version']}"
    assert str(published) == f"The branch 'audit/monday' of the table web.out is published ({version})."
    assert outputs.rows(application) == [1, 2]
    assert outputs.here.runtime.publish(plan)[0].told["version"] is None


def test_a_cleared_run_is_published_anew(outputs: Outputs, application: str) -> None:
    outputs.day(1, 1)
    first = outputs.run(application, "monday", 1)
    outputs.here.runtime.publish(first)
    outputs.here.stages(first, generation=2)
    assert outputs.rows(application) == [1]
    assert outputs.here.runtime.publish(first)[0].told["version"] is not None
    assert outputs.rows(application) == [1]
    outputs.day(1, 6)
    again = outputs.run(application, "monday", 1, generation=2)
    outputs.here.runtime.publish(again)
    assert outputs.rows(application) == [6]


def test_the_command_line_publishes(outputs: Outputs, application: str) -> None:
    outputs.day(1, 1)
    outputs.run(application, "monday", 1)
    done = CliRunner().invoke(app, words(outputs, application))
    assert done.exit_code == 0, done.output
    assert "The branch 'audit/monday' of the table web.out is published" in done.output
    assert outputs.rows(application) == [1]
    again = CliRunner().invoke(app, words(outputs, application, "--json"))
    assert json.loads(again.output) == {"table": "web.out", "branch": "audit/monday", "version": None}


def test_the_command_line_drops_the_branch_of_a_run_that_is_given_up(
    outputs: Outputs, application: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs.day(1, 1)
    plan = outputs.run(application, "monday", 1)
    with monkeypatch.context() as patched:
        patched.setattr("airflow_samza.runs.stages.stage_runners.is_worked_on", lambda *_: True)
        busy = CliRunner().invoke(app, words(outputs, application, "--drop"))
    assert (
        f"A stage runner of the run 'monday' of {name_of(application)!r} lives, and may write what is rejected"
        in busy.output
    )
    done = CliRunner().invoke(app, words(outputs, application, "--drop"))
    assert done.exit_code == 0, done.output
    assert "The branch 'audit/monday' of the table web.out is dropped; readers have seen nothing of it." in done.output
    again = CliRunner().invoke(app, words(outputs, application, "--drop", "--json"))
    assert json.loads(again.output) == {"table": "web.out", "branch": "audit/monday", "was_there": False}
    with pytest.raises(TopicError, match=r"The branch 'audit/monday' of the table web\.out was dropped"):
        outputs.here.runtime.publish(plan)
    outputs.here.stages(plan, generation=2)
    outputs.here.runtime.publish(plan)
    assert outputs.rows(application) == [1]


def test_a_run_without_a_branch_has_nothing_to_publish(outputs: Outputs, application: str) -> None:
    slot_apps.OUTPUT.clear()
    outputs.day(1, 1)
    plan = outputs.run(application, "monday", 1)
    with pytest.raises(StageError, match="keeps no output back: all of it is visible"):
        outputs.here.runtime.publish(plan)


def test_a_cleared_run_has_other_files_when_it_is_published_anew(outputs: Outputs) -> None:
    outputs.day(1, 1)
    first = outputs.run(TABLE, "monday", 1)
    outputs.here.runtime.publish(first)
    former = data_files(outputs)
    outputs.here.stages(first, generation=2)
    outputs.here.runtime.publish(first)
    (new,) = data_files(outputs) - former
    assert new in {Path(task.file.file_path).name for task in table_of_run(outputs).scan().plan_files()}


@pytest.mark.parametrize("run_id", ["monday", "manual__2013-01-01T00:00:00+00:00"])
def test_what_waits_is_audited_by_another_application(outputs: Outputs, run_id: str) -> None:
    outputs.day(1, 1, 2)
    audited = outputs.run(DELTA, run_id, 1)
    slot_apps.OUTPUT.clear()
    plan = outputs.plan("tests.support.slot_apps:auditing", "audit", config={"audited": run_id})
    (note,) = [texts["rows"] for texts in plan.notes.values() if "rows" in texts]
    assert f"reads what the run daily-delta/{safe(run_id)} has waiting for web.out: 1 file, 2 rows" in note
    slot_apps.OUTPUT["branch"] = "audit/{run_id}"
    outputs.here.runtime.publish(audited)  # what is planned is read all the same
    outputs.here.stages(plan)
    assert outputs.rows(path="audited") == [1, 2]


def test_the_branch_of_another_run_is_rejected_by_the_plan(outputs: Outputs) -> None:
    slot_apps.OUTPUT["branch"] = "audit"
    outputs.day(1, 1)
    outputs.run(TABLE, "monday", 1)
    outputs.day(2, 2)
    with pytest.raises(TopicError, match="'audit' already, which the run 'daily-table/monday' has begun"):
        outputs.plan(TABLE, "tuesday", 2)


def publish_in_a_process(folder: str, start: Any, answers: Any) -> None:
    start.wait(60)
    spec = output_stream(branch="audit/monday")
    answers.put(system_at(folder).publish_branch(spec, "daily-table/monday", ()))


@pytest.mark.extended
def test_two_processes_publish_one_branch(outputs: Outputs) -> None:
    outputs.day(1, 1, 2)
    outputs.run(TABLE, "monday", 1)
    spawning = multiprocessing.get_context("spawn")
    start, answers = spawning.Event(), spawning.Queue()
    processes = [
        spawning.Process(target=publish_in_a_process, args=(tables(outputs), start, answers)) for _ in range(2)
    ]
    for process in processes:
        process.start()
    start.set()
    versions = [answers.get(timeout=120) for _ in processes]
    for process in processes:
        process.join(60)
    assert sum(version is not None for version in versions) == 1
    assert outputs.rows(TABLE) == [1, 2]

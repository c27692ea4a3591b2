"""Looks at runs: what is shared, for how long, and what is not read again."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_samza.provider.page import looks
from airflow_samza.provider.page.airflow_records import TaskMark
from airflow_samza.provider.page.backfill import HIDDEN_RUN
from airflow_samza.provider.page.looks import OPENED_SECONDS, RUNS_KEPT, SHARED_SECONDS, Looked, Looks
from airflow_samza.provider.page.opened_run import OpenedRun
from airflow_samza.runs.records.folders import RunFolder
from airflow_samza.runs.records.names import Generation
from airflow_samza.systems.filesystems.local import LocalFilesystem
from airflow_samza.systems.filesystems.opening import open_filesystem
from tests.support.page_here import Page


class Watch:
    """Somebody who looks at the last planned run of a page, by a clock that a test sets."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.looks = Looks()
        self.now = 1000.0

    def look(self) -> Looked:
        return self.looks.progress(OpenedRun(self.page.airflow.plans[-1]), dict(self.page.airflow.marks))

    def states(self) -> list[str]:
        return [stage.state for stage in self.look().progress.stages]

    def kept(self) -> int:
        return len(self.looks._runs)


@pytest.fixture
def watch(page: Page, monkeypatch: pytest.MonkeyPatch) -> Watch:
    watch = Watch(page)
    monkeypatch.setattr(looks, "time", SimpleNamespace(monotonic=lambda: watch.now))
    return watch


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that are read under the root."""
    reads: list[str] = []
    as_it_is = LocalFilesystem.read

    def read(self: LocalFilesystem, path: str) -> bytes:
        reads.append(path)
        return as_it_is(self, path)

    monkeypatch.setattr(LocalFilesystem, "read", read)
    return reads


def test_an_answer_serves_everybody_who_asks_within_a_second(watch: Watch) -> None:
    run = watch.page.plan()
    first = watch.look()
    watch.page.here.stages(run, "visits")
    watch.now += SHARED_SECONDS - 0.01
    assert watch.look() is first
    watch.now += 0.02
    assert watch.states() == ["succeeded", "not started"]


def test_a_task_that_has_moved_is_looked_at_at_once(watch: Watch) -> None:
    run = watch.page.plan()
    watch.look()
    watch.page.here.stages(run, "visits")
    watch.page.airflow.marks["flow.visits"] = TaskMark("success", 1, 0, 1.0)
    assert watch.states() == ["succeeded", "not started"]


def test_an_unchanged_answer_keeps_its_mark_and_a_changed_one_gets_another(watch: Watch) -> None:
    run = watch.page.plan()
    first = watch.look()
    watch.now += 2 * SHARED_SECONDS
    assert watch.look().etag == first.etag
    watch.page.here.stages(run, "visits")
    watch.now += 2 * SHARED_SECONDS
    assert watch.look().etag != first.etag


@pytest.mark.parametrize("state", [None, "scheduled", "queued", "upstream_failed", "skipped", "removed"])
def test_a_stage_whose_task_has_not_begun_is_not_looked_at(watch: Watch, reads: list[str], state: str | None) -> None:
    watch.page.plan()
    watch.page.airflow.marks = {task: TaskMark(state, 0, 0, None) for task in watch.page.airflow.marks}
    assert watch.states() == ["not started"] * 2
    assert not any("/by-country/" in path for path in reads)


def test_a_stage_whose_cleared_task_waits_for_its_turn_is_looked_at(watch: Watch) -> None:
    run = watch.page.plan()
    watch.page.here.stages(run, "visits")
    watch.page.airflow.marks["flow.visits"] = TaskMark(None, 1, 1, None)
    assert watch.states()[0] == "succeeded"


def test_a_stage_whose_task_airflow_does_not_name_is_looked_at(watch: Watch) -> None:
    run = watch.page.plan()
    watch.page.here.stages(run, "visits")
    watch.page.airflow.marks = {}
    assert watch.states() == ["succeeded", "not started"]


def test_a_stage_that_has_ended_is_not_read_again_until_its_task_moves(watch: Watch, reads: list[str]) -> None:
    watch.page.run()
    watch.look()
    reads.clear()
    watch.now += 2 * SHARED_SECONDS
    watch.look()
    assert not any("/stages/" in path for path in reads)
    watch.page.airflow.marks["flow.visits"] = TaskMark("running", 2, 1, 2.0)
    watch.look()
    assert any("/stages/visits/" in path for path in reads)


def test_a_root_is_opened_anew_after_some_minutes_as_its_connection_may_have_changed(watch: Watch) -> None:
    watch.page.plan()
    first, second, third = (OpenedRun(watch.page.airflow.plans[-1]) for _ in range(3))
    assert watch.looks._of(first).opened is first
    watch.now += OPENED_SECONDS - 1
    assert watch.looks._of(second).opened is first
    watch.now += 1
    assert watch.looks._of(third).opened is third


def test_a_run_that_is_planned_anew_is_opened_anew(watch: Watch) -> None:
    watch.page.plan()
    watch.look()
    watch.page.rewrite(planned_at=7.0)
    opened = OpenedRun(watch.page.airflow.plans[-1])
    assert watch.looks._of(opened).opened is opened


def test_a_run_whose_records_are_deleted_is_not_answered_from_memory(watch: Watch) -> None:
    run = watch.page.plan()
    watch.look()
    open_filesystem(str(watch.page.here.root)).delete_tree(RunFolder(run.application, run.run_id).path)
    opened = OpenedRun(watch.page.airflow.plans[-1])
    assert watch.looks._of(opened).opened is opened


def test_runs_are_told_apart_and_those_that_were_looked_at_last_are_kept(watch: Watch) -> None:
    watch.page.plan()
    (planned,) = watch.page.airflow.plans
    opened = [OpenedRun(dataclasses.replace(planned, map_index=number)) for number in range(RUNS_KEPT + 1)]
    for each in opened[:RUNS_KEPT]:
        watch.looks._of(each)
    assert watch.kept() == RUNS_KEPT
    watch.looks._of(opened[0])
    watch.looks._of(opened[RUNS_KEPT])
    assert watch.kept() == RUNS_KEPT
    assert watch.looks._of(OpenedRun(opened[0].planned)).opened is opened[0]
    again = OpenedRun(opened[1].planned)  # the one that nobody has looked at for longest
    assert watch.looks._of(again).opened is again


def test_what_manifests_tell_is_read_once_and_of_so_many_tasks_kept(
    watch: Watch, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = watch.page.run()
    root = watch.page.here.root
    stage = RunFolder(run.application, run.run_id).stage("visits", Generation(1, 1))
    manifests = [stage.manifest(0, task) for task in range(2)]
    records = watch.looks._of(OpenedRun(watch.page.airflow.plans[-1]))
    files = open_filesystem(str(root))
    first = records.read_tasks(files, [*manifests, "none.json"])
    assert [found is not None for found in first] == [True] * len(manifests) + [False]
    reads.clear()
    assert records.read_tasks(files, manifests) == first[:-1]
    assert reads == []
    monkeypatch.setattr(looks, "TASKS_KEPT", 1)
    assert records.read_tasks(files, manifests) == first[:-1]
    assert list(records.tasks) == manifests[-1:]


def test_a_run_that_has_ended_says_the_requests_to_a_root_that_charges_for_them(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looks, "run_requests", lambda files, run: {"put": 3, "get": 7})
    run = watch.page.plan()
    assert watch.look().progress.requests == []
    watch.page.here.stages(run)
    watch.page.here.runtime.close(run)
    watch.now += 2 * SHARED_SECONDS
    counted = watch.look().progress.requests
    assert [(count.name, count.value, count.unit) for count in counted] == [("get", 7.0, ""), ("put", 3.0, "")]


def test_a_run_is_noted_whose_messages_all_have_null_as_their_key(watch: Watch, tmp_path: Path) -> None:
    module = tmp_path / "page_app.py"
    module.write_text(
        module.read_text().replace(
            "found.partition_by", 'found.select("CAST(null AS string) AS country", "n").partition_by'
        )
    )
    run = watch.page.plan()
    assert watch.look().progress.note is None
    watch.page.here.stages(run)
    watch.page.here.runtime.close(run)
    watch.now += 2 * SHARED_SECONDS
    note = watch.look().progress.note
    assert note is not None
    assert re.match(r"All \d+ messages at partition_by by-country of the stage ", note)


# -- state -------------------------------------------------------------------------------------------------------------

CARRYING = """
from airflow_samza import count, stream_application

@stream_application("visits")
def visits(app):
    read = app.input_stream("visits", system="log", schema="country string, email string, n bigint", slice="checkpoint", key="country")
    read.aggregate("country", visits=count(), id="per-country").send_to(app.output_stream("counts", system="log", partitions=2))
"""


@pytest.fixture
def carrying(page: Page, tmp_path: Path, watch: Watch) -> Any:
    (tmp_path / "page_app.py").write_text(CARRYING, encoding="utf-8")
    return watch


def test_a_run_says_the_version_of_the_state_that_it_has_left(carrying: Watch) -> None:
    run = carrying.page.plan()
    assert carrying.look().progress.state_version is None
    carrying.page.here.stages(run)
    carrying.page.here.runtime.close(run)
    carrying.now += 2 * SHARED_SECONDS
    assert carrying.look().progress.state_version == 1


def test_the_versions_of_the_state_name_the_runs_that_left_them_newest_first(carrying: Watch) -> None:
    page = carrying.page
    theirs = page.run(run_id="manual__0", dag_id="theirs")
    run = page.run()
    found = page.get("state")
    assert (found["application"], found["carried"], found["note"], found["lease"]) == ("visits", True, None, None)
    newest, oldest = found["versions"]
    assert (newest["version"], newest["parent"], newest["run"]) == (2, 1, run.run_id)
    assert (oldest["version"], oldest["parent"], oldest["run"]) == (1, None, theirs.run_id)
    assert (newest["reset_to"], newest["offsets"], oldest["offsets"]) == (None, 5, 5)
    page.forbidden = {"theirs"}
    assert [version["run"] for version in page.get("state")["versions"]] == [run.run_id, HIDDEN_RUN]


def test_the_run_that_holds_the_state_is_named_to_those_who_may_read_it(carrying: Watch) -> None:
    page = carrying.page
    page.run()
    theirs = page.plan(run_id="manual__2", dag_id="theirs")
    lease = page.get("state")["lease"]
    assert (lease["run"], lease["fence"]) == (theirs.run_id, 2)
    assert lease["standing"]
    page.forbidden = {"theirs"}
    assert page.get("state")["lease"]["run"] == HIDDEN_RUN

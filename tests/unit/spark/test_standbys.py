"""Standby copies: made on the hosts that would take over, one round at a time, and never in the way of the epochs."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pytest

from airflow_samza import stream_application, task_application
from airflow_samza.engine.placement import Executor, Placement
from airflow_samza.engine.stage_task import StageTask, task_host_files
from airflow_samza.planner.planner import ExecutionPlanner
from airflow_samza.runs.records.epoch_records import Manifest
from airflow_samza.runs.records.folders import StageFolder, write_once
from airflow_samza.spark import standbys as module
from airflow_samza.spark.standbys import Standbys, StandbyTask, placement_of
from airflow_samza.storage.snapshots import Restored, read_snapshot, write_snapshot
from airflow_samza.systems.filesystems.local import LocalFilesystem
from airflow_samza.task.program.stage_program import compile_stage
from tests.spark.apps.samza_spark_apps import tables
from tests.support.waiting import until

FOLDER = StageFolder("runs/app/run/stages/stage/1.1")
ROWS = pa.table({"key": ["nl", "de"], "views": [3, None]})
A, B = Executor("0", "a"), Executor("1", "b")


class Driver:
    """Stands for a session with executors; a round runs here, as the hosts that it goes to."""

    def __init__(self) -> None:
        self.rounds: list[list[str]] = []
        self.fails = False
        self.waits: threading.Event | None = None

    @contextmanager
    def tagged(self, *_: Any, **__: Any) -> Iterator[None]:
        yield

    def cancel(self, tag: str) -> None:
        if self.waits is not None:
            self.waits.set()

    def frame_at(self, spark: Any, locations: Sequence[Sequence[str]]) -> Any:
        self.rounds.append([location for (location,) in locations])
        return self

    def mapInArrow(self, work: StandbyTask, schema: str) -> Any:
        self.work = work
        return self

    def collect(self) -> list[dict[str, int]]:
        if self.waits is not None:
            self.waits.wait(300)
        if self.fails:
            raise RuntimeError("ExecutorLostFailure")
        return [{"bytes": sum(self.work.fetch(task, epoch) for task, epoch in tasks)} for tasks in self.work.tasks]


@pytest.fixture
def files(tmp_path: Path) -> LocalFilesystem:
    return LocalFilesystem(tmp_path / "root")


@pytest.fixture
def standbys(
    files: LocalFilesystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Driver, Standbys]]:
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0.0)
    driver: Any = Driver()
    placement = Placement(2, copies=2)
    placement.update([A, B])
    task = StageTask(files.root, {}, "stage", FOLDER.path, "program", {}, {}, host_dir=str(tmp_path / "host"))
    made = Standbys(driver, Mock(), task, placement, "stage")
    yield driver, made
    made.close()


def left(files: LocalFilesystem, task: int, epoch: int) -> Any:
    """The manifest of a task after an epoch."""
    state = write_snapshot(files, FOLDER.state(epoch, f"{task}"), {"table:t": {"rows": ROWS}})
    manifest = Manifest(task, epoch, "attempt", 0.1, {}, {}, checkpoint={}, state=state, ended=False)
    write_once(files, FOLDER.manifest(epoch, task), manifest)
    return state


def test_each_tasks_state_goes_to_the_other_host(
    standbys: tuple[Driver, Standbys], files: LocalFilesystem, tmp_path: Path
) -> None:
    driver, made = standbys
    states = [left(files, task, 0) for task in range(2)]
    made.after(0, {0: 0, 1: 0})
    wait(made)
    assert driver.rounds == [["executor_a_0", "executor_b_1"]] or driver.rounds == [["executor_b_1", "executor_a_0"]]
    for task, state in enumerate(states):
        restored = Restored()
        read_snapshot(
            files, state, None, task_host_files(str(tmp_path / "host"), files.root, FOLDER.path, task), restored
        )
        assert (restored.host > 0, restored.root) == (True, 0)
    assert made.bytes == sum(state["table:t"]["rows"]["bytes"] for state in states)


def test_what_is_there_is_not_copied_again(standbys: tuple[Driver, Standbys], files: LocalFilesystem) -> None:
    _, made = standbys
    left(files, 0, 0)
    made.after(0, {0: 0})
    wait(made)
    before = made.bytes
    made.after(0, {0: 0})
    wait(made)
    assert made.bytes == before > 0


def test_a_round_at_work_is_not_waited_for_and_one_more_copies_what_came_meanwhile(
    standbys: tuple[Driver, Standbys], files: LocalFilesystem
) -> None:
    driver, made = standbys
    driver.waits = threading.Event()
    left(files, 0, 0)
    made.after(0, {0: 0})
    until(lambda: driver.rounds)
    for epoch in (1, 2, 3):
        left(files, 0, epoch)
        made.after(epoch, {0: epoch})
    assert len(driver.rounds) == 1
    driver.waits.set()
    wait(made)
    assert len(driver.rounds) == 2
    assert driver.work.epoch == 3


def test_an_epoch_in_the_pause_is_copied_when_it_is_over(
    standbys: tuple[Driver, Standbys], files: LocalFilesystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver, made = standbys
    left(files, 0, 0)
    made.after(0, {0: 0})
    wait(made)
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0.2)
    left(files, 0, 1)
    made.after(1, {0: 1})
    wait(made)
    assert driver.work.epoch == 1


def test_closing_ends_the_round_and_begins_no_other(standbys: tuple[Driver, Standbys], files: LocalFilesystem) -> None:
    driver, made = standbys
    driver.waits = threading.Event()
    left(files, 0, 0)
    made.after(0, {0: 0})
    until(lambda: driver.rounds)
    made.after(0, {0: 0})
    made.close()
    assert len(driver.rounds) == 1


def test_a_round_that_fails_or_comes_too_late_harms_nobody(
    standbys: tuple[Driver, Standbys], files: LocalFilesystem
) -> None:
    driver, made = standbys
    made.after(7, {0: 7})  # its manifest is gone already
    wait(made)
    driver.fails = True
    made.after(8, {0: 8})
    wait(made)
    assert made.bytes == 0


def test_without_a_placement_there_is_nothing_to_do(standbys: tuple[Driver, Standbys]) -> None:
    driver, made = standbys
    made._placement = None
    made.after(0, {0: 0})
    assert driver.rounds == []


def wait(made: Standbys) -> None:
    until(lambda: made._thread is None)


@pytest.mark.parametrize(
    ("name", "more", "placed"),
    [
        ("written_and_joined", {}, True),
        ("by_a_task", {}, True),
        ("written_and_joined", {"job.host-affinity.enabled": "false"}, False),
        ("stateless", {}, False),
        ("looked_up_elsewhere", {}, False),
        ("with_nothing_kept", {}, False),
    ],
)
def test_only_tasks_that_keep_something_have_a_place(name: str, more: dict[str, str], placed: bool) -> None:
    application: Any = globals().get(name) or getattr(tables, name)
    spec = application.spec(more)
    plan = ExecutionPlanner(spec.config, {}).plan(spec)
    setup: Any = SimpleNamespace(program=compile_stage(spec, plan, plan.stages[0].stage_id))
    context: Any = SimpleNamespace(attempt=SimpleNamespace(group="stage"))
    driver: Any = SimpleNamespace(knows_executors=True)
    assert (placement_of(driver, context, setup) is not None) is placed


@stream_application("stateless")
def stateless(app: Any) -> None:
    app.input_stream("views", schema="id bigint", partitions=2).where("id > 1").send_to(app.output_stream("out"))


@stream_application("elsewhere")
def looked_up_elsewhere(app: Any) -> None:
    rates = app.remote_table("rates", key="id", schema="id bigint, rate double", reader=lambda key: None)
    rated = app.input_stream("views", schema="id bigint", partitions=2).join(rates, id="rated")
    rated.select("id").send_to(app.remote_table("seen", key="id", writer=lambda key, row: None))


class Counting:
    def process(self, envelope: Any, collector: Any, coordinator: Any) -> None: ...


@task_application("nothing")
def with_nothing_kept(app: Any) -> None:
    app.input_stream("views", schema="id bigint", partitions=2)
    app.task(Counting)

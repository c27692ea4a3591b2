"""Groups of tasks: every task once, large groups first, and what a group leaves out is run by itself."""

from __future__ import annotations

import itertools
import time
import weakref
from collections.abc import Generator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_samza.engine.stage_task import StageTask
from airflow_samza.engine.worker_errors import WorkerError, find_error
from airflow_samza.runs.records.epoch_records import Intent
from airflow_samza.spark import epoch_task, spark_engine
from airflow_samza.spark.epoch_frames import EpochFrames
from airflow_samza.spark.epoch_task import GROUP_SECONDS, EpochTask, in_groups
from airflow_samza.spark.spark_engine import SparkStage

ACTIVE = (3, 5, 8, 9)
INTENT = Intent("stage", "1.1", 0, 10, {}, {}, active=ACTIVE)


@pytest.mark.parametrize(("tasks", "cores"), [(1, 4), (7, 2), (8, 2), (256, 2), (256, 100), (2048, 2), (3000, 1)])
def test_each_task_is_in_one_group_and_no_group_has_more_than_half_of_a_cores_share(tasks: int, cores: int) -> None:
    groups = in_groups(range(tasks), cores)
    assert sorted(itertools.chain(*groups)) == list(range(tasks))
    sizes = [len(group) for group in groups]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] <= max(tasks / (2 * cores), 1)
    assert len(groups) <= 60 * cores


def test_no_more_tasks_than_cores_take_up_are_grouped() -> None:
    assert in_groups(range(7), 2) == [(task,) for task in range(7)]


def test_a_group_has_tasks_from_everywhere() -> None:
    groups = in_groups(range(256), 2)
    for quarter in (range(64), range(64, 128), range(128, 192), range(192, 256)):
        assert 14 <= len(set(groups[0]) & set(quarter)) <= 18


class Sections:
    """Stands for the sections of tasks: each takes as long as it is told, or fails."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds: float = 0.0, failing: int | None = None) -> None:
        self.ran: list[int] = []
        self.now = 100.0
        context = SimpleNamespace(partitionId=lambda: 1, taskAttemptId=lambda: 7)
        monkeypatch.setattr(epoch_task, "task_context", lambda: context)
        monkeypatch.setattr(epoch_task, "TaskSection", self.section)
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr(StageTask, "intent", lambda *_: INTENT)
        self.seconds, self.failing = seconds, failing

    def section(self, stage: StageTask, intent: Intent, place: int, *_: object) -> Any:
        def run(batches: Iterator[Any]) -> Generator[Any, None, bool]:
            if place == self.failing:
                raise ValueError("odd")
            self.ran.append(place)
            self.now += self.seconds
            yield from ()
            return False

        return SimpleNamespace(task=intent.running[place], is_last=True, run=run)


def rows_of(groups: tuple[tuple[int, ...], ...] | None) -> list[int]:
    task = EpochTask(StageTask("/root", {}, "stage", "folder", "program", {}, {}), 0, groups=groups)
    return [batch.column("task")[0].as_py() for batch in task(iter(()))]


def test_a_partition_of_spark_runs_its_group_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    sections = Sections(monkeypatch)
    assert rows_of(((0,), (3, 2))) == [9, 8]
    assert sections.ran == [3, 2]


def test_a_partition_of_spark_without_groups_is_the_task_of_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    Sections(monkeypatch)
    assert rows_of(None) == [5]


def test_a_group_that_takes_long_leaves_the_rest_out(monkeypatch: pytest.MonkeyPatch) -> None:
    Sections(monkeypatch, seconds=0.6 * GROUP_SECONDS)
    assert rows_of(((0,), (3, 2, 1))) == [9, 8]


def test_a_group_fails_with_the_task_that_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    sections = Sections(monkeypatch, failing=2)
    with pytest.raises(WorkerError) as caught:
        rows_of(((0,), (3, 2, 1)))
    error = find_error(str(caught.value), {})
    assert error is not None
    assert error.sentence.startswith("Task 8 of the stage stage failed: ValueError: odd")
    assert sections.ran == [3]


def test_a_group_holds_one_task_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    sections = Sections(monkeypatch)
    alive: weakref.WeakSet[Any] = weakref.WeakSet()
    together: list[int] = []

    class Section:
        task, is_last = 8, True

        def __init__(self, *_: object) -> None:
            alive.add(self)

        def run(self, batches: Iterator[Any]) -> Generator[Any, None, bool]:
            together.append(len(alive))
            yield from ()
            return False

    monkeypatch.setattr(epoch_task, "TaskSection", Section)
    rows_of(((0,), (3, 2, 1)))
    assert together == [1, 1, 1]
    assert sections.ran == []


def test_what_groups_leave_out_is_run_in_a_second_job(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[list[int]] = []
    frames = SimpleNamespace(of=lambda _, left: asked.append(list(left)), properties=lambda _: {})

    def run_job(driver: Any, context: Any, spark: Any, program: Any, frame: Any, *_: Any) -> list[dict[str, int]]:
        frame()
        return [{"task": 5}, {"task": 9}]

    monkeypatch.setattr(spark_engine, "run_job", run_job)
    stage = SparkStage.__new__(SparkStage)
    vars(stage).update(
        setup=SimpleNamespace(program=None), _driver=None, _context=None, _session=lambda: None, _frames=frames
    )
    vars(stage).update(_small=SimpleNamespace(run=lambda *_: False))
    stage.run_epoch(INTENT, None)
    assert asked == [[], [0, 2]]


class Driver:
    """Stands for a session that makes no frames."""

    passes_properties = True

    def __init__(self, cores: int | None) -> None:
        self.cores = cores


@pytest.mark.parametrize(("cores", "sections", "largest"), [(2, 1, 8), (None, 1, 1), (2, 3, 1)])
def test_tasks_are_grouped_where_cores_are_known_and_catalyst_runs_nothing(
    cores: int | None, sections: int, largest: int
) -> None:
    driver: Any = Driver(cores)
    program: Any = SimpleNamespace(sections=range(sections))
    nothing: Any = None
    groups = EpochFrames(driver, nothing, program, nothing)._groups(32, None)
    assert max(map(len, groups)) == largest


def test_a_group_has_tasks_of_one_place() -> None:
    driver: Any = Driver(2)
    program: Any = SimpleNamespace(sections=range(1))
    nothing: Any = None
    places = [["a"] if task % 2 else ["b"] for task in range(32)]
    groups = EpochFrames(driver, nothing, program, nothing)._groups(32, places)
    assert sorted(itertools.chain(*groups)) == list(range(32))
    assert all(len({places[task][0] for task in group}) == 1 for group in groups)
    assert max(map(len, groups)) == 8

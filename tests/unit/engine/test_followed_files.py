"""Continuous runs over files that keep coming: every stage reads the same looks, each file once. No Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_samza.errors import SamzaError
from airflow_samza.runs import failpoints
from airflow_samza.runs.records.folders import RunFolder
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.upkeep.fsck import fsck_run
from tests.support import file_apps
from tests.support.file_lake import COPIES, Lake, expected
from tests.support.waiting import until
from tests.support.without_spark import run_stage

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    file_apps.OPTIONS.clear()
    file_apps.OPTIONS["look_every"] = "20 ms"
    yield Lake(tmp_path)
    file_apps.OPTIONS.clear()


class Running:
    """The stages of a run, each in a thread of its own."""

    def __init__(self, lake: Lake, plan: RunPlan, generation: int = 1) -> None:
        self.lake = lake
        self.plan = plan
        self.errors: list[SamzaError] = []
        self.threads = [
            threading.Thread(target=self._run, args=(stage.stage_id, generation), daemon=True)
            for stage in plan.plan.stages
        ]
        for thread in self.threads:
            thread.start()

    def _run(self, stage: str, generation: int) -> None:
        try:
            run_stage(self.lake.runtime, self.plan, stage, generation, self.lake.bindings)
        except SamzaError as error:
            self.errors.append(error)

    def join(self) -> None:
        for thread in self.threads:
            thread.join(timeout=300)
            assert not thread.is_alive()

    def reads(self, condition: Callable[[], bool]) -> None:
        """Wait until what the run has written fulfils the condition."""
        until(lambda: bool(self.errors) or condition())
        assert not self.errors, self.errors

    def end(self, how: Callable[[RunPlan], object]) -> None:
        how(self.plan)
        self.join()
        assert not self.errors, self.errors
        self.lake.runtime.close(self.plan)


def test_a_continuous_run_reads_what_comes_until_it_is_drained(lake: Lake) -> None:
    lake.file("a.json", 0)
    running = Running(lake, lake.plan("run", mode="continuous"))
    running.reads(lambda: lake.numbered() == expected(3))
    lake.file("x=1/b.json", 3, 30)
    running.reads(lambda: lake.numbered() == expected(33))
    lake.file("c.json", 33)
    running.end(lake.runtime.drain)
    assert lake.numbered() == expected(36)
    lake.file("d.json", 36)
    assert lake.whole("next") == ["d.json"]
    assert lake.numbered() == expected(39)


def test_a_run_goes_on_after_the_files_of_one_that_was_stopped(lake: Lake) -> None:
    lake.file("a.json", 0)
    running = Running(lake, lake.plan("run", mode="continuous"))
    running.reads(lambda: lake.numbered() == expected(3))
    lake.file("b.json", 3)
    running.reads(lambda: lake.numbered() == expected(6))
    running.end(lake.runtime.stop)
    assert lake.whole("next") == []
    lake.file("c.json", 6)
    again = Running(lake, lake.plan("again", mode="continuous"))
    again.reads(lambda: lake.numbered() == expected(9))
    again.end(lake.runtime.stop)


def test_all_stages_of_a_continuous_run_read_the_same_files(lake: Lake) -> None:
    running = Running(lake, lake.plan("run", COPIES, mode="continuous"))
    for number in range(12):
        lake.file(f"{number}.json", number * 5, 5)
        if number % 4 == 3:
            wanted = (number + 1) * 10
            running.reads(lambda: len(lake.copied()) == wanted)  # noqa: B023 - called at once
    running.end(lake.runtime.stop)
    for number in range(12, 15):
        lake.file(f"{number}.json", number * 5, 5)
    lake.whole("next", COPIES)
    assert lake.copied() == sorted([*range(75)] * 2)


def test_a_cleared_stage_of_a_continuous_run_reads_the_same_looks_again(lake: Lake) -> None:
    lake.file("a.json", 0)
    plan = lake.plan("run", mode="continuous")
    running = Running(lake, plan)
    running.reads(lambda: lake.numbered() == expected(3))
    lake.file("b.json", 3)
    running.reads(lambda: lake.numbered() == expected(6))
    running.end(lake.runtime.stop)
    lake.file("c.json", 6)
    lake.stages(plan, generation=2)
    assert lake.numbered() == expected(6)
    assert lake.whole("next") == ["c.json"]


@pytest.mark.parametrize(
    "where",
    [
        "before-intent",
        "after-intent",
        "look-before-decision",
        "look-after-decision",
        "task-before-manifest",
        "after-epoch",
    ],
)
@pytest.mark.few(2)
def test_an_attempt_that_dies_loses_and_repeats_no_file(
    lake: Lake, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Died(BaseException):
        pass

    file_apps.OPTIONS["max_files"] = 1
    for number in range(4):
        lake.file(f"{number}.json", number * 3)
    plan = lake.plan("run", mode="continuous")
    lake.runtime.drain(plan)
    passed: dict[str, int] = {}

    def reach(name: str) -> None:
        passed[name] = passed.get(name, 0) + 1
        if name == where and passed[name] in (1, 2, 4):
            raise Died

    monkeypatch.setattr(failpoints, "reach", reach)
    for module in failpoints_users():
        monkeypatch.setattr(module, "reach", reach)
    for _ in range(6):
        try:
            run_stage(lake.runtime, plan, plan.plan.stages[0].stage_id, 1, lake.bindings)
            break
        except Died:
            lake.file(f"more-{passed[where]}.json", 100, 0)
    else:
        pytest.fail("it never ended")
    monkeypatch.undo()
    lake.runtime.close(plan)
    assert lake.numbered() == expected(12)
    assert [name for name in lake.whole("next") if not name.startswith("more")] == []


def test_a_damaged_look_is_noticed(lake: Lake) -> None:
    lake.file("a.json", 0)
    plan = lake.plan("run", mode="continuous")
    lake.runtime.drain(plan)
    Running(lake, plan).end(lambda _: None)
    files, run = lake.here.log.filesystem, RunFolder(plan.application, plan.run_id)
    assert list(fsck_run(files, run)) == []
    looks = sorted((lake.here.root / run.arrivals(1)).rglob("*.json"))
    assert len(looks) == 2  # the end, and what was read up to it
    for path in looks:
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
        assert [finding.serious for finding in fsck_run(files, run)] == [True]
        path.write_bytes(whole)


def failpoints_users() -> list[object]:
    from airflow_samza.engine import stage_loop, task_section
    from airflow_samza.runs.state_history import arrivals

    return [stage_loop, task_section, arrivals]

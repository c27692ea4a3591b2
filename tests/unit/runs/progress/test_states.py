"""Figures of a stage in each of its states: what stands still when nobody works, and what a retry or a clear makes of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_samza.engine.runner_records import AttemptState
from airflow_samza.runs.progress.progress import ProgressReport, describe_progress
from airflow_samza.runs.progress.stage_progress import heads_that_answer, stage_progress
from airflow_samza.runs.records.folders import must_read
from airflow_samza.runs.records.stage_result import StageResult
from airflow_samza.runs.stages.stage_state import CANCELLED, FAILED, LOST, QUEUED, RUNNING, SUCCEEDED, stage_status
from tests.support.timed_runs import DIES, FAILS, FIRST, IS_CANCELLED, JUMPS, World

LINES = 8
NAMES = 4


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A run over eight lines of two seconds each, with a table of four rows beside them."""
    world = World(tmp_path / "root")
    with world.clocks(monkeypatch):
        world.send([{"n": n, "seconds": 2.0, "act": "", "score": -7_200.0} for n in range(LINES)], NAMES)
        world.plan()
        yield world


def report(world: World) -> ProgressReport:
    return stage_progress(
        world.files, heads_that_answer({"log": world.log}, {}), world.run, FIRST, world.handle().generation
    )


def seconds(world: World) -> float:
    """The time over which the rate of a stage is shown."""
    found = report(world).overall
    assert found is not None
    return found.seconds


def until(world: World, act: str) -> AttemptState:
    """Run an attempt to its last line, at which something befalls it."""
    last = max(world.lines)
    world.acts = {world.lines[last][-1]: [act]}
    attempt = world.submit()
    world.runs(attempt)
    return attempt


@pytest.mark.parametrize(
    ("act", "state"), [(FAILS, FAILED), (IS_CANCELLED, CANCELLED), (DIES, LOST)], ids=["failed", "cancelled", "lost"]
)
def test_the_clock_of_a_stage_that_has_ended_stands_still(world: World, act: str, state: str) -> None:
    until(world, act)
    world.passes(495)
    assert report(world).state == state
    assert seconds(world) == pytest.approx(16.0, abs=0.001)
    assert describe_progress(report(world))[0].startswith(f"Stage lines: {state} after 16.0 s, ")


def test_what_passes_before_a_retry_is_not_part_of_a_stages_time(world: World) -> None:
    until(world, FAILS)
    world.passes(495)
    retry = world.submit()
    world.passes(30)
    assert (report(world).state, report(world).seconds) == (QUEUED, 16.0)
    world.runs(retry)
    world.passes(1_000)
    again = 2.0 * len(world.lines[max(world.lines)])
    assert report(world).state == SUCCEEDED
    assert seconds(world) == must_read(world.files, world.handle().folder.result, StageResult).seconds == 16.0 + again


def test_the_time_of_a_cleared_stage_begins_anew(world: World) -> None:
    until(world, FAILS)
    world.clear()
    assert report(world).seconds is None
    world.runs(world.submit())
    assert seconds(world) == 16.0


def test_a_clock_that_is_set_back_changes_no_time(world: World) -> None:
    world.acts = {0: [JUMPS]}
    world.runs(world.submit())
    assert seconds(world) == 16.0
    assert must_read(world.files, world.handle().folder.result, StageResult).seconds == 16.0


def test_who_looks_at_a_stage_at_work_sees_its_time_up_to_now(world: World) -> None:
    seen: list[tuple[str, float]] = []
    world.on_line = lambda: seen.append((report(world).state, report(world).seconds or 0.0))
    world.runs(world.submit())
    assert {state for state, _ in seen} == {RUNNING}
    assert [told for _, told in seen] == pytest.approx([2.0 * number for number in range(1, LINES + 1)], abs=0.01)


def test_a_task_that_has_done_all_its_work_has_nothing_more_to_do(world: World) -> None:
    until(world, FAILS)
    found = report(world)
    assert (found.tasks_done, found.tasks_ended, found.tasks) == (2, 2, 3)
    assert "2 of 3 tasks done" in describe_progress(found)[0]
    assert "2 of 3 tasks done" in str(stage_status(world.files, world.handle()))


def test_what_fills_a_table_is_no_message_that_was_read(world: World) -> None:
    world.runs(world.submit())
    assert (report(world).read, report(world).sent) == (LINES, LINES)
    assert must_read(world.files, world.handle().folder.result, StageResult).inputs[0].messages == LINES
    assert f"read {LINES} messages" in describe_progress(report(world))[0]


def test_the_end_of_an_attempt_is_when_it_ended_also_where_it_could_be_written_only_later(world: World) -> None:
    attempt = until(world, FAILS)
    ended = stage_status(world.files, world.handle()).updated_at
    world.passes(60)
    attempt.write_status()
    assert stage_status(world.files, world.handle()).updated_at == ended

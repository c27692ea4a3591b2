"""Sections of shared streams that are read while the run of another application writes them (rule C10). No Spark."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza.engine import stage_loop
from airflow_samza.engine.available_inputs import AvailableInputs
from airflow_samza.errors import ConfigError, SamzaError, SectionOpen, StageError, StateError, UpstreamCleared
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.provider.triggers.runs import SamzaSectionsTrigger
from airflow_samza.runs.progress.clear_preview import clear_preview
from airflow_samza.runs.progress.run_list import note_origin
from airflow_samza.runs.records.data_interval import DataInterval
from airflow_samza.runs.records.folders import RunFolder
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.run_ends import abort
from airflow_samza.runs.stages.stage_state import StageHandle, is_committed
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.log.maintenance import expire
from tests.support.budgets import share
from tests.support.runs_here import Here, run_stage, slice_of
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(120)

APPS = "tests.support.carrying_apps"
PRODUCING, SUMMING, FOLLOWING = f"{APPS}:producing", f"{APPS}:summing", f"{APPS}:following"
DAILY = f"{APPS}:daily"
SCHEMA = pa.schema([("member", pa.int64()), ("page", pa.string()), ("n", pa.int64())])
SMALL = {"job.epoch.max.messages": "2"}
"""Epochs of a few messages, so that a section comes in many commits."""
MONDAY = DataInterval.from_iso("2026-01-05", "2026-01-06")
TUESDAY = DataInterval.from_iso("2026-01-06", "2026-01-07")


@pytest.fixture
def here(tmp_path: Path) -> Here:
    return Here(tmp_path)


def clicks(here: Here, first: int, count: int) -> None:
    rows = [{"member": n % 3, "page": f"p{n}", "n": n} for n in range(first, first + count)]
    here.log.append("clicks", pa.Table.from_pylist(rows, SCHEMA), key=["member"], partitions=2)


def producer(here: Here, run_id: str = "monday", **more: Any) -> RunPlan:
    return here.plan(PRODUCING, run_id, mode="pipelined", config=SMALL, **more)


def consumer(
    here: Here, application: str = SUMMING, run_id: str = "sums", named: str = "monday", **more: Any
) -> RunPlan:
    return here.plan(application, run_id, mode="pipelined", sections={"shared-clicks": named}, config=SMALL, **more)


class Running:
    """The stages of a run, each in a thread of its own."""

    def __init__(self, here: Here, plan: RunPlan, *, generation: int = 1) -> None:
        self.errors: list[SamzaError] = []
        self._here, self._plan, self._generation = here, plan, generation
        stages = [stage.stage_id for stage in plan.plan.stages]
        self._threads = [threading.Thread(target=self._run, args=(stage,), daemon=True) for stage in stages]
        for thread in self._threads:
            thread.start()

    def _run(self, stage: str) -> None:
        try:
            run_stage(str(self._here.root), self._plan, stage, self._generation)
        except SamzaError as error:
            self.errors.append(error)

    def end(self) -> Running:
        """Wait for the end of all stages."""
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()
        return self

    @property
    def error(self) -> SamzaError:
        self.end()
        return self.errors[0]


def handle_of(plan: RunPlan, stage: str, generation: int = 1) -> StageHandle:
    return StageHandle(plan.application, plan.run_id, stage, Generation(plan.generation, generation))


def sums(here: Here) -> list[tuple[int, int]]:
    return sorted((row["member"], row["clicks"]) for row in here.rows("sums"))


def numbered(here: Here) -> list[tuple[str, int]]:
    return sorted((row["page"], row["number"]) for row in here.rows("numbered"))


@pytest.fixture
def held_back(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Have the producer's stages wait after their first epoch until this is set."""
    go_on = threading.Event()
    is_over = stage_loop.StageLoop._is_over

    def waiting(loop: Any, intent: Any, tables: Any) -> bool:
        over = is_over(loop, intent, tables)
        if loop._run.application == "producing":
            assert go_on.wait(60)
        return over

    monkeypatch.setattr(stage_loop.StageLoop, "_is_over", waiting)
    return go_on


def test_a_consumer_reads_while_the_producer_writes_and_ends_with_it(here: Here, held_back: threading.Event) -> None:
    clicks(here, 0, 30)
    producing = producer(here)
    plan = consumer(here, FOLLOWING, "follow")
    assert slice_of(plan, "shared-clicks")["follows"]["run_id"] == "monday"
    assert (
        plan.notes["shared-clicks"]["shared-clicks"]
        == "follows the section of producing/monday, which is still written"
    )
    reading, writing = Running(here, plan), Running(here, producing)
    until(lambda: bool(here.rows("numbered")), 60)
    writer = producing.plan.stages[-1].stage_id
    assert not is_committed(open_filesystem(str(here.root)), handle_of(producing, writer).folder)
    held_back.set()
    assert writing.end().errors == []
    assert reading.end().errors == []
    assert sorted(page for page, _ in numbered(here)) == sorted(f"p{n}" for n in range(30))
    assert sorted(number for _, number in numbered(here)) == sorted(n // 3 + 1 for n in range(30))


@pytest.mark.random
@pytest.mark.parametrize("seed", range(share(60)))
def test_a_followed_section_gives_what_a_whole_one_gives(here: Here, seed: int) -> None:
    chance = random.Random(seed)
    clicks(here, 0, chance.randrange(1, 40))
    producing = producer(here)
    both = [("plain", producing)]
    if chance.random() < 0.5:  # another run writes beside it
        clicks(here, 100, chance.randrange(1, 10))
        both.append(("other", here.plan(PRODUCING, "other", mode="pipelined", config=SMALL, state_from="fresh")))
    plans = [consumer(here), consumer(here, FOLLOWING, "follow")]
    running = [Running(here, plan) for _, plan in both] + [Running(here, plan) for plan in plans]
    chance.shuffle(running)
    assert [error for one in running for error in one.end().errors] == []
    followed = (sums(here), numbered(here))
    whole = Here(here.root)
    here.whole(SUMMING, "again", sections={"shared-clicks": "producing/monday"})
    assert sorted(followed[0] * 2) == sums(whole)
    expected = {row["page"] for row in whole.rows("numbered")}
    assert sorted(page for page, _ in followed[1]) == sorted(expected)


def test_a_producer_that_fails_for_good_fails_the_consumer_with_its_name(here: Here) -> None:
    clicks(here, 0, 6)
    producing = producer(here)
    plan = consumer(here)
    files = open_filesystem(str(here.root))
    writer = producing.plan.stages[-1].stage_id
    reading = Running(here, plan)
    files.make_dirs(handle_of(producing, writer).folder.attempts)
    abort(files, handle_of(producing, writer).folder, "broken")
    assert isinstance(reading.error, StageError)
    assert reading.error.sentence == (
        "The stage 'shared-clicks' reads of 'shared-clicks' what the run 'monday' of 'producing' writes, and that run "
        "failed for good."
    )


def test_a_producer_that_ends_before_its_stage_has_begun_fails_the_consumer(here: Here) -> None:
    clicks(here, 0, 6)
    producing = producer(here)
    reading = Running(here, consumer(here))
    here.runtime.close(producing)
    assert "and that run failed for good" in reading.error.sentence


def test_a_cleared_producer_fails_the_consumer_and_a_cleared_consumer_reads_anew(
    here: Here, held_back: threading.Event
) -> None:
    clicks(here, 0, 30)
    producing = producer(here)
    plan = consumer(here, FOLLOWING, "follow")
    reading, writing = Running(here, plan), Running(here, producing)
    until(lambda: bool(here.rows("numbered")), 60)
    files = open_filesystem(str(here.root))
    writer = producing.plan.stages[-1].stage_id
    preview = clear_preview(files, {"log": here.log}, producing, [writer], downstream=True)
    assert [said for said in preview.sentences if "The run 'follow' of 'following' follows what this one" in said]
    for stage in producing.plan.stages:
        files.make_dirs(handle_of(producing, stage.stage_id, 2).folder.attempts)  # it was cleared
    assert isinstance(reading.error, UpstreamCleared)
    assert "the run 'monday' of 'producing' writes, and that run was cleared" in reading.error.sentence
    held_back.set()
    writing.end()
    again = [Running(here, plan, generation=2), Running(here, producing, generation=2)]
    assert [error for one in again for error in one.end().errors] == []
    assert sorted(page for page, _ in numbered(here)) == sorted(f"p{n}" for n in range(30))


def test_a_producer_that_is_planned_anew_before_its_end_fails_the_consumer(
    here: Here, held_back: threading.Event
) -> None:
    clicks(here, 0, 30)
    producing = producer(here)
    reading, writing = Running(here, consumer(here, FOLLOWING, "follow")), Running(here, producing)
    until(lambda: bool(here.rows("numbered")), 60)
    producer(here, generation=2)
    assert isinstance(reading.error, UpstreamCleared)
    held_back.set()
    writing.end()


def test_a_retried_producer_disturbs_no_consumer(
    here: Here, held_back: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    clicks(here, 0, 30)
    producing = producer(here)
    reading, writing = Running(here, consumer(here)), Running(here, producing)
    held_back.set()
    writing.end()
    again = Running(here, producing)  # the same generation: what stands is adopted
    assert again.end().errors == []
    assert reading.end().errors == []
    assert sums(here) == [(0, 10), (1, 10), (2, 10)]


def test_a_state_that_has_followed_a_section_notices_that_it_was_written_anew(here: Here) -> None:
    clicks(here, 0, 6)
    producing = producer(here)
    plan = consumer(here, FOLLOWING, "follow")
    running = [Running(here, plan), Running(here, producing)]
    assert [error for one in running for error in one.end().errors] == []
    here.runtime.close(plan)
    for stage in producing.plan.stages:
        run_stage(str(here.root), producing, stage.stage_id, 2)
    with pytest.raises(StateError, match=r"The run 'monday' of 'producing' has rewritten its section"):
        here.plan(FOLLOWING, "follow-2")


def test_a_followed_section_is_not_read_twice(here: Here) -> None:
    clicks(here, 0, 6)
    producing = producer(here)
    plan = consumer(here, FOLLOWING, "follow")
    running = [Running(here, plan), Running(here, producing)]
    assert [error for one in running for error in one.end().errors] == []
    here.runtime.close(plan)
    here.whole(FOLLOWING, "follow-2")
    assert sorted(page for page, _ in numbered(here)) == sorted(f"p{n}" for n in range(6))


def test_another_run_of_the_interval_that_replaces_the_section_fails_the_consumer(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    clicks(here, 0, 30)
    producing = here.plan(DAILY, "monday", mode="pipelined", config=SMALL, interval=MONDAY)
    plan = consumer(here, FOLLOWING, "follow", "daily@interval", interval=MONDAY)
    first, go_on = threading.Event(), threading.Event()
    look = AvailableInputs.look

    def waiting(inputs: Any) -> Any:
        if inputs._run.run_id == "follow" and inputs._positions[0].offset("shared-clicks", 0):
            first.set()
            assert go_on.wait(60)
        return look(inputs)

    monkeypatch.setattr(AvailableInputs, "look", waiting)
    reading = Running(here, plan)
    running = Running(here, producing)
    assert first.wait(60)
    running.end()
    here.whole(DAILY, "monday-2", interval=MONDAY, config=SMALL)
    go_on.set()
    assert "The run 'monday-2' of 'daily' has replaced another run's part of the input" in reading.error.sentence


def test_messages_that_expire_before_they_are_read_fail_the_consumer(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    clicks(here, 0, 60)
    producing = producer(here)
    plan = consumer(here, FOLLOWING, "follow")
    first, go_on = threading.Event(), threading.Event()
    look = AvailableInputs.look

    def waiting(inputs: Any) -> Any:
        if inputs._run.run_id == "follow" and inputs._positions[0].offset("shared-clicks", 0):
            first.set()
            assert go_on.wait(60)
        return look(inputs)

    monkeypatch.setattr(AvailableInputs, "look", waiting)
    reading, writing = Running(here, plan), Running(here, producing)
    assert first.wait(60)
    writing.end()
    assert expire(here.log.topic("shared-clicks"), time.time_ns() // 1_000_000 + 60_000)
    go_on.set()
    assert "are expired" in reading.error.sentence


def test_the_run_of_the_same_interval_or_the_latest_is_found(here: Here) -> None:
    clicks(here, 0, 6)
    files = open_filesystem(str(here.root))
    for run_id, interval in (("monday", MONDAY), ("tuesday", TUESDAY)):
        planned = producer(here, run_id, interval=interval, state_from="fresh")
        note_origin(files, RunFolder(planned.application, planned.run_id), {})
    of_monday = consumer(here, run_id="a", named="producing@interval", interval=MONDAY)
    latest = consumer(here, run_id="b", named="producing@latest")
    by_name = consumer(here, run_id="c", named="producing/monday")
    runs = [slice_of(plan, "shared-clicks")["follows"]["run_id"] for plan in (of_monday, latest, by_name)]
    assert runs == ["monday", "tuesday", "monday"]


def test_a_run_that_is_compared_is_not_followed_before_it_is_published(here: Here) -> None:
    clicks(here, 0, 6)
    files = open_filesystem(str(here.root))
    monday = here.whole(PRODUCING, "monday", interval=MONDAY, state_from="fresh")
    note_origin(files, RunFolder(monday.application, monday.run_id), {})
    compares = here.plan(PRODUCING, "edited", compares="producing/monday")
    note_origin(files, RunFolder(compares.application, compares.run_id), {})
    here.stages(compares)
    here.whole(SUMMING, "sums", sections={"shared-clicks": "producing@interval"}, interval=MONDAY)
    here.whole(SUMMING, "latest", sections={"shared-clicks": "producing@latest"}, interval=MONDAY)
    assert sums(here) == [(0, 2), (1, 2), (2, 2)], "the second one has replaced the first"


def test_what_is_compared_with_a_run_that_followed_another_reads_the_same_section(here: Here) -> None:
    clicks(here, 0, 6)
    files = open_filesystem(str(here.root))
    monday = producer(here)
    note_origin(files, RunFolder(monday.application, monday.run_id), {})
    plan = consumer(here, named="producing@latest")
    reading, writing = Running(here, plan), Running(here, monday)
    assert (writing.end().errors, reading.end().errors) == ([], [])
    here.runtime.close(monday)
    here.runtime.close(plan)
    clicks(here, 6, 9)
    tuesday = here.whole(PRODUCING, "tuesday")
    note_origin(files, RunFolder(tuesday.application, tuesday.run_id), {})
    asked = here.runtime.request_to_compare(RunRequest(SUMMING, "edited", mode="staged"), "sums", None)
    edited = here.runtime.prepare(asked)
    here.stages(edited)
    assert here.runtime.compare(edited).is_equal


def test_a_staged_run_of_the_same_interval_reads_a_whole_section(here: Here) -> None:
    clicks(here, 0, 6)
    producing = here.plan(PRODUCING, "monday", interval=MONDAY)
    named = {"sections": {"shared-clicks": "producing@interval"}, "interval": MONDAY}
    with pytest.raises(SectionOpen, match="has not written its section"):
        here.plan(SUMMING, "sums", **named)
    here.stages(producing)
    here.whole(SUMMING, "sums", **named)
    assert sums(here) == [(0, 2), (1, 2), (2, 2)]


def test_a_producer_that_never_comes_is_said_in_one_sentence_after_the_wait(here: Here) -> None:
    clicks(here, 0, 6)
    producer(here, "monday", interval=MONDAY)
    with pytest.raises(SectionOpen) as error:
        consumer(here, named="producing@interval", interval=TUESDAY, wait_seconds=0.2)
    assert error.value.sentence == (
        "No run of 'producing' for the data interval [2026-01-06T00:00:00+00:00, 2026-01-07T00:00:00+00:00) that writes the shared stream "
        "'shared-clicks' is planned."
    )
    assert "job.state.lease.wait.ms" in error.value.hint


def test_a_plan_waits_for_a_producer_that_comes(here: Here) -> None:
    made: list[RunPlan] = []
    early = threading.Thread(
        target=lambda: made.append(consumer(here, named="producing@interval", interval=MONDAY, wait_seconds=60))
    )
    early.start()
    clicks(here, 0, 6)
    producing = producer(here, interval=MONDAY)
    early.join(60)
    running = [Running(here, made[0]), Running(here, producing)]
    assert [error for one in running for error in one.end().errors] == []
    assert sums(here) == [(0, 2), (1, 2), (2, 2)]


def test_a_trigger_waits_until_the_run_is_planned_or_the_time_is_over(here: Here) -> None:
    clicks(here, 0, 6)
    files = open_filesystem(str(here.root))
    place: dict[str, Any] = {"root": str(here.root), "poll_interval": 0.01, "partition_key": None}
    named = {"shared-clicks": ["shared-clicks", "producing@interval"]}
    waiting = SamzaSectionsTrigger(sections=named, interval=MONDAY.iso(), until=time.time() + 60, **place)
    assert waiting.look(files) is None
    over = SamzaSectionsTrigger(sections=named, interval=MONDAY.iso(), until=time.time(), **place)
    assert over.look(files) == {"sections": "over"}
    producer(here, interval=MONDAY)
    path, arguments = waiting.serialize()
    assert path.endswith(".SamzaSectionsTrigger")
    assert SamzaSectionsTrigger(**arguments).look(files) == {"sections": "planned"}


def test_a_section_of_an_interval_needs_one(here: Here) -> None:
    clicks(here, 0, 6)
    producer(here)
    with pytest.raises(ConfigError, match=r"is that of a data interval, and the run 'sums' has none"):
        consumer(here, named="producing@interval")


def test_a_consumer_that_died_goes_on_with_the_generation_that_it_has_begun_to_read(
    here: Here, held_back: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    clicks(here, 0, 30)
    producing = producer(here)
    plan = consumer(here, FOLLOWING, "follow")
    died = threading.Event()
    decide = stage_loop.StageLoop._decide

    def dying(loop: Any, *args: Any) -> Any:
        if loop._run.application == "following" and loop._former is not None and not died.is_set():
            died.set()
            raise StageError("died", stage="shared-clicks")
        return decide(loop, *args)

    monkeypatch.setattr(stage_loop.StageLoop, "_decide", dying)
    reading, writing = Running(here, plan), Running(here, producing)
    assert died.wait(60)
    assert reading.error.sentence == "died"
    again = Running(here, plan)
    held_back.set()
    assert writing.end().errors == []
    assert again.end().errors == []
    assert sorted(page for page, _ in numbered(here)) == sorted(f"p{n}" for n in range(30))

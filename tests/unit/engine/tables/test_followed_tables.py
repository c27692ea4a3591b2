"""A continuous run whose tables follow their side inputs, epoch by epoch. No Spark."""

from __future__ import annotations

import shutil
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from airflow_samza.engine.stage_context import StageContext
from airflow_samza.engine.stage_setup import StageSetup
from airflow_samza.engine.tables import followed_tables
from airflow_samza.runs.progress.progress import describe_progress
from airflow_samza.runs.progress.sensed_runs import Freshness, freshness
from airflow_samza.runs.progress.stage_progress import heads_that_answer, stage_progress
from airflow_samza.runs.records.epoch_records import InputIntent, newest_intent
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import CONTINUOUS, RunPlan
from airflow_samza.runs.stages.stage_state import StageHandle
from airflow_samza.runs.tables.table_version import DELETED, INCREMENTAL
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.system import StreamSpec
from tests.support.local_engine import LocalEngine, LocalStage
from tests.support.runs_here import Here
from tests.support.side_input_apps import PROFILES
from tests.support.waiting import until
from tests.unit.prepare.test_pinned_tables import TOPIC, compacted, push
from tests.unit.prepare.test_side_inputs import many, profiles, scored, views

FOLLOWING = "tests.support.side_input_apps:following"
PROCESSED = "tests.support.side_input_apps:following_processed"
FOLLOWING_PUSHES = "tests.support.side_input_apps:following_pushes"


class Preparing(LocalEngine):
    """An engine that prepares tables when it may."""

    def __init__(self, may: threading.Event) -> None:
        super().__init__()
        self.may = may

    def stage(self, context: StageContext, setup: StageSetup) -> LocalStage:
        return PreparingStage(context, setup, self.may)


class PreparingStage(LocalStage):
    def __init__(self, context: StageContext, setup: StageSetup, may: threading.Event) -> None:
        super().__init__(context, setup)
        self._may = may

    def fill_tables(self, side_inputs: Mapping[str, InputIntent], tag: str) -> None:
        assert self._may.wait(300)
        super().fill_tables(side_inputs, tag)


@contextmanager
def running(here: Here, application: str, **request: Any) -> Iterator[tuple[RunPlan, threading.Event]]:
    """A continuous run in a thread, drained at the end. The event lets tables be prepared."""
    plan = here.plan(application, "run-1", mode=CONTINUOUS, **request)
    failed: list[BaseException] = []
    may = threading.Event()

    def work() -> None:
        try:
            here.stages(plan)
        except BaseException as error:
            failed.append(error)

    here.engine = Preparing(may)
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield plan, may
    finally:
        may.set()
        here.runtime.drain(plan)
        thread.join(timeout=300)
    assert not thread.is_alive()
    assert not failed, failed


def view(here: Here, member: int) -> str | None:
    """Sends a view; the tier that it comes out with."""
    before = Counter(scored(here))
    views(here, member)
    until(lambda: len(scored(here)) == before.total() + 1)
    (new,) = (Counter(scored(here)) - before).elements()
    return new[1]


@pytest.fixture
def here(tmp_path: Path) -> Here:
    made = Here(tmp_path)
    made.log.create([StreamSpec("views", 2, "member_id bigint, page string")])
    return made


def test_a_few_changes_are_there_in_the_next_epoch(here: Here) -> None:
    profiles(here, m1="gold")
    with running(here, FOLLOWING):
        assert (view(here, 1), view(here, 2)) == ("gold", None)
        profiles(here, m1="silver", m2="new")
        assert (view(here, 1), view(here, 2)) == ("silver", "new")


def test_many_changes_are_read_beside_the_epochs_and_hold_nothing_up(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followed_tables, "FEW_MESSAGES", 10)
    profiles(here, m1="gold")
    with running(here, FOLLOWING) as (_, may):
        assert view(here, 1) == "gold"
        many(here, "silver")
        assert [view(here, 1) for _ in range(3)] == ["gold"] * 3  # nobody waits for what is being read
        may.set()
        until(lambda: view(here, 1) == "silver")


def test_another_version_of_a_pushed_table_is_taken_over_whole(here: Here) -> None:
    here.log.create([StreamSpec(TOPIC, 2, f"{PROFILES}, {DELETED} boolean")])
    push(here, "one", m1="gold", m2="gold")
    with running(here, FOLLOWING_PUSHES) as (_, may):
        assert view(here, 1) == "gold"
        push(here, "two", m1="silver")
        assert view(here, 1) == "gold"
        may.set()
        until(lambda: view(here, 1) == "silver")
        assert view(here, 2) is None


def test_a_compaction_is_no_news_and_changes_on_it_are_taken_up(here: Here) -> None:
    here.log.create([StreamSpec(TOPIC, 2, f"{PROFILES}, {DELETED} boolean")])
    push(here, "one", m1="gold", m2="gold")
    push(here, "two", kind=INCREMENTAL, m1="silver")
    files, asked = open_filesystem(str(here.root)), Freshness("following-pushes", TOPIC, "log", TOPIC, 3)
    with running(here, FOLLOWING_PUSHES) as (_, may):
        may.set()
        assert view(here, 1) == "silver"
        compacted(here)
        assert (view(here, 1), view(here, 2)) == ("silver", "gold")
        push(here, "three", kind=INCREMENTAL, m2="new")
        until(lambda: freshness(files, asked).is_reached)
        assert (view(here, 1), view(here, 2)) == ("silver", "new")


@pytest.mark.parametrize("has_begun", [True, False])
def test_a_run_to_which_nothing_comes_takes_a_newer_version_up_and_its_readers_are_known_to_have_it(
    here: Here, has_begun: bool
) -> None:
    here.log.create([StreamSpec(TOPIC, 2, f"{PROFILES}, {DELETED} boolean")])
    push(here, "one", m1="gold")
    files, asked = open_filesystem(str(here.root)), Freshness("following-pushes", TOPIC, "log", TOPIC, 2)
    with running(here, FOLLOWING_PUSHES) as (plan, may):
        until(lambda: list(freshness(files, asked).readers.values()) == [1])
        if has_begun:
            assert view(here, 1) == "gold"
        push(here, "two", m1="silver")
        assert not freshness(files, asked).is_reached  # it is not there while it is being read
        may.set()
        until(lambda: freshness(files, asked).is_reached)
        report = stage_progress(files, heads_that_answer({}, {}), plan, "views")
        assert report.tables == {"profiles": 2}
        assert "  tables: profiles in version 2" in describe_progress(report)
        assert view(here, 1) == "silver"


@pytest.mark.parametrize("application", [FOLLOWING, PROCESSED])
def test_a_topic_that_was_made_anew_is_read_anew_beside_the_epochs(here: Here, application: str) -> None:
    profiles(here, m1="gold", m2="gold")
    with running(here, application) as (_, may):
        assert view(here, 1) == "gold"
        shutil.rmtree(here.root / "topics" / "profile-changes")
        time.sleep(0.002)
        profiles(here, m1="anew")
        assert [view(here, 1) for _ in range(3)] == ["gold"] * 3
        may.set()
        until(lambda: view(here, 1) == "anew")
        assert view(here, 2) is None


def test_a_burst_for_a_processor_is_read_to_its_end_also_when_nobody_writes_again(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followed_tables, "FEW_MESSAGES", 10)
    profiles(here, m1="gold")
    with running(here, PROCESSED) as (plan, _):
        assert view(here, 1) == "gold"
        many(here, "silver")
        until(
            lambda: held(here, plan) >= 101 - 2 * 10
        )  # though no message of the main input comes; the last piece comes with the next one
        assert view(here, 99) == "silver"


def held(here: Here, plan: RunPlan) -> int:
    """The offsets of the side input that the tables of the newest epoch hold."""
    intent = newest_intent(
        open_filesystem(str(here.root)),
        StageHandle(plan.application, plan.run_id, "views", Generation(plan.generation, 1)).folder,
    )
    assert intent is not None
    return sum(end for _, end in intent.side_inputs["profile-changes"].slice["offsets"])

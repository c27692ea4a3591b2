"""Stages of several epochs, in all modes, by the code of the stage runner; only Spark is left out."""

from __future__ import annotations

import dataclasses
import itertools
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_samza.engine.available_inputs import TaskPosition
from airflow_samza.engine.producers import Producers
from airflow_samza.engine.stage_context import StageContext
from airflow_samza.engine.stage_loop import StageLoop
from airflow_samza.errors import SamzaError, StageError, UpstreamCleared
from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.runs import finish
from airflow_samza.runs.records.epoch_records import InputIntent, newest_intent
from airflow_samza.runs.records.folders import write_once
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.records.stage_result import StageResult
from airflow_samza.runs.stages.stage_state import StageHandle, StageProgress
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.system import StreamSpec, SystemBinding
from tests.support.local_engine import LocalEngine
from tests.support.looping import APPLICATION, Place
from tests.support.stand_ins import Attempt
from tests.support.waiting import until
from tests.support.without_spark import run_stage
from tests.unit.runs.progress.test_progress import Records, of_task, views

pytestmark = pytest.mark.timeout(60)


class Died(Exception):
    """The end of an attempt, as if its process had been killed."""


class Stages:
    """Stages of a run, each in a thread of its own."""

    def __init__(self, place: Place, run: RunPlan, systems: Mapping[str, SystemBinding] | None = None) -> None:
        self.place = place
        self.systems = systems or {}
        self.run = run
        self.errors: dict[str, SamzaError] = {}
        self.progress: dict[str, list[StageProgress]] = {}
        self.threads: dict[str, threading.Thread] = {}

    def start(self, *stage_ids: str, generation: int = 1) -> Stages:
        for stage_id in stage_ids or [stage.stage_id for stage in self.run.plan.stages]:
            self.threads[stage_id] = threading.Thread(target=self._run, args=(stage_id, generation), daemon=True)
            self.threads[stage_id].start()
        return self

    def _run(self, stage_id: str, generation: int) -> None:
        try:
            self.progress[stage_id] = run_stage(
                self.place.runtime, self.run, stage_id, generation, self.systems
            ).progress
        except SamzaError as error:
            self.errors[stage_id] = error

    def join(self) -> dict[str, StageResult]:
        """The results, when all have ended."""
        for thread in self.threads.values():
            thread.join(timeout=300)
            assert not thread.is_alive()
        assert not self.errors, self.errors
        return {
            stage_id: self.place.runtime.finish(self.place.folder_of(self.run, stage_id)) for stage_id in self.threads
        }

    def error(self, stage_id: str) -> SamzaError:
        self.threads[stage_id].join(timeout=300)
        return self.errors[stage_id]


@pytest.fixture
def place(place_of: Callable[[str], Place]) -> Place:
    made = place_of(APPLICATION)
    made.send(0, 100)
    return made


def test_a_pipelined_run_gives_what_a_staged_one_gives(place: Place) -> None:
    results = Stages(place, place.prepare("bounded", "pipelined")).start().join()
    assert place.counted() == place.expected()
    assert place.minutes() == place.expected_minutes()
    assert place.copied() == sorted(place.sent)
    assert results["lines"].epochs > 5
    assert results["by-word"].epochs > 1
    assert results["lines"].inputs[0].messages == 100
    assert results["by-word"].inputs[0].messages == results["lines"].outputs[0].messages


def test_a_consumer_waits_for_its_producer_to_start(place: Place) -> None:
    run = place.prepare("bounded", "pipelined")
    stages = Stages(place, run).start("by-word")
    time.sleep(0.3)
    assert stages.threads["by-word"].is_alive()
    stages.start("lines")
    stages.join()
    assert stages.progress["by-word"][0].waiting_for == "lines"
    assert place.counted() == place.expected()


def test_a_continuous_run_ends_when_it_is_drained(place: Place) -> None:
    run = place.prepare("unbounded", "continuous")
    stages = Stages(place, run).start()
    until(lambda: place.log.metadata([StreamSpec("copy")])["copy"].head != (0, 0) and len(place.rows("copy")) == 100)
    place.send(100, 50)
    until(lambda: len(place.rows("copy")) == 150)
    assert place.rows("counts") == []  # nothing has ended
    place.runtime.drain(run)
    stages.join()
    assert place.counted() == place.expected()
    assert place.minutes() == place.expected_minutes()
    assert place.copied() == sorted(place.sent)


def test_messages_are_gathered_between_epochs_until_the_run_is_drained(place: Place) -> None:
    run = place.prepare(
        "unbounded", "continuous", **{"job.epoch.min.ms": "3600000", "job.epoch.max.messages": "1000000"}
    )
    stages = Stages(place, run).start()
    until(lambda: len(place.rows("copy")) == 100)
    for first in range(100, 150, 10):
        place.send(first, 10)
        time.sleep(0.1)
    assert len(place.rows("copy")) == 100
    place.runtime.drain(run)
    results = stages.join()
    assert place.copied() == sorted(place.sent)
    assert place.counted() == place.expected()
    assert results["lines"].epochs <= 3


def test_a_stage_that_is_behind_gathers_nothing(place: Place) -> None:
    run = place.prepare("unbounded", "continuous", **{"job.epoch.min.ms": "3600000"})
    stages = Stages(place, run).start()
    until(lambda: len(place.rows("copy")) > 90)  # of seven an epoch and task
    place.runtime.drain(run)
    stages.join()
    assert place.counted() == place.expected()


def test_messages_that_came_during_a_long_epoch_are_not_gathered_any_longer(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]

    def finish_slowly(*arguments: Any) -> Any:
        finished = finish.finish_epoch(*arguments)
        now[0] += 3600
        return finished

    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=time.sleep)
    monkeypatch.setattr("airflow_samza.engine.stage_loop.time", clock)
    monkeypatch.setattr("airflow_samza.engine.stage_loop.finish_epoch", finish_slowly)
    gathering = {"job.epoch.min.ms": "3600000", "job.epoch.max.messages": "1000000"}
    run = place.prepare("unbounded", "continuous", **gathering)
    stages = Stages(place, run).start()
    until(lambda: len(place.rows("copy")) == 100)
    place.send(100, 50)
    until(lambda: len(place.rows("copy")) == 150)  # of the two stages each lets the other's clock go on
    place.runtime.drain(run)
    stages.join()
    assert place.counted() == place.expected()


INTO_A_TABLE = """
from airflow_samza import stream_application

@stream_application("copying")
def copies(app):
    lines = app.input_stream("lines", system="log", schema="word string, n bigint", partitions=2, bounded=False)
    lines.send_to(app.output_stream("copies", system="lake", table="copies", create=True))
"""


@pytest.mark.extended
def test_a_table_gets_a_commit_a_second_at_most(place_of: Callable[[str], Place]) -> None:
    place = place_of(INTO_A_TABLE)
    systems = {"lake": SystemBinding("delta", {"root": str(place.folder / "lake")})}
    place.runtime = SparkRuntime(str(place.folder / "root"), systems)
    place.send(0, 10)
    began = time.monotonic()
    run = place.runtime.prepare(RunRequest("looping_app:copies", "run", mode="continuous"))
    stages = Stages(place, run, systems).start()
    for first in range(10, 250, 10):
        place.send(first, 10)
        time.sleep(0.1)
    place.runtime.drain(run)
    (result,) = stages.join().values()
    assert result.outputs[0].messages == 250
    versions = len(list((place.folder / "lake" / "copies" / "_delta_log").glob("*.json")))
    assert 3 <= versions <= time.monotonic() - began + 3


TO_A_BRANCH = """
from airflow_samza import stream_application

@stream_application("audited")
def audited(app):
    lines = app.input_stream("lines", system="log", schema="word string, n bigint", partitions=2, bounded=False)
    lines.where("n >= 10").send_to(app.output_stream("out", system="lake", table="web.out", create=True, branch="audit"))
"""


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_a_branch_begins_with_the_first_epoch_that_has_rows(place_of: Callable[[str], Place], kind: str) -> None:
    place = place_of(TO_A_BRANCH)
    systems = {"lake": SystemBinding(kind, {"root": str(place.folder / "lake")})}
    place.runtime = SparkRuntime(str(place.folder / "root"), systems)
    place.send(0, 10)
    run = place.runtime.prepare(RunRequest("looping_app:audited", "run", mode="continuous"))
    stages = Stages(place, run, systems).start()
    until(lambda: any(Path(place.runtime.root, "runs").rglob("epochs/*/commit.json")))
    place.send(10, 5)
    place.runtime.drain(run)
    (result,) = stages.join().values()
    assert (result.outputs[0].messages, result.epochs > 1) == (5, True)
    assert place.runtime.publish(run)[0].told["version"] is not None


def test_a_stopped_run_flushes_nothing_and_leaves_its_state(place: Place) -> None:
    run = place.prepare("unbounded", "continuous")
    stages = Stages(place, run).start()
    until(lambda: len(place.rows("copy")) == 100)
    place.runtime.stop(run)
    stages.join()
    assert place.rows("counts") == []
    place.runtime.close(run)
    place.send(100, 20)
    again = place.prepare("unbounded", "continuous", run_id="next")
    stages = Stages(place, again).start()
    place.runtime.drain(again)
    stages.join()
    assert place.counted() == place.expected()
    assert place.minutes() == place.expected_minutes()
    assert place.copied() == sorted(place.sent)


def test_a_deadline_is_a_stop_at_its_time(place: Place) -> None:
    run = place.prepare("unbounded", "continuous")
    place.runtime.stop(run, at=time.time() + 0.5)
    began = time.monotonic()
    Stages(place, run).start().join()
    assert time.monotonic() - began >= 0.4
    assert place.rows("counts") == []


def test_a_consumer_stops_when_its_producer_was_given_up(place: Place) -> None:
    run = place.prepare("bounded", "pipelined")
    open_filesystem(place.runtime.root).make_dirs(
        place.folder_of(run, "lines").folder.attempts
    )  # as if it had been submitted
    stages = Stages(place, run).start("by-word")
    place.runtime.abort(place.folder_of(run, "lines"), "retries are exhausted")
    error = stages.error("by-word")
    assert isinstance(error, StageError)
    assert "reads what 'lines' writes, and that stage failed for good" in error.sentence
    assert "Clear it with its upstream" in error.hint
    assert not error.retryable


def test_a_consumer_does_not_wait_for_ever_for_an_end_that_never_comes(place: Place) -> None:
    run = place.prepare("bounded", "pipelined")
    Stages(place, run).start("lines").join()
    files = open_filesystem(place.runtime.root)
    done = place.runtime.finish(place.folder_of(run, "lines"))
    other = place.folder_of(run, "lines", 2)
    place.log.create(
        [run.intermediate("by-word", other.generation).spec]
    )  # as if it had been cleaned up, and made again
    write_once(files, other.folder.result, dataclasses.replace(done, generation="1.2"))
    error = Stages(place, run).start("by-word").error("by-word")
    assert "waits for its inputs in vain: its producers have finished, and task 0 has not ended" in error.sentence
    assert "clear it with its upstream" in error.hint


def test_a_consumer_stops_when_its_producer_was_cleared(place: Place) -> None:
    run = place.prepare("unbounded", "continuous")
    stages = Stages(place, run).start()
    until(lambda: place.folder_of(run, "by-word").folder.intent(0) is not None and len(place.rows("copy")) == 100)
    until(lambda: open_filesystem(place.runtime.root).exists(place.folder_of(run, "by-word").folder.commit(0)))
    open_filesystem(place.runtime.root).make_dirs(place.folder_of(run, "lines", 2).folder.attempts)
    error = stages.error("by-word")
    assert isinstance(error, UpstreamCleared)
    assert not error.retryable
    assert "superseded" in stages.error("lines").sentence


@pytest.mark.parametrize("mode", ["staged", "pipelined"])
def test_a_stage_that_reads_what_it_writes_runs_until_its_own_topic_has_ended(place: Place, mode: str) -> None:
    run = place.prepare("circle", mode)
    assert [stage.several_epochs for stage in run.plan.stages] == [True]
    results = Stages(place, run).start().join()
    newest = {"a": 93, "b": 94, "c": 92}
    assert place.rows("joined") == sorted(({"word": word, "n": newest[word]} for word, _ in place.sent), key=repr)
    assert next(iter(results.values())).epochs > 5


@pytest.mark.extended
def test_old_epochs_and_their_state_are_deleted(place: Place) -> None:
    place.send(100, 400)
    run = place.prepare("bounded", "pipelined")
    results = Stages(place, run).start().join()
    files = open_filesystem(place.runtime.root)
    folder = place.folder_of(run, "by-word").folder
    assert results["lines"].epochs > 30
    assert len(files.list(place.folder_of(run, "lines").folder.epochs)) <= 32
    assert len(files.list(folder.states)) <= 12
    assert place.counted() == place.expected()


def test_an_attempt_that_takes_over_the_second_epoch_goes_on_from_the_state_of_the_first(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = place.prepare("bounded", "pipelined")
    Stages(place, run).start("lines").join()
    commits = itertools.count()

    def reach(name: str) -> None:
        if name == "before-commit" and next(commits) == 1:
            raise Died

    with monkeypatch.context() as patched:
        patched.setattr(finish, "reach", reach)
        with pytest.raises(Died):
            run_stage(place.runtime, run, "by-word", 1, {})
    files = open_filesystem(place.runtime.root)
    intent = newest_intent(files, place.folder_of(run, "by-word").folder)
    assert intent is not None
    assert intent.epoch == 1
    Stages(place, run).start("by-word").join()
    assert place.counted() == place.expected()
    assert place.minutes() == place.expected_minutes()


def test_a_lost_producer_is_seen_behind_a_stream_that_the_stage_writes_itself(place: Place) -> None:
    run = place.prepare("bounded", "pipelined")
    lost = place.folder_of(run, "lines")
    files = open_filesystem(place.runtime.root)
    files.make_dirs(lost.folder.attempts)
    place.runtime.abort(lost, "retries are exhausted")
    writers = {"again": "by-word", "by-word": "lines"}
    circular: Any = SimpleNamespace(
        application=run.application,
        run_id=run.run_id,
        generation=run.generation,
        folder=run.folder,
        generations=run.generations,
        plan=SimpleNamespace(stage=lambda stage_id: SimpleNamespace(inputs=tuple(writers))),
        is_own=lambda stream_id: True,
        writer_stage=writers.__getitem__,
    )
    with pytest.raises(StageError, match="that stage failed for good"):
        Producers(files, {"log": place.log}, circular, place.folder_of(run, "by-word"), None).reject_lost()


@pytest.mark.parametrize(
    ("passed", "head", "active"), [(0.9, 0, []), (1.0, 0, [0]), (1.0, 5, [0, 1]), (0.0, 5, [0, 1])]
)
def test_a_task_that_follows_the_clock_has_an_epoch_a_second_where_no_task_has_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, passed: float, head: int, active: list[int]
) -> None:
    records = Records(tmp_path, views, partitions=3)
    attempt = Attempt(StageHandle("views", "run-1", "page-views", Generation(1, 1), 1))
    now = 50.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    loop = StageLoop(LocalEngine(), StageContext(records.files, {}, attempt, {}, {}, records.run))
    loop._positions = {task: TaskPosition(records.run.plan, "page-views", task, None) for task in range(3)}
    loop._positions[0].take(of_task(0, 0, 0, follows_clock=True))
    loop._positions[2].take(of_task(2, 0, 0, follows_clock=True, ended=True))
    now += passed
    assert loop._active({"page-views": InputIntent("page-views", {"offsets": [[0, head]] * 3})}) == active

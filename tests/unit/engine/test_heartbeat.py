"""A runner's signs of life, its own and its engine's, by a clock that a test sets."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_samza.engine import heartbeat
from airflow_samza.engine.heartbeat import (
    BUSY_AFTER_SECONDS,
    SILENT_AFTER_SECONDS,
    EngineLiveness,
    RunnerHeartbeat,
    silent,
)
from airflow_samza.engine.runner_records import RunnerRecords
from airflow_samza.errors import StorageFull
from airflow_samza.runs.records.folders import RunFolder, must_read, read, write_once
from airflow_samza.runs.records.liveness import identity
from airflow_samza.runs.stages.stage_runners import Claim, Heartbeat, RunnerEnd, RunnerFolder, StageRequest
from airflow_samza.runs.stages.stage_state import FAILED, RUNNING, SUCCEEDED, StatusRecord
from airflow_samza.systems.filesystems.local import LocalFilesystem

FOLDER = RunnerFolder(RunFolder("app", "run-1"), "key", 1)


class Clock:
    """The time, which passes when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    time = monotonic

    def sleep(self, seconds: float) -> None:
        threading.Event().wait(seconds)


class Engine:
    """An engine that answers, and works, as a test says."""

    place = "this engine"
    is_up = True

    def __init__(self) -> None:
        self.worked: float | None = 0.0
        self.acts: list[str] = []

    def processor_seconds(self) -> float | None:
        return self.worked

    def cancel(self, tag: str) -> None:
        self.acts.append(f"cancel {tag}")
        raise ConnectionError("it is gone")

    def kill(self) -> None:
        self.acts.append("kill")


class NoThread:
    """Stands for a thread that is never started: what it would do, a test does."""

    def __init__(self, target: Callable[[], Any], name: str, daemon: bool) -> None:
        self.name = name

    def start(self) -> None: ...


class Ground:
    def __init__(self, root: Path, clock: Clock) -> None:
        self.files = LocalFilesystem(root)
        self.clock = clock
        self.engine: Any = Engine()
        self.records = RunnerRecords(self.files, FOLDER)
        self.heartbeat = RunnerHeartbeat(self.files, FOLDER, self.records, "")
        write_once(self.files, FOLDER.claim, Claim(**identity(), claimed_at=1.0))

    def attempt(self, stage: str, state: str) -> Any:
        name = f"{stage}@1.1@1.json"
        write_once(self.files, f"{FOLDER.queue}/{name}", StageRequest(stage, "1.1", 1))
        attempt = self.records.take(name)
        assert attempt is not None
        attempt.write_status(state)
        return attempt

    def status(self, attempt: Any) -> StatusRecord:
        return must_read(self.files, attempt.handle.folder.attempt(1, "status"), StatusRecord)

    def liveness(self) -> EngineLiveness:
        self.heartbeat.listen_to(self.engine)
        found = self.heartbeat._liveness
        assert found is not None
        return found

    def pass_silently(self, liveness: EngineLiveness, seconds: float) -> None:
        """Let so much time pass in which the engine answers nothing, tick by tick."""
        for _ in range(int(seconds)):
            self.clock.now += 1.0
            liveness.tick()


@pytest.fixture
def ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ground:
    clock = Clock()
    monkeypatch.setattr(heartbeat, "time", clock)
    monkeypatch.setattr(heartbeat, "threading", SimpleNamespace(Thread=NoThread, Lock=threading.Lock))
    return Ground(tmp_path, clock)


# -- its own -----------------------------------------------------------------------------------------------------------


def test_a_sign_of_life_has_the_time_and_that_of_the_engines_last_answer(ground: Ground) -> None:
    ground.heartbeat._write()
    assert read(ground.files, FOLDER.heartbeat, Heartbeat) == Heartbeat(1000.0, None)
    ground.liveness()
    ground.clock.now += 5
    ground.heartbeat._write()
    assert read(ground.files, FOLDER.heartbeat, Heartbeat) == Heartbeat(1005.0, 1000.0)


def test_what_could_not_be_written_comes_before_the_next_sign_of_life(ground: Ground) -> None:
    attempt = ground.attempt("views", RUNNING)
    path = attempt.handle.folder.attempt(1, "status")
    ground.files.delete(path)
    ground.heartbeat._write()
    assert ground.status(attempt).state == RUNNING


def test_a_runner_whose_place_is_gone_gives_no_sign_of_life(ground: Ground) -> None:
    ground.files.delete(FOLDER.claim)
    ground.heartbeat._write()
    assert not ground.heartbeat.is_there
    assert not ground.files.exists(FOLDER.heartbeat)


def test_a_runner_that_was_taken_for_dead_finds_out_by_its_heartbeat(ground: Ground) -> None:
    FOLDER.give_up(ground.files)
    ground.heartbeat._write()
    assert ground.records.is_replaced.is_set()


def test_on_a_full_disk_what_runs_fails_and_what_has_ended_stays(ground: Ground) -> None:
    done, running = ground.attempt("views", SUCCEEDED), ground.attempt("by-member", RUNNING)
    ground.liveness()
    ground.heartbeat._give_up_attempts(StorageFull("The disk is full."))
    assert (ground.status(done).state, done.cancelled.is_set()) == (SUCCEEDED, False)
    assert (ground.status(running).state, running.cancelled.is_set()) == (FAILED, True)
    assert (ground.status(running).error or {})["sentence"] == "The disk is full."
    assert ground.engine.acts == ["cancel by-member@1.1@1"]  # that it does not answer matters to nobody


def test_before_there_is_an_engine_none_is_cancelled_on_a_full_disk(ground: Ground) -> None:
    running = ground.attempt("views", RUNNING)
    ground.heartbeat._give_up_attempts(StorageFull("The disk is full."))
    assert running.cancelled.is_set()


# -- the engine's ------------------------------------------------------------------------------------------------------


def test_an_engine_that_answers_lives(ground: Ground) -> None:
    liveness = ground.liveness()
    for _ in range(3):
        ground.pass_silently(liveness, SILENT_AFTER_SECONDS - 1)
        assert not liveness.is_lost
        liveness._answers += 1
        liveness.tick()


def test_an_engine_that_is_silent_and_idle_is_gone(ground: Ground) -> None:
    liveness = ground.liveness()
    liveness._answers += 1
    liveness.tick()
    ground.pass_silently(liveness, SILENT_AFTER_SECONDS - 1)
    assert not liveness.is_lost
    ground.pass_silently(liveness, 1)
    assert liveness.is_lost


def test_an_engine_that_works_may_be_silent_for_longer(ground: Ground) -> None:
    liveness = ground.liveness()
    liveness._answers += 1
    liveness.tick()
    ground.engine.worked = 0.5 * BUSY_AFTER_SECONDS
    ground.pass_silently(liveness, BUSY_AFTER_SECONDS - 1)
    assert not liveness.is_lost
    ground.pass_silently(liveness, 1)
    assert liveness.is_lost


@pytest.mark.parametrize("worked", [None, 0.01 * SILENT_AFTER_SECONDS])
def test_an_engine_of_which_no_work_is_seen_does_not_work(ground: Ground, worked: float | None) -> None:
    liveness = ground.liveness()
    liveness._answers += 1
    liveness.tick()
    ground.engine.worked = worked
    ground.pass_silently(liveness, SILENT_AFTER_SECONDS)
    assert liveness.is_lost


def test_time_in_which_this_process_was_frozen_counts_little(ground: Ground) -> None:
    liveness = ground.liveness()
    ground.clock.now += 3600
    liveness.tick()
    assert not liveness.is_lost


def test_an_engine_that_is_gone_is_killed_and_what_it_ran_fails(ground: Ground) -> None:
    done, running = ground.attempt("views", SUCCEEDED), ground.attempt("by-member", RUNNING)
    liveness = ground.liveness()
    ground.heartbeat._look_after_spark()
    assert (ground.heartbeat.lost, ground.engine.acts) == (None, [])
    ground.pass_silently(liveness, SILENT_AFTER_SECONDS)
    ground.heartbeat._look_after_spark()
    assert ground.heartbeat.lost is not None
    assert ground.engine.acts == ["kill"]
    assert [ground.status(attempt).state for attempt in (done, running)] == [SUCCEEDED, FAILED]
    assert "while the stage by-member ran" in (ground.status(running).error or {})["sentence"]
    assert must_read(ground.files, FOLDER.closed, RunnerEnd).why == "Spark does not answer"
    ground.heartbeat._look_after_spark()
    assert ground.engine.acts == ["kill"]  # once


def test_a_silence_is_told_with_its_beginning(ground: Ground) -> None:
    error = silent(ground.engine, 3661.0, "views")
    assert error.sentence == (
        "This engine has not answered since 01:01:01 UTC, while the stage views ran: it is frozen."
    )
    assert silent(ground.engine, 3661.0).sentence == "This engine has not answered since 01:01:01 UTC: it is frozen."


def test_a_java_that_is_frozen_before_it_is_an_engine_is_killed_after_a_while(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed: list[int] = []
    java: Any = SimpleNamespace(pid=7, kill=lambda: killed.append(7))
    frozen = [java]
    monkeypatch.setattr(heartbeat, "_children", lambda: list(frozen))
    monkeypatch.setattr(heartbeat, "_is_frozen", lambda child: True)
    name = "views@1.1@1.json"
    write_once(ground.files, f"{FOLDER.queue}/{name}", StageRequest("views", "1.1", 1))
    for _ in range(int(SILENT_AFTER_SECONDS) - 1):
        ground.heartbeat._look_after_spark()
    frozen.clear()  # it goes on
    ground.heartbeat._look_after_spark()
    frozen.append(java)
    for _ in range(int(SILENT_AFTER_SECONDS) - 1):
        ground.heartbeat._look_after_spark()
    assert (ground.heartbeat.lost, killed) == (None, [])
    ground.heartbeat._look_after_spark()
    ground.heartbeat._look_after_spark()
    assert ground.heartbeat.lost is not None
    assert ground.heartbeat.lost.sentence == "Java was frozen for 40 s before Spark was up (process 7)."
    assert killed == [7]
    (attempt,) = ground.records.attempts()
    assert ground.status(attempt).state == FAILED

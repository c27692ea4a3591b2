"""Runners that freeze, whose disk is full or whose Spark hangs: noticed, replaced, and harmless when they wake up."""

from __future__ import annotations

import dataclasses
import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from airflow_samza.engine.runner_records import AttemptState
from airflow_samza.errors import SamzaError, StageLost, StorageFull, TopicError
from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.runs.records import liveness
from airflow_samza.runs.records.folders import RunFolder, must_read, read, replace, write_once
from airflow_samza.runs.records.liveness import Heartbeats
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages import stage_runners
from airflow_samza.runs.stages.stage_runners import (
    Claim,
    Heartbeat,
    RunnerFolder,
    RunnerPlace,
    StageRequest,
    all_runners,
)
from airflow_samza.runs.stages.stage_state import (
    FAILED,
    LOST,
    RUNNING,
    SUCCEEDED,
    StageHandle,
    StageProgress,
    StatusRecord,
)
from airflow_samza.systems.filesystems.opening import open_filesystem
from tests.support import runner_without_spark
from tests.support.faulty_filesystem import FaultyFilesystem, failing_with
from tests.support.looping import APPLICATION, Place
from tests.support.runner_without_spark import Dials
from tests.support.small_disks import small_disk
from tests.support.waiting import until

PATIENCE = 60.0


class Ground:
    """A root with lines, and runners that are real processes without a Spark."""

    def __init__(self, folder: Path, dials: Dials) -> None:
        self.place = Place(folder)
        self.dials = dials
        self.files = open_filesystem(self.place.runtime.root)
        self.place.send(0, 40)
        self.run: RunPlan = self.place.prepare("bounded", "staged")

    @property
    def stages(self) -> list[str]:
        return [stage.stage_id for stage in self.run.plan.stages]

    def submit(self, stage: str) -> StageHandle:
        return self.place.runtime.submit(self.run, stage)

    def held(self) -> StageHandle:
        """The first stage, which runs and is held up."""
        self.dials.turn("hold")
        handle = self.submit(self.stages[0])
        until(lambda: self.place.runtime.status(handle).state == RUNNING)
        return handle

    def end(self, handle: StageHandle) -> str:
        """The end of a stage."""
        return self.place.runtime.wait(handle, timeout=PATIENCE).state

    def runners(self) -> list[RunnerFolder]:
        return all_runners(self.files, self.run_folder)

    @property
    def run_folder(self) -> RunFolder:
        return self.place.folder_of(self.run, self.stages[0]).run

    def process(self, number: int = 1) -> psutil.Process:
        """The process of a runner."""
        claim = read(self.files, next(runner for runner in self.runners() if runner.number == number).claim, Claim)
        assert claim is not None
        return psutil.Process(claim.pid)

    def log(self) -> str:
        return "".join(self.files.read(runner.log).decode() for runner in self.runners())

    def the_rest(self) -> None:
        """Runs all stages to their end; the outputs are those of an undisturbed run."""
        for stage in self.stages:
            handle = self.submit(stage)
            assert self.end(handle) == SUCCEEDED, self.place.runtime.status(handle)
            self.place.runtime.finish(handle)
        assert self.place.copied() == sorted(self.place.sent)
        assert self.place.counted() == self.place.expected()
        assert self.place.minutes() == self.place.expected_minutes()

    def close(self) -> None:
        for name in ("hold", "disk-full", "spark-frozen"):
            self.dials.turn(name, None)
        for runner in self.runners():
            claim = runner.who(self.files) or {}
            if liveness.process_is_there(claim):
                os.kill(claim["pid"], signal.SIGKILL)


@pytest.fixture
def ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ground]:
    (tmp_path / "looping_app.py").write_text(APPLICATION)
    monkeypatch.syspath_prepend(str(tmp_path))
    made = Ground(tmp_path, runner_without_spark.use_instead(monkeypatch, tmp_path / "dials"))
    yield made
    made.close()


@contextmanager
def impatience(frozen: psutil.Process) -> Iterator[None]:
    """A frozen process is given up after two seconds meanwhile, and no other one: under load anybody is silent so long."""
    judge = Heartbeats.is_alive

    def judged(self: Heartbeats, path: str, who: Mapping[str, Any], at: float, beat: float = 0.0) -> bool:
        with pytest.MonkeyPatch.context() as patch:
            if who.get("pid") == frozen.pid:
                patch.setattr(liveness, "FROZEN_AFTER_SECONDS", 1.0)
                patch.setattr(liveness, "CONFIRM_SECONDS", 1.0)
            return judge(self, path, who, at, beat)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Heartbeats, "is_alive", judged)
        yield


@pytest.mark.extended
def test_a_failure_is_told_as_soon_as_there_is_room_to_tell_it(ground: Ground) -> None:
    handle = ground.held()
    ground.dials.turn("disk-full")
    ground.dials.turn("hold", None)
    until(lambda: f"{handle.stage_id}@{handle.generation}@{handle.attempt}: There is no room left" in ground.log())
    assert ground.place.runtime.status(handle).state == RUNNING
    ground.dials.turn("disk-full", None)
    assert ground.end(handle) == FAILED
    with pytest.raises(StorageFull):
        ground.place.runtime.finish(handle)
    ground.the_rest()
    assert len(ground.runners()) == 1


@pytest.fixture
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A small disk of its own, where this process may mount one; else a folder."""
    place = tmp_path_factory.mktemp("disk")
    with small_disk(place, 24):
        yield place


@pytest.fixture
def ground_on_disk(disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ground]:
    (disk / "looping_app.py").write_text(APPLICATION)
    monkeypatch.syspath_prepend(str(disk))
    sys.modules.pop("looping_app", None)
    made = Ground(disk, runner_without_spark.use_instead(monkeypatch, tmp_path / "dials"))
    yield made
    made.close()
    sys.modules.pop("looping_app", None)


@contextmanager
def filled(ground: Ground, disk: Path) -> Iterator[None]:
    """Nothing can be written to the disk meanwhile; where it is no mount, runners fail and others see it as full."""
    filler, look = disk / "filler", os.statvfs
    with pytest.MonkeyPatch.context() as patch:
        if disk.is_mount():
            with open(filler, "wb", buffering=0) as file, suppress(OSError):
                while True:
                    file.write(bytes(1 << 12))
        else:
            ground.dials.turn("disk-full")
            here = look(disk)
            patch.setattr(os, "statvfs", lambda path: os.statvfs_result((*here[:3], 0, 0, *here[5:])))
        yield
    ground.dials.turn("disk-full", None)
    filler.unlink(missing_ok=True)


@pytest.mark.extended
def test_a_full_disk_is_said_to_be_full_at_once_and_a_retry_with_room_does_not_fail_by_it(
    ground_on_disk: Ground, disk: Path
) -> None:
    ground, runtime = ground_on_disk, ground_on_disk.place.runtime
    handle = ground.held()
    with filled(ground, disk):
        began = time.monotonic()
        assert ground.end(handle) == FAILED
        assert time.monotonic() - began < liveness.FROZEN_AFTER_SECONDS / 2  # 40 s, and it takes 5 to 10
        with pytest.raises(StorageFull, match=r"The disk of the root .* is full \(.*\), and the stage runner \("):
            runtime.finish(handle)
        with pytest.raises(StorageFull):  # while there is no room, another try says so, too
            ground.submit(ground.stages[0])
    again = ground.submit(ground.stages[0])
    assert again.attempt > handle.attempt
    ground.dials.turn("hold", None)
    ground.the_rest()
    assert len(ground.runners()) == 1


@pytest.mark.extended
def test_a_runner_that_cannot_start_on_a_full_disk_is_said_to_lack_room(
    ground_on_disk: Ground, disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ground = ground_on_disk
    started = subprocess.Popen

    def popen(command: list[str], **more: Any) -> Any:  # before the runner is given its settings
        process = started(command, **more)
        with open(disk / "filler", "wb", buffering=0) as file, suppress(OSError):
            while disk.is_mount():
                file.write(bytes(1 << 12))
        return process

    here = os.statvfs(disk)
    monkeypatch.setattr(subprocess, "Popen", popen)
    if not disk.is_mount():
        ground.dials.turn("disk-full")
        monkeypatch.setattr(os, "statvfs", lambda path: os.statvfs_result((*here[:3], 0, 0, *here[5:])))
    with pytest.raises(StorageFull, match=r"The disk of the root .* is full .*, and the stage runner did not start"):
        ground.submit(ground.stages[0])


@pytest.mark.extended
def test_a_frozen_runner_is_given_up_and_finds_itself_replaced_when_it_wakes_up(ground: Ground) -> None:
    handle = ground.held()
    frozen = ground.process()
    frozen.suspend()
    with impatience(frozen):
        assert ground.end(handle) == LOST
        with pytest.raises(StageLost, match=r"given no sign of life since \d\d:\d\d:\d\d UTC: it is frozen"):
            ground.place.runtime.finish(handle)
        again = ground.submit(ground.stages[0])
    assert (again.attempt, len(ground.runners())) == (handle.attempt + 1, 2)
    frozen.resume()
    frozen.wait(PATIENCE)  # it lets go of what was taken over, and ends
    assert "this runner was taken for dead" in ground.log()
    assert "a later attempt has taken its place" in ground.log()
    assert not ground.place.runtime.status(again).is_final
    ground.dials.turn("hold", None)
    ground.the_rest()
    assert len(ground.runners()) == 2


@pytest.mark.nightly
def test_a_runner_that_wakes_up_before_anybody_took_over_goes_on(ground: Ground) -> None:
    handle = ground.held()
    frozen = ground.process()
    frozen.suspend()
    with impatience(frozen):
        assert ground.end(handle) == LOST
    frozen.resume()
    until(lambda: ground.place.runtime.status(handle).state == RUNNING)
    ground.dials.turn("hold", None)
    ground.the_rest()
    assert len(ground.runners()) == 1


@pytest.mark.nightly
def test_a_spark_that_answers_nothing_is_given_up_and_replaced(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(runner_without_spark.PULSE_SECONDS, "2")
    handle = ground.held()
    held_up = ground.process()
    ground.dials.turn("spark-frozen")
    assert ground.end(handle) == FAILED
    with pytest.raises(
        StageLost, match=rf"Spark has not answered since .* UTC, while the stage {ground.stages[0]} ran: it is frozen"
    ):
        ground.place.runtime.finish(handle)
    held_up.wait(PATIENCE)
    ground.dials.turn("spark-frozen", None)
    ground.dials.turn("hold", None)
    ground.the_rest()
    assert len(ground.runners()) == 2


@pytest.mark.extended
def test_a_java_that_is_frozen_before_it_is_a_spark_is_given_up_and_replaced(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    ground.dials.turn("start-frozen")
    monkeypatch.setenv(runner_without_spark.PULSE_SECONDS, "2")
    handle = ground.submit(ground.stages[0])
    assert ground.end(handle) == FAILED
    with pytest.raises(StageLost, match=r"Java was frozen for \d+ s before Spark was up \(process \d+\)"):
        ground.place.runtime.finish(handle)
    ground.dials.turn("start-frozen", None)
    ground.the_rest()


@pytest.mark.nightly
def test_a_runner_whose_container_is_gone_is_replaced_when_work_is_to_be_left_to_it(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its heartbeat is young, and its process cannot be looked up from here."""
    first, second, *_ = ground.stages
    assert ground.end(ground.submit(first)) == SUCCEEDED
    gone = ground.runners()[0]
    ground.process().kill()
    claim = must_read(ground.files, gone.claim, Claim)
    replace(ground.files, gone.claim, dataclasses.replace(claim, place="another host"))
    replace(ground.files, gone.heartbeat, Heartbeat(time.time()))
    monkeypatch.setattr(stage_runners, "SEEN", Heartbeats())  # another process asks, which has seen nothing yet
    monkeypatch.setattr(stage_runners, "ATTACH_SECONDS", 1.5)
    handle = ground.submit(second)
    assert ground.end(handle) == SUCCEEDED
    assert handle.attempt == 1
    assert len(ground.runners()) == 2
    ground.the_rest()


@pytest.mark.extended
def test_a_try_whose_runner_was_dead_at_attach_is_replaced_and_not_reported(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = ground.held()
    gone = ground.runners()[0]
    ground.process().kill()
    claim = must_read(ground.files, gone.claim, Claim)
    replace(ground.files, gone.claim, dataclasses.replace(claim, place="another host"))
    replace(ground.files, gone.heartbeat, Heartbeat(time.time()))
    monkeypatch.setattr(stage_runners, "SEEN", Heartbeats())  # another process asks, which has seen nothing yet
    monkeypatch.setattr(stage_runners, "ATTACH_SECONDS", 1.5)
    ground.dials.turn("hold", None)
    again = ground.submit(ground.stages[0])
    assert again.attempt == handle.attempt + 1
    assert ground.end(again) == SUCCEEDED


@pytest.mark.extended
def test_runtimes_of_two_owners_share_no_runner(ground: Ground) -> None:
    for owner, stage in zip(("first", "second"), ground.stages, strict=False):
        runtime = SparkRuntime(ground.place.runtime.root, owner=owner)
        assert runtime.wait(runtime.submit(ground.run, stage), timeout=PATIENCE).state == SUCCEEDED
    assert len({runner.key for runner in ground.runners()}) == 2


@pytest.mark.extended
def test_a_damaged_request_fails_by_name_and_the_runner_goes_on(ground: Ground) -> None:
    first, second, *_ = ground.stages
    assert ground.end(ground.submit(first)) == SUCCEEDED
    runner = ground.runners()[0]
    handle = ground.place.folder_of(ground.run, second)
    request = StageRequest(second, "1.1", 1, runner=RunnerPlace(runner.key, runner.number))
    write_once(ground.files, handle.folder.attempt(1, "request"), request)
    ground.files.put(f"{runner.queue}/{second}@1.1@1.json", b'{"stage"')
    assert ground.end(handle) == FAILED
    with pytest.raises(TopicError, match=rf"{second}@1\.1@1\.json is damaged"):
        ground.place.runtime.finish(handle)
    ground.the_rest()
    assert len(ground.runners()) == 1


DAMAGES = [b"", b"{", b"[]", b'{"at": null}', b"\xff\xfe", b"[" * 100_000]


@pytest.mark.extended
def test_a_damaged_record_that_only_tells_stops_nothing(ground: Ground) -> None:
    first = ground.stages[0]
    handle = ground.held()
    runner = ground.runners()[0]
    process = ground.process()
    for damage in DAMAGES:
        for path in (handle.folder.attempt(handle.attempt, "status"), runner.heartbeat, runner.claim):
            ground.files.put(path, damage)
            assert not ground.place.runtime.status(handle).is_final
    assert ground.submit(first).attempt == handle.attempt
    ground.dials.turn("hold", None)
    assert ground.end(handle) == SUCCEEDED
    process.kill()


def test_progress_that_cannot_be_written_kills_no_stage_and_is_told_later(tmp_path: Path) -> None:
    files = FaultyFilesystem(tmp_path, 1, failing_with(errno.ENOSPC), lasting=True)
    attempt = AttemptState(files, RunFolder("a", "r"), StageRequest("s", "1.1", 1))
    attempt.write_status(RUNNING)
    attempt.report(StageProgress(epochs=1))
    attempt.write_status(FAILED, SamzaError("It failed."))
    attempt.write_status(SUCCEEDED)
    assert (attempt.is_over, attempt.is_settled) == (True, False)
    files.at = None
    attempt.write_status()
    assert (attempt.is_over, attempt.is_settled) == (True, True)
    told = read(files, attempt.handle.folder.attempt(1, "status"), StatusRecord)
    assert told is not None
    assert (told.state, (told.error or {})["sentence"], told.progress and told.progress.epochs) == (
        FAILED,
        "It failed.",
        1,
    )

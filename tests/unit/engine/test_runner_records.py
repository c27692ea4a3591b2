"""The records that a stage runner writes itself: of its attempts, and of its own end."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from airflow_samza.engine.runner_records import RunnerRecords
from airflow_samza.errors import StageFailed, StageLost, TopicError
from airflow_samza.runs.records.folders import RunFolder, read, write_once
from airflow_samza.runs.stages.stage_runners import RunnerEnd, RunnerFolder, StageRequest
from airflow_samza.runs.stages.stage_state import CANCELLED, FAILED, RUNNING, SUCCEEDED, StatusRecord
from airflow_samza.systems.filesystems.local import LocalFilesystem

FOLDER = RunnerFolder(RunFolder("app", "run-1"), "key", 1)
FIRST, SECOND = "views@1.1@1.json", "by-member@1.1@1.json"


class Disk(LocalFilesystem):
    """A root that has no room for files whose paths have the word ``full``, while a test wants it."""

    full = ""

    def put(self, path: str, data: bytes) -> None:
        self._reject_full(path)
        super().put(path, data)

    def put_if_absent(self, path: str, data: bytes, *, durable: bool = True) -> bool:
        self._reject_full(path)
        return super().put_if_absent(path, data, durable=durable)

    def _reject_full(self, path: str) -> None:
        if self.full and self.full in path:
            raise OSError(errno.ENOSPC, "No space left on device")


class Ground:
    """A root with a runner's folder, and the runner's records."""

    def __init__(self, root: Path) -> None:
        self.files = Disk(root)
        self.records = RunnerRecords(self.files, FOLDER)

    def ask(self, *names: str) -> None:
        for name in names:
            stage, generation, attempt = name.removesuffix(".json").split("@")
            write_once(self.files, f"{FOLDER.queue}/{name}", StageRequest(stage, generation, int(attempt)))

    def end(self) -> RunnerEnd | None:
        return read(self.files, FOLDER.closed, RunnerEnd)

    def status(self, name: str = FIRST) -> StatusRecord | None:
        attempt = next(attempt for attempt in self.records.attempts() if f"{attempt.group}.json" == name)
        return read(self.files, attempt.handle.folder.attempt(1, "status"), StatusRecord)


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path)


def test_a_request_is_taken_once(ground: Ground) -> None:
    ground.ask(FIRST)
    attempt = ground.records.take(FIRST)
    assert attempt is not None
    assert (attempt.group, attempt.handle.stage_id, attempt.handle.attempt) == ("views@1.1@1", "views", 1)
    assert ground.records.take(FIRST) is None
    assert ground.records.attempts() == [attempt]


def test_a_request_that_is_gone_again_is_none(ground: Ground) -> None:
    assert ground.records.take(FIRST) is None
    assert ground.records.attempts() == []


def test_a_damaged_request_fails_its_attempt_and_is_not_taken_again(
    ground: Ground, caplog: pytest.LogCaptureFixture
) -> None:
    ground.files.put(f"{FOLDER.queue}/{FIRST}", b"{")
    assert ground.records.take(FIRST) is None
    status = ground.status()
    assert status is not None
    assert status.state == FAILED
    assert FIRST in caplog.text
    assert ground.records.take(FIRST) is None
    assert len(ground.records.attempts()) == 1


@pytest.mark.parametrize("name", ["views.json", "views@1.1@last.json"])
def test_a_damaged_request_of_no_attempt_is_passed_over(ground: Ground, name: str) -> None:
    ground.files.put(f"{FOLDER.queue}/{name}", b"{")
    assert ground.records.take(name) is None
    assert ground.records.attempts() == []


def test_a_request_that_the_storage_does_not_give_is_asked_for_again(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(files: Any, path: str) -> bytes:
        raise TopicError("It cannot be read.", errno=errno.EIO)

    ground.ask(FIRST)
    with monkeypatch.context() as patch:
        patch.setattr(LocalFilesystem, "read", away)
        with pytest.raises(TopicError):
            ground.records.take(FIRST)
    assert ground.records.take(FIRST) is not None


def test_the_end_says_why_with_its_error(ground: Ground) -> None:
    assert ground.records.close("Spark is gone", StageLost("It is gone."))
    end = ground.end()
    assert end is not None
    assert (end.why, (end.error or {})["sentence"], end.at > 0) == ("Spark is gone", "It is gone.", True)


def test_the_first_reason_of_an_end_stands(ground: Ground) -> None:
    ground.records.close("idle")
    assert ground.records.close("over", StageLost("It is gone."))
    end = ground.end()
    assert end is not None
    assert (end.why, end.error) == ("idle", None)


def test_an_end_that_cannot_be_written_is_written_later_with_its_first_reason(ground: Ground) -> None:
    assert ground.records.are_written()
    ground.files.full = "closed"
    assert not ground.records.close("Spark is gone", StageLost("It is gone."))
    assert not ground.records.are_written()
    assert not ground.records.close("over")
    ground.files.full = ""
    ground.records.write_statuses()
    assert ground.records.are_written()
    end = ground.end()
    assert end is not None
    assert (end.why, (end.error or {})["sentence"]) == ("Spark is gone", "It is gone.")


def test_a_runner_that_does_not_end_writes_no_end(ground: Ground) -> None:
    ground.records.write_statuses()
    assert ground.end() is None


def test_who_came_meanwhile_gets_the_error(ground: Ground) -> None:
    ground.ask(FIRST)
    taken = ground.records.take(FIRST)
    assert taken is not None
    taken.write_status(RUNNING)
    ground.ask(SECOND)
    ground.records.reject_all(StageFailed("Spark does not start."), "did not start")
    second, first, end = ground.status(SECOND), ground.status(), ground.end()
    assert second is not None
    assert first is not None
    assert end is not None
    assert (second.state, (second.error or {})["sentence"]) == (FAILED, "Spark does not start.")
    assert (first.state, end.why) == (RUNNING, "did not start")


def test_an_end_of_an_attempt_that_cannot_be_written_is_written_later(ground: Ground) -> None:
    ground.ask(FIRST)
    attempt = ground.records.take(FIRST)
    assert attempt is not None
    assert ground.records.are_written()  # an attempt that goes on is waited for by nobody here
    ground.files.full = "status"
    attempt.write_status(SUCCEEDED)
    assert not ground.records.are_written()
    ground.files.full = ""
    ground.records.write_statuses()
    status = ground.status()
    assert status is not None
    assert (status.state, ground.records.are_written()) == (SUCCEEDED, True)


def test_a_settled_attempt_is_not_written_again(ground: Ground) -> None:
    ground.ask(FIRST)
    attempt = ground.records.take(FIRST)
    assert attempt is not None
    attempt.write_status(SUCCEEDED)
    path = attempt.handle.folder.attempt(1, "status")
    ground.files.delete(path)
    ground.records.write_statuses()
    assert not ground.files.exists(path)


def test_a_wait_for_what_is_written_takes_no_time_and_one_for_the_rest_ends(ground: Ground) -> None:
    ground.records.wait_until_written(3600.0)
    ground.files.full = "closed"
    ground.records.close("idle")
    ground.records.wait_until_written(0.0)
    assert not ground.records.are_written()


def test_a_runner_that_others_have_closed_notices_it(ground: Ground) -> None:
    ground.records.look_who_took_over()
    assert not ground.records.is_replaced.is_set()
    FOLDER.give_up(ground.files)
    ground.records.look_who_took_over()
    assert ground.records.is_replaced.is_set()


def test_a_runner_that_has_closed_itself_was_not_replaced(ground: Ground) -> None:
    ground.records.close("idle")
    ground.records.look_who_took_over()
    assert not ground.records.is_replaced.is_set()


@pytest.mark.parametrize("over", [False, True])
def test_an_attempt_that_goes_on_lets_go_when_a_later_one_was_made(ground: Ground, over: bool) -> None:
    ground.ask(FIRST, SECOND)
    first, second = (ground.records.take(name) for name in (FIRST, SECOND))
    assert first is not None
    assert second is not None
    if over:
        first.write_status(CANCELLED)
    write_once(ground.files, first.handle.folder.attempt(2, "request"), StageRequest("views", "1.1", 2))
    ground.records.look_who_took_over()
    assert (first.cancelled.is_set(), second.cancelled.is_set()) == (not over, False)

"""Triggers on pushed tables: their events, and what they write into the log of the task."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from airflow_samza.provider.triggers.tables import PushLog, TableFreshnessTrigger, TablePushTrigger
from airflow_samza.runs.records.folders import replace, write_once
from airflow_samza.runs.records.liveness import identity
from airflow_samza.runs.stages.stage_runners import Claim, Heartbeat, RunnerFolder, RunnerPlace, StageRequest
from airflow_samza.runs.stages.stage_state import CANCELLED, QUEUED, RUNNING, StageStatus, StatusRecord
from tests.support.pushes import TOPIC, Pushes


class Push:
    """A push at work, and the trigger that waits for it."""

    def __init__(self, root: Path) -> None:
        self.pushes = Pushes(root)
        self.files = self.pushes.files
        self.handle = self.pushes.request("monday").handle
        runner = RunnerFolder(self.handle.run, "key", 1)
        write_once(self.files, runner.claim, Claim(**identity(), claimed_at=1.0))
        replace(self.files, runner.heartbeat, Heartbeat(1e12))
        request = StageRequest(self.handle.stage_id, str(self.handle.generation), 1, runner=RunnerPlace("key", 1))
        write_once(self.files, self.handle.folder.attempt(1, "request"), request)
        self.tell(RUNNING)
        self.trigger = TablePushTrigger(root=str(root), poll_interval=0.01, push=self.handle.to_dict())

    def tell(self, state: str) -> None:
        replace(self.files, self.handle.folder.attempt(1, "status"), StatusRecord(state, at=5.0))

    def look(self) -> Any:
        return self.trigger.look(self.files)


@pytest.fixture
def push(tmp_path: Path) -> Push:
    return Push(tmp_path)


def test_a_push_is_waited_for_until_it_has_ended_in_whatever_way(push: Push) -> None:
    assert push.look() is None
    push.tell(CANCELLED)
    assert push.look() == {"state": "cancelled", "said": {push.handle.stage_id: "cancelled (attempt 1)"}}


def test_what_the_log_of_the_task_has_already_is_not_said_again(
    push: Push, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TablePushTrigger, "log", logging.getLogger("waiting"))
    caplog.set_level(logging.INFO, "waiting")
    push.look()
    push.look()
    assert len(caplog.records) == 1
    path, arguments = push.trigger.serialize()
    assert path == "airflow_samza.triggers.TablePushTrigger"
    said = {push.handle.stage_id: "running (attempt 1)"}
    again = TablePushTrigger(**{**arguments, "said": said})
    again.look(push.files)
    assert len(caplog.records) == 1


def test_a_user_who_ends_the_task_cancels_the_push(push: Push) -> None:
    asyncio.run(push.trigger.on_kill())
    assert push.files.exists(push.handle.folder.attempt(1, "cancel"))


def test_the_tasks_of_a_push_that_are_done_are_said_when_there_are_more(push: Push) -> None:
    told: list[str] = []
    log = PushLog(told.append)
    for tasks, done in ((0, 0), (2, 0), (2, 1), (2, 1), (2, 2)):
        log.look(push.handle, StageStatus(QUEUED, 1, tasks=tasks, tasks_done=done))
    assert told == [
        f"Stage {push.handle.stage_id}: queued (attempt 1)",
        "Push: 1 of 2 tasks have staged their rows",
        "Push: 2 of 2 tasks have staged their rows",
    ]


def test_readers_are_waited_for_until_they_have_the_version_and_news_are_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TableFreshnessTrigger, "log", logging.getLogger("waiting"))
    caplog.set_level(logging.INFO, "waiting")
    pushes = Pushes(tmp_path)
    pushes.push("monday", {1: "gold"})
    table = {"application": "app", "stream_id": "profiles-push", "system": "log", "topic": TOPIC.name, "number": 1}
    waits = TableFreshnessTrigger(root=str(tmp_path), poll_interval=0.01, table={**table, "least": 1})
    assert [waits.look(pushes.files) for _ in range(2)] == [None, None]
    assert len(caplog.records) == 1
    needs_none = TableFreshnessTrigger(root=str(tmp_path), poll_interval=0.01, table={**table, "least": 0})
    assert needs_none.look(pushes.files) == {"readers": {}, "version": 1}

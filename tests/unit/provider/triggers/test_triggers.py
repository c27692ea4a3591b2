"""Triggers look at records under a root and end with one event; only a user's act cancels anything."""

from __future__ import annotations

import asyncio
import importlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import BaseHook, Connection
from asgiref.sync import async_to_sync

from airflow_samza.application.loader import load_application
from airflow_samza.planner.planner import ExecutionPlanner
from airflow_samza.provider import airflow_versions, producer_tasks
from airflow_samza.provider.producer_tasks import ProducerTasks
from airflow_samza.provider.triggers import runs as triggers, settling
from airflow_samza.provider.triggers.runs import RunTrigger, SamzaProducersTrigger, SamzaStageTrigger, SamzaStateTrigger
from airflow_samza.runs.records.epoch_records import InputIntent, Intent
from airflow_samza.runs.records.folders import RunFolder, StageFolder, replace, write_once
from airflow_samza.runs.records.liveness import identity
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import BoundStream, RunPlan
from airflow_samza.runs.stages.run_ends import abort
from airflow_samza.runs.stages.stage_runners import Claim, RunnerFolder, RunnerPlace, StageRequest
from airflow_samza.runs.stages.stage_state import CANCELLED, RUNNING, StageHandle, StatusRecord
from airflow_samza.runs.state_history.folder import StateHistory
from airflow_samza.runs.state_history.lease import FINISHED, end, take
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.filesystems.local import LocalFilesystem
from airflow_samza.systems.filesystems.root_access import NO_ACCESS, access_of
from airflow_samza.systems.system import StreamSpec
from tests.support.airflow_names import deserialize, serialize


class Run:
    """A planned run, whose stages are in whatever state a test says; their runner is this process."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self.files = LocalFilesystem(root)
        spec = load_application("provider_applications:views").spec({})
        plan = ExecutionPlanner({}, {"page-views": 2, "views-per-country": 2}).plan(spec)
        streams = {s.stream_id: BoundStream(s.stream_id, s.role, "log", StreamSpec(s.stream_id)) for s in plan.streams}
        self.plan = RunPlan("views", "1", "provider_applications:views", "run-1", 1, plan, streams)
        self.folder = RunFolder("views", "run-1")
        write_once(self.files, self.folder.plan(1), self.plan)
        write_once(self.files, RunnerFolder(self.folder, "key", 1).claim, Claim(**identity(), claimed_at=time.time()))

    def handle(self, stage: str) -> StageHandle:
        return StageHandle("views", "run-1", stage, Generation(1, 1), 1)

    def stage(self, stage: str) -> StageFolder:
        return self.handle(stage).folder

    def submit(self, stage: str) -> None:
        write_once(
            self.files,
            self.stage(stage).attempt(1, "request"),
            StageRequest(stage, "1.1", 1, runner=RunnerPlace("key", 1)),
        )

    def tell(self, stage: str, state: str) -> None:
        replace(self.files, self.stage(stage).attempt(1, "status"), StatusRecord(state, at=time.time()))

    def watching(self, *stages: str, **given: Any) -> SamzaStageTrigger:
        handles = [self.handle(stage).to_dict() for stage in stages]
        return SamzaStageTrigger(**{"root": self.root, "stages": handles, "poll_interval": 0.01, **given})

    def waiting(self, *upstream: str) -> SamzaProducersTrigger:
        return SamzaProducersTrigger(
            root=self.root,
            poll_interval=0.01,
            application="views",
            run_id="run-1",
            generation=1,
            upstream=list(upstream),
        )


@pytest.fixture
def run(tmp_path: Path) -> Run:
    run = Run(tmp_path)
    run.submit("page-views")
    run.tell("page-views", RUNNING)
    return run


def event_of(trigger: RunTrigger, meanwhile: Callable[[], object] = lambda: None) -> Any:
    """The payload of a trigger's only event; ``meanwhile`` happens a moment after it has begun to look."""

    async def wait() -> Any:
        asyncio.get_running_loop().call_later(0.05, meanwhile)
        return [event.payload async for event in trigger.run()]

    (payload,) = asyncio.run(asyncio.wait_for(wait(), 20))
    return payload


def test_it_ends_when_a_stage_has_ended(run: Run) -> None:
    run.submit("by-member")
    run.tell("by-member", RUNNING)
    trigger = run.watching("page-views", "by-member")
    assert event_of(trigger, lambda: run.tell("by-member", CANCELLED))["states"] == {"by-member": "cancelled"}


def stored(given: dict[str, Any]) -> dict[str, Any]:
    """Return arguments as another process reads them."""
    written: Any = serialize(given)
    read: Any = deserialize(written)
    return dict(read)


@pytest.mark.parametrize("kind", ["stage", "producers"])
def test_a_trigger_made_anew_elsewhere_is_the_same(run: Run, kind: str) -> None:
    trigger: RunTrigger = run.watching("page-views", deadline=7.0) if kind == "stage" else run.waiting("page-views")
    path, given = trigger.serialize()
    again = getattr(importlib.import_module(path.rpartition(".")[0]), path.rpartition(".")[2])(**stored(given))
    assert again.serialize() == trigger.serialize()


def test_it_ends_at_its_deadline(run: Run) -> None:
    assert event_of(run.watching("page-views", deadline=time.time() + 0.05)) == {"timed_out": True}


def test_a_root_that_cannot_be_seen_is_told_after_a_while(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(triggers, "PATIENCE_SECONDS", 0.05)
    event = event_of(run.watching("page-views", root=str(tmp_path / "elsewhere")))
    assert str(tmp_path / "elsewhere") in event["not_seen"]


def test_a_root_that_comes_back_is_waited_for(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plan = tmp_path / run.folder.plan(1)
    hidden = plan.rename(plan.with_suffix(".hidden"))

    def come_back() -> None:
        hidden.rename(plan)
        run.tell("page-views", CANCELLED)

    assert event_of(run.watching("page-views"), come_back)["states"] == {"page-views": "cancelled"}


def test_a_user_who_kills_the_task_cancels_its_stages_and_no_other(run: Run) -> None:
    run.submit("by-member")
    asyncio.run(run.watching("by-member").on_kill())
    assert run.files.exists(run.stage("by-member").attempt(1, "cancel"))
    assert not run.files.exists(run.stage("page-views").attempt(1, "cancel"))


def test_that_a_triggerer_stops_cancels_nothing(run: Run) -> None:
    async def stop_early() -> None:
        trigger = run.watching("page-views")
        task = asyncio.ensure_future(anext(trigger.run()))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await trigger.cleanup()

    asyncio.run(stop_early())
    assert not run.files.exists(run.stage("page-views").attempt(1, "cancel"))


@dataclass
class Task:
    """A task instance, of which Airflow knows a state."""

    state: str | None
    dag_id: str = "views"
    run_id: str = "manual"
    task_id: str = "page-views"
    map_index: int = -1


@pytest.mark.parametrize(
    ("hears", "state", "is_cancelled"),
    [
        (False, "failed", True),
        (False, "success", True),
        (False, None, True),
        (False, "deferred", False),
        (False, "scheduled", False),
        (False, "running", False),
        (True, "failed", False),
    ],
)
def test_where_airflow_does_not_tell_triggers_of_users_the_state_of_the_task_does(
    run: Run, monkeypatch: pytest.MonkeyPatch, hears: bool, state: str | None, is_cancelled: bool
) -> None:
    monkeypatch.setattr(producer_tasks, "triggers_hear_of_kills", lambda: hears)
    monkeypatch.setattr(ProducerTasks, "states", lambda asked: dict.fromkeys(asked.tasks, state))

    async def cancel() -> None:
        trigger: Any = run.watching("page-views")
        trigger.task_instance = Task(state)
        task = asyncio.ensure_future(anext(trigger.run()))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert run.files.exists(run.stage("page-views").attempt(1, "cancel")) == is_cancelled


def test_a_triggerer_that_cannot_ask_airflow_cancels_nothing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(asked: ProducerTasks) -> dict[str, str | None]:
        raise RuntimeError("the supervisor is gone")

    monkeypatch.setattr(producer_tasks, "triggers_hear_of_kills", lambda: False)
    monkeypatch.setattr(ProducerTasks, "states", stopped)
    assert asyncio.run(producer_tasks.ended_by_a_user(Task("deferred"))) is False


def test_airflow_tells_triggers_of_users_since_3_3() -> None:
    told = tuple(int(part) for part in airflow_versions.airflow_version().split(".")[:2]) >= (3, 3)
    assert airflow_versions.triggers_hear_of_kills() == told


def test_looks_can_ask_airflow_through_the_event_loop_of_the_triggerer(run: Run) -> None:
    async def answering() -> Any:
        return asyncio.get_running_loop()

    async def look() -> bool:
        found = await run.watching("page-views").with_files(lambda files: async_to_sync(answering)())
        return found is asyncio.get_running_loop()

    assert asyncio.run(look())


def test_a_slow_root_holds_up_nobody_else(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, answered, others_ran = threading.Event(), threading.Event(), threading.Event()

    def slow(*_: Any) -> Any:
        asked.set()
        others_ran.wait(300)
        answered.set()
        raise OSError("slow")

    async def run_beside() -> bool:
        waiting = asyncio.ensure_future(anext(run.watching("page-views").run()))
        while not asked.is_set():
            await asyncio.sleep(0.005)
        before = not answered.is_set()
        others_ran.set()
        waiting.cancel()
        return before

    monkeypatch.setattr(triggers, "stage_status", slow)
    assert asyncio.run(run_beside())


def test_progress_goes_to_the_tasks_log_and_the_worker_need_not_tell_it_again(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    intent = Intent("page-views", "1.1", 0, 2, {"page-views": InputIntent("page-views", {})}, {})
    write_once(run.files, run.stage("page-views").intent(0), intent)
    trigger = run.watching("page-views", progress_interval=0.02)
    event = event_of(trigger, lambda: threading.Timer(0.2, run.tell, ["page-views", CANCELLED]).start())
    text = capsys.readouterr().out
    assert "Stage page-views (partition-by-member): running (attempt 1) on" in text
    assert "Stage page-views (partition-by-member): running, 0 of 2 tasks done" in text
    assert event["said"] == {"page-views": "cancelled (attempt 1)"}


@pytest.mark.parametrize(
    ("meanwhile", "states"),
    [
        (lambda run: run.submit("by-member"), {"page-views": "started", "by-member": "started"}),
        (lambda run: abort(run.files, run.stage("by-member")), {"page-views": "started", "by-member": "aborted"}),
    ],
    ids=["started", "given up before it started"],
)
def test_a_consumer_waits_until_all_its_producers_have_started_or_one_was_given_up(
    run: Run, meanwhile: Any, states: Any
) -> None:
    assert event_of(run.waiting("page-views", "by-member"), lambda: meanwhile(run)) == {"producers": states}


def test_a_consumer_at_work_hears_that_its_producers_task_failed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run.submit("by-member")
    run.tell("by-member", RUNNING)
    states = {"page-views": "running"}
    monkeypatch.setattr(triggers, "ASK_SECONDS", 0.0)
    monkeypatch.setattr(ProducerTasks, "states", lambda self: states)
    producers = asdict(ProducerTasks("views", "run-1", {"page-views": "views.page-views"}))
    assert event_of(
        run.watching("by-member", producers=producers), lambda: states.update({"page-views": "failed"})
    ) == {"lost": ["page-views"]}


def test_a_run_waits_until_the_one_that_holds_the_state_is_over(run: Run) -> None:
    history = StateHistory("views")
    lease = take(run.files, history, 1, "run-1", 1, start=0, head=0)
    assert lease is not None
    trigger = SamzaStateTrigger(root=run.root, poll_interval=0.01, application="views", app_id="1", grace_seconds=600.0)
    assert event_of(trigger, lambda: end(run.files, history, lease, FINISHED)) == {"state": "free"}


def test_a_run_that_was_silent_for_longer_than_its_grace_is_waited_for_no_more(run: Run) -> None:
    assert take(run.files, StateHistory("views"), 1, "run-1", 1, start=0, head=0) is not None
    run.files.delete(RunnerFolder(run.folder, "key", 1).claim)  # a runner that lives gives signs of life
    trigger = SamzaStateTrigger(root=run.root, poll_interval=0.01, application="views", app_id="1", grace_seconds=0.0)
    assert event_of(trigger) == {"state": "free"}


def test_a_trigger_says_nothing_before_the_scheduler_has_heard_of_the_deferral(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settling, "SETTLE_SECONDS", 0.3)
    run.submit("page-views")
    run.tell("page-views", CANCELLED)
    began = time.monotonic()
    assert event_of(run.watching("page-views"))["states"] == {"page-views": CANCELLED}
    assert time.monotonic() - began >= 0.3


@pytest.mark.extended
def test_triggers_load_no_spark() -> None:
    script = "import sys; import airflow_samza.provider.triggers.runs; print('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip().splitlines()[-1] == "False"


def test_a_connection_that_nobody_tells_for_a_while_is_waited_for(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [RuntimeError("The API server is restarting."), KeyError("samza_eu")]

    def connection(conn_id: str) -> Connection:
        if answers:
            raise answers.pop()
        return Connection(conn_id=conn_id, conn_type="samza", extra=json.dumps({"root": run.root}))

    monkeypatch.setattr(BaseHook, "get_connection", connection)
    run.tell("page-views", CANCELLED)
    assert event_of(run.watching("page-views", conn_id="samza_eu"))["states"] == {"page-views": "cancelled"}
    assert answers == []


class Opening(RunTrigger):
    """A trigger that ends at its first look, and notes how the root was opened."""

    seen: dict[str, Any]

    def look(self, files: Filesystem) -> dict[str, Any] | None:
        self.seen = dict(access_of(self.root).options)
        return {}


def test_a_root_is_opened_with_what_its_connection_holds_in_this_trigger_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    root = "webhdfs://nowhere:9870/samza"

    def connection(conn_id: str) -> Connection:
        extra = json.dumps({"root": root})
        return Connection(conn_id=conn_id, conn_type="samza", login=conn_id, password="hush", extra=extra)

    monkeypatch.setattr(BaseHook, "get_connection", connection)
    monkeypatch.setattr(settling, "SETTLE_SECONDS", 0.0)
    for name in ("jo", "ada"):
        trigger = Opening(root=root, poll_interval=0.01, conn_id=name)
        assert "hush" not in str(trigger.serialize())
        event_of(trigger)
        assert trigger.seen == {"user": name, "token": "hush"}
    assert access_of(root) == NO_ACCESS

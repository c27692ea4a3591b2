"""Progress of deferred stages: lag by the systems' connections, and no harm by whoever does not answer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from airflow.sdk import BaseHook, Connection

from airflow_samza.provider.airflow_versions import AirflowNotFoundException
from airflow_samza.provider.triggers import deferred_progress
from airflow_samza.provider.triggers.deferred_progress import DeferredProgress, WatchedSystems
from airflow_samza.provider.triggers.runs import SamzaStageTrigger
from airflow_samza.runs.progress import stage_progress
from airflow_samza.runs.progress.progress import ProgressReport
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import BoundStream
from airflow_samza.runs.stages.stage_state import RUNNING, StageHandle, StageStatus
from airflow_samza.systems.system import StreamMetadata, StreamSpec, SystemBinding

HANDLE = StageHandle("views", "run-1", "page-views", Generation(1, 1), 1)
STATUS = StageStatus(RUNNING, 1)
KEPT = {"events": {"kind": "kafka", "options": {}}}
VIEWS = StreamSpec("page-views")
KAFKA = Connection(conn_id="brokers", conn_type="kafka", extra='{"bootstrap.servers": "b:9092"}')


class Answering:
    """A system that knows a head, or raises what it is given; it notes how long it may wait."""

    def __init__(self, binding: SystemBinding, error: Exception | None = None) -> None:
        self.binding, self.error = binding, error
        self.patience: float | None = None

    def wait_at_most(self, seconds: float) -> None:
        self.patience = seconds

    def metadata(self, streams: Any) -> dict[str, StreamMetadata]:
        if self.error is not None:
            raise self.error
        return {stream.name: StreamMetadata(1, (0,), (7,), None) for stream in streams}


@pytest.fixture
def bound(monkeypatch: pytest.MonkeyPatch) -> list[Answering]:
    """The systems that were bound, one after the other."""
    found: list[Answering] = []

    def bind(name: str, binding: SystemBinding, root: str) -> Answering:
        found.append(Answering(binding))
        return found[-1]

    monkeypatch.setattr(deferred_progress, "bind_system", bind)
    return found


@pytest.fixture(autouse=True)
def connections(monkeypatch: pytest.MonkeyPatch) -> dict[str, Connection]:
    """Airflow's connections, by id."""
    known = {"brokers": KAFKA}

    def get(conn_id: str) -> Connection:
        if conn_id not in known:
            raise AirflowNotFoundException(conn_id)
        return known[conn_id]

    monkeypatch.setattr(BaseHook, "get_connection", get)
    return known


def watched(said: list[str]) -> WatchedSystems:
    systems = WatchedSystems(KEPT, {"events": "brokers"}, "/root", said.append)
    asyncio.run(systems.connect())
    return systems


def heads(systems: WatchedSystems) -> Sequence[int]:
    return systems(BoundStream("page-views", "input", "events", VIEWS))


def test_a_system_is_bound_by_its_connection_when_it_is_asked_and_waits_for_seconds(bound: list[Answering]) -> None:
    systems = watched([])
    assert not bound
    assert heads(systems) == (7,)
    heads(systems)
    (system,) = bound
    assert dict(system.binding.options) == {"bootstrap.servers": "b:9092"}
    assert system.patience == stage_progress.ANSWER_SECONDS


def test_a_system_that_does_not_answer_knows_no_heads_and_that_is_said_once(bound: list[Answering]) -> None:
    said: list[str] = []
    systems = watched(said)
    heads(systems)
    bound[0].error = RuntimeError("no broker answers")
    assert heads(systems) == ()
    assert heads(systems) == ()
    assert said == ["The lag behind streams of the system 'events' is not known at present: no broker answers"]


def test_a_connection_that_was_corrected_binds_anew(bound: list[Answering], connections: dict[str, Connection]) -> None:
    said: list[str] = []
    del connections["brokers"]
    systems = watched(said)
    assert heads(systems) == ()
    assert "the triggerer cannot find the connection 'brokers'" in said[0]
    needed = [systems.needs_connections]
    connections["brokers"] = KAFKA
    asyncio.run(systems.connect())
    assert [*needed, systems.needs_connections] == [True, False]
    assert heads(systems) == (7,)


def test_a_system_is_opened_with_the_connection_that_its_own_names(connections: dict[str, Connection]) -> None:
    extra = '{"root": "s3://b/r", "root_conn_id": "keys"}'
    connections["brokers"] = Connection(conn_id="brokers", conn_type="samza", extra=extra)
    said: list[str] = []
    assert heads(watched(said)) == ()
    assert "the triggerer cannot find the connection 'keys'" in said[0]
    connections["keys"] = Connection(conn_id="keys", conn_type="aws", login="key", password="hush")
    binding = watched(said)._bindings["events"]
    assert isinstance(binding, SystemBinding)
    assert binding.options["access_key_id"] == "key"


def reporting(measure: Callable[..., Any], said: list[str], sent: list[ProgressReport]) -> DeferredProgress:
    return DeferredProgress(said.append, measure, 0.0, sent.append)


def test_a_report_that_waits_holds_up_no_look_and_is_not_made_after_the_end() -> None:
    asked, answer = threading.Event(), threading.Event()
    said: list[str] = []
    sent: list[ProgressReport] = []

    def measure(handle: StageHandle, status: StageStatus) -> ProgressReport:
        asked.set()
        answer.wait(60)
        return ProgressReport("page-views", "1.1", RUNNING, 0.0, tasks=1)

    progress = reporting(measure, said, sent)
    progress.look(HANDLE, STATUS)
    assert asked.wait(60)
    progress.look(HANDLE, STATUS)  # comes back although the first is being made
    progress.end()
    answer.set()
    assert progress._reporting is not None
    progress._reporting.result(60)
    assert (said, sent) == (["Stage page-views: running (attempt 1)"], [])


def test_a_report_that_fails_in_whatever_way_is_a_line_in_the_log() -> None:
    said: list[str] = []

    def measure(handle: StageHandle, status: StageStatus) -> ProgressReport:
        raise KeyError("odd")

    progress = reporting(measure, said, [])
    progress.look(HANDLE, STATUS)
    assert progress._reporting is not None
    progress._reporting.result(60)
    assert said[-1] == "Stage page-views: its progress cannot be read at present: KeyError('odd')"


def test_a_trigger_takes_the_ids_of_connections_along_and_nothing_of_what_they_hold() -> None:
    made = SamzaStageTrigger(root="/r", poll_interval=1.0, stages=[HANDLE.to_dict()], systems={"events": "brokers"})
    _, arguments = made.serialize()
    assert arguments["systems"] == {"events": "brokers"}

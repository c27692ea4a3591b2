"""Readers of a pushed table and their versions: by the plans of runs, and by the epochs of those that go on."""

from __future__ import annotations

import asyncio
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_samza import SamzaTableFreshnessSensor
from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.provider.airflow_versions import AirflowFailException, TaskDeferred
from airflow_samza.provider.triggers.tables import TableFreshnessTrigger
from airflow_samza.runs.records.epoch_records import InputIntent, Intent
from airflow_samza.runs.records.folders import RunFolder, write_once
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.systems.filesystems.root_access import NO_ACCESS
from airflow_samza.systems.system import StreamSpec
from tests.support.pushes import Pushes

APPLICATION = "provider_applications:with_profiles"


class Readers:
    """A root with a table that is pushed to, and runs that read it."""

    def __init__(self, root: Path) -> None:
        self.pushes = Pushes(root)
        self.runtime = SparkRuntime(str(root))
        self.pushes.system.create([StreamSpec("views", 2, "id bigint"), StreamSpec("out", 2)])

    def push(self, push_id: str) -> None:
        self.pushes.push(push_id, {1: push_id})

    def plan(self, run_id: str) -> RunPlan:
        return self.runtime.prepare(RunRequest(APPLICATION, run_id))

    def take_up(self, run: RunPlan) -> None:
        """The decisions of an epoch of an unbounded run."""
        stage = run.plan.stages[0].stage_id
        slice_ = self.pushes.current().slice
        intent = Intent(stage, "1.1", 3, 2, {}, {}, side_inputs={"profiles-push": InputIntent("profiles-push", slice_)})
        folder = RunFolder(run.application, run.run_id).stage(stage, Generation(1, 1))
        write_once(self.pushes.files, folder.intent(3), intent)


@pytest.fixture
def readers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Readers:
    from airflow_samza.provider.hooks.samza import SamzaHook

    found = Readers(tmp_path)
    monkeypatch.setattr(SamzaHook, "get_conn", lambda self: found.runtime)
    monkeypatch.setattr(SamzaHook, "root", str(tmp_path))
    monkeypatch.setattr(SamzaHook, "access", NO_ACCESS)
    return found


def is_reached(rescheduled: datetime | None = None, **given: Any) -> bool:
    sensor = SamzaTableFreshnessSensor(
        **{"task_id": "fresh", "application": APPLICATION, "table": "profiles", "deferrable": False, **given}
    )
    ti = SimpleNamespace(get_first_reschedule_date=lambda context: rescheduled)
    return bool(sensor.poke({"ti": ti}))


def test_a_run_reads_what_its_plan_has_pinned_until_it_is_over(readers: Readers) -> None:
    readers.push("monday")
    run = readers.plan("run-1")
    assert is_reached()
    readers.push("tuesday")
    assert not is_reached()
    assert is_reached(version="monday")
    readers.runtime.close(run)
    readers.plan("run-2")
    assert is_reached()


def test_a_run_that_goes_on_reads_what_its_newest_epoch_has_taken_up(readers: Readers) -> None:
    readers.push("monday")
    run = readers.plan("run-1")
    readers.push("tuesday")
    readers.take_up(run)
    assert is_reached(version=2)


def test_without_a_reader_nothing_is_reached_unless_none_is_needed(readers: Readers) -> None:
    readers.push("monday")
    assert not is_reached()
    assert is_reached(least=0)


def test_a_table_that_was_never_pushed_is_not_waited_for(readers: Readers) -> None:
    with pytest.raises(AirflowFailException, match="has no version to wait for"):
        is_reached()


def test_a_rescheduled_sensor_waits_for_what_was_current_when_it_started(readers: Readers) -> None:
    before = datetime.now(timezone.utc)
    readers.push("monday")
    readers.plan("run-1")
    started = datetime.now(timezone.utc)
    readers.push("tuesday")
    assert is_reached(started, mode="reschedule")
    assert is_reached(before, mode="reschedule")
    assert not is_reached(None, mode="reschedule")
    assert not is_reached(started, mode="poke")


def test_it_waits_in_the_triggerer(readers: Readers) -> None:
    readers.push("monday")
    sensor = SamzaTableFreshnessSensor(
        task_id="fresh", application=APPLICATION, table="profiles", deferrable=True, poke_interval=0.01
    )
    with pytest.raises(TaskDeferred) as deferred:
        sensor.execute({})
    trigger = deferred.value.trigger
    again = TableFreshnessTrigger(**trigger.serialize()[1])
    readers.plan("run-1")

    async def first() -> Any:
        return await anext(again.run())

    event = asyncio.run(first()).payload
    assert event == {"readers": {"run-1": 1}, "version": 1}
    assert sensor.execute_complete({}, event) == event

"""The end of a stream of a run: by the records of the stages that write it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from airflow_samza.provider.airflow_versions import AirflowFailException, TaskDeferred
from airflow_samza.provider.deferral import UNKNOWN
from airflow_samza.provider.hooks.root import RootHook
from airflow_samza.provider.triggers import settling
from airflow_samza.runs.progress.run_list import note_origin
from airflow_samza.runs.records.folders import RunFolder
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.sensors import SamzaEndOfStreamSensor
from airflow_samza.systems.filesystems.root_access import NO_ACCESS
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import StreamSpec, SystemBinding
from airflow_samza.triggers import SamzaEndOfStreamTrigger
from tests.support.runs_here import Here

APPLICATION = "provider_applications:sharing"
"""Its stage page-views writes the topic by-member, and its stage by-member the output members."""


class Runs:
    """Runs of the application, in this process."""

    def __init__(self, root: Path) -> None:
        binding = SystemBinding("log", {"root": str(root)})
        self.here = Here(root, bindings={"logs": binding})
        spec = StreamSpec("page-views", 2, "member bigint, country string")
        LogSystem("logs", binding).create([spec])

    def plan(self, run_id: str, dag_id: str = "sharing", generation: int = 1) -> RunPlan:
        plan = self.here.plan(APPLICATION, run_id, generation=generation)
        origin = {"dag_id": dag_id, "run_id": f"of {run_id}", "task_id": "plan"}
        note_origin(self.here.runtime._files, RunFolder(plan.application, plan.run_id), origin)
        return plan


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    monkeypatch.setattr(RootHook, "root", str(tmp_path))
    monkeypatch.setattr(RootHook, "access", NO_ACCESS)
    monkeypatch.setattr(settling, "SETTLE_SECONDS", 0.0)
    return Runs(tmp_path)


def sensor(**given: Any) -> SamzaEndOfStreamSensor:
    return SamzaEndOfStreamSensor(
        **{"task_id": "ended", "application": APPLICATION, "stream": "members", "deferrable": False, **given}
    )


def is_reached(**given: Any) -> bool:
    return bool(sensor(**given).poke({}))


def test_a_stream_has_its_end_when_the_stage_that_writes_it_has_succeeded(runs: Runs) -> None:
    assert not is_reached(stream="by-member")  # no run yet
    plan = runs.plan("run-1")
    assert not is_reached(stream="by-member")
    runs.here.stages(plan, "page-views")
    assert is_reached(stream="by-member")
    assert not is_reached()
    runs.here.stages(plan, "by-member")
    assert is_reached()


def test_a_stage_that_is_cleared_begins_anew(runs: Runs) -> None:
    plan = runs.plan("run-1")
    runs.here.stages(plan)
    assert sensor().poke({}).xcom_value == {
        "run_id": "run-1",
        "stream": "members",
        "generations": {"by-member": "1.1"},
    }
    runs.plan("run-1", generation=2)
    assert not is_reached()


def test_a_run_is_named_by_its_own_id_by_that_of_the_dag_run_or_it_is_the_newest(runs: Runs) -> None:
    runs.here.stages(runs.plan("run-1", "one"))
    runs.plan("run-2", "another")
    assert is_reached(run_id="run-1")
    assert is_reached(run_id="of run-1")
    assert is_reached(external_dag_id="one")
    assert not is_reached()
    assert not is_reached(run_id="of run-1", external_dag_id="another")
    assert not is_reached(run_id="run-3")


def test_the_application_may_be_given_by_its_name(runs: Runs) -> None:
    runs.here.stages(runs.plan("run-1"))
    assert is_reached(application="sharing")


def test_rejects_a_stream_that_no_stage_of_the_run_writes(runs: Runs) -> None:
    runs.plan("run-1")
    with pytest.raises(
        AirflowFailException, match=r"No stage of the run 'run-1' of 'sharing' writes a stream 'member'"
    ):
        is_reached(stream="member")


def waiting(**given: Any) -> SamzaEndOfStreamTrigger:
    """The trigger to which a sensor defers, as a triggerer makes it."""
    with pytest.raises(TaskDeferred) as deferred:
        sensor(deferrable=True, poke_interval=0.01, **given).execute({})
    return SamzaEndOfStreamTrigger(**deferred.value.trigger.serialize()[1])


def event_of(trigger: SamzaEndOfStreamTrigger) -> Any:
    async def first() -> Any:
        return await anext(trigger.run())

    return asyncio.run(first()).payload


def test_it_waits_in_the_triggerer(runs: Runs) -> None:
    trigger = waiting()
    runs.here.stages(runs.plan("run-1"))
    event = event_of(trigger)
    assert event == {"run_id": "run-1", "stream": "members", "generations": {"by-member": "1.1"}}
    assert sensor().execute_complete({}, event) == event


def test_a_run_that_begins_later_and_writes_no_such_stream_fails_the_task(runs: Runs) -> None:
    trigger = waiting(stream="member")
    runs.plan("run-1")
    event = event_of(trigger)
    assert UNKNOWN in event
    with pytest.raises(AirflowFailException, match="Its stages write by-member, members"):
        sensor(stream="member").execute_complete({}, event)

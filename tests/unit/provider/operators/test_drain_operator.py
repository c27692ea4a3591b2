"""Runs that are drained or stopped, and the end that the task waits for."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from airflow_samza.provider.airflow_versions import AirflowException, AirflowFailException, TaskDeferred
from airflow_samza.provider.operators.drain import SamzaDrainOperator, SamzaStopOperator
from airflow_samza.provider.operators.planning import SamzaPlanOperator
from airflow_samza.provider.triggers.runs import SamzaRunTrigger
from airflow_samza.runs.records.folders import RunFolder, write_once
from airflow_samza.runs.stages.run_ends import RunEnd
from airflow_samza.systems.filesystems.local import LocalFilesystem

VIEWS = "provider_applications:views"


def drain_operator(**given: Any) -> SamzaDrainOperator:
    return SamzaDrainOperator(
        **{"task_id": "drain", "application": VIEWS, "wait_for_completion": False, "deferrable": False, **given}
    )


class Runs:
    """Runs as their plan tasks leave them."""

    def __init__(self, root: Path, runtime: Any, make_context: Any) -> None:
        self.files = LocalFilesystem(root)
        self.runtime = runtime
        self.make_context = make_context

    def plan(self, airflow_run: str, mode: str = "continuous", dag_id: str = "flights") -> str:
        operator = SamzaPlanOperator(task_id="plan", application=VIEWS, scope="views", mode=mode)
        self.runtime.plans.clear()
        found = operator.execute(self.make_context(operator, run_id=airflow_run, dag_id=dag_id))["run_id"]
        write_once(self.files, RunFolder("views", found).plan(1), self.runtime.plans[1])
        return str(found)

    def close(self, run_id: str) -> None:
        write_once(self.files, RunFolder("views", run_id).closed, RunEnd())

    def drained(self, **given: Any) -> str | None:
        operator = drain_operator(**given)
        return operator.execute(self.make_context(operator))


@pytest.fixture
def runs(tmp_path: Path, runtime: Any, make_context: Any) -> Runs:
    return Runs(tmp_path, runtime, make_context)


def test_without_a_word_the_newest_run_that_is_on_is_drained(runs: Runs) -> None:
    runs.plan("one")
    second, third = runs.plan("two"), runs.plan("three")
    runs.close(third)
    assert runs.drained() == second
    assert runs.runtime.named("drain") == [("drain", second)]


@pytest.mark.parametrize("by", ["airflow's id", "its own id", "its Dag"])
def test_a_run_is_named_by_its_own_id_by_airflows_or_by_its_dag(runs: Runs, by: str) -> None:
    first = runs.plan("one", dag_id="other")
    runs.plan("two")
    given = {"airflow's id": {"run_id": "one"}, "its own id": {"run_id": first}, "its Dag": {"dag_id": "other"}}[by]
    assert runs.drained(**given) == first


def test_a_stop_is_no_drain(runs: Runs) -> None:
    first = runs.plan("one")
    assert runs.drained(action="stop") == first
    assert runs.runtime.named("drain") == []
    assert runs.runtime.named("stop") == [("stop", first, None)]


def test_a_stop_operator_stops_and_never_drains(runs: Runs) -> None:
    first = runs.plan("one")
    given: dict[str, Any] = {"task_id": "stop", "application": VIEWS, "wait_for_completion": False}
    operator = SamzaStopOperator(**given, default_args={"action": "drain"})
    assert operator.execute(runs.make_context(operator)) == first
    assert (runs.runtime.named("drain"), runs.runtime.named("stop")) == ([], [("stop", first, None)])
    with pytest.raises(TypeError):
        SamzaStopOperator(**given, action="drain")


def test_a_run_that_ends_by_itself_is_left_alone(runs: Runs) -> None:
    runs.plan("one", mode="staged")
    with pytest.raises(AirflowFailException, match="No run of 'views' is running"):
        runs.drained()
    assert runs.drained(missing_ok=True) is None


def test_an_unknown_action_is_rejected(runs: Runs) -> None:
    with pytest.raises(AirflowFailException, match="Choose drain or stop"):
        runs.drained(action="flush")


@pytest.mark.parametrize("deferrable", [False, True])
def test_it_waits_until_the_run_is_over(runs: Runs, tmp_path: Path, deferrable: bool) -> None:
    run_id = runs.plan("one")
    operator = drain_operator(wait_for_completion=True, deferrable=deferrable, poll_interval=0.01)
    ends = threading.Timer(0.1, runs.close, [run_id])
    ends.start()
    if not deferrable:
        assert operator.execute(runs.make_context(operator)) == run_id
        return
    with pytest.raises(TaskDeferred) as raised:
        operator.execute(runs.make_context(operator))
    path, given = raised.value.trigger.serialize()
    assert path.endswith("SamzaRunTrigger")

    async def first() -> Any:
        return (await anext(SamzaRunTrigger(**given).run())).payload

    assert asyncio.run(asyncio.wait_for(first(), 20)) == {"run": "over"}
    assert (
        operator.execute_complete(runs.make_context(operator), {"run": "over"}, **(raised.value.kwargs or {})) == run_id
    )


def test_a_killed_task_waits_no_longer_and_fails_where_the_run_has_not_succeeded(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = runs.plan("one")
    runs.runtime.ends["by-member"] = AirflowException("x")
    operator = drain_operator(wait_for_completion=True, poll_interval=0.01)

    pauses = iter([operator.on_kill])  # a second pause has none
    monkeypatch.setattr("airflow_samza.provider.operators.drain.time.sleep", lambda seconds: next(pauses)())
    with pytest.raises(AirflowFailException, match="not every stage of it has succeeded"):
        operator.execute(runs.make_context(operator))
    assert runs.runtime.named("drain") == [("drain", run_id)]


def test_a_run_that_ended_badly_fails_the_task(runs: Runs) -> None:
    run_id = runs.plan("one")
    runs.runtime.ends["by-member"] = AirflowException("x")
    threading.Timer(0.05, runs.close, [run_id]).start()
    with pytest.raises(AirflowFailException, match="not every stage of it has succeeded"):
        runs.drained(wait_for_completion=True, poll_interval=0.01)

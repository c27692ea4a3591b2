"""A run that a route is about: what is said where its plan, its records or its systems are not there."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from airflow_samza.errors import StorageUnavailable, TopicError
from airflow_samza.provider.page import opened_run
from airflow_samza.provider.page.opened_run import AWAY_SECONDS, Away, OpenedRun, why_not_planned
from airflow_samza.runs.records.folders import RunFolder
from airflow_samza.runs.records.run_plan import BoundStream
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.system import StreamSpec
from tests.support.page_here import DAG, DAG_RUN, PLAN_TASK, Page


class Clock:
    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(opened_run, "time", clock)
    return clock


def opened(page: Page) -> OpenedRun:
    return OpenedRun(page.airflow.plans[-1])


# -- places that do not answer -----------------------------------------------------------------------------------------


def ask(away: Away, place: str, error: Exception | None = None) -> bool:
    """Ask a place; return whether it was asked."""
    asked = False
    with away.noticed(place, StorageUnavailable):
        asked = True
        if error is not None:
            raise error
    return asked


def test_a_place_that_did_not_answer_is_not_asked_again_for_a_while(clock: Clock) -> None:
    away, error = Away(), StorageUnavailable("It is away.")
    with pytest.raises(StorageUnavailable):
        ask(away, "root", error)
    clock.now += AWAY_SECONDS - 1
    with pytest.raises(StorageUnavailable) as raised:
        ask(away, "root")
    assert raised.value is error
    assert ask(away, "another")
    clock.now += 1
    assert ask(away, "root")


def test_a_place_that_answers_again_is_asked_as_ever(clock: Clock) -> None:
    away = Away()
    with pytest.raises(StorageUnavailable):
        ask(away, "root", StorageUnavailable("It is away."))
    clock.now += AWAY_SECONDS
    assert ask(away, "root")
    assert ask(away, "root")


def test_other_errors_say_nothing_of_the_place(clock: Clock) -> None:
    away = Away()
    with pytest.raises(TopicError):
        ask(away, "root", TopicError("There is no such topic."))
    assert ask(away, "root")


# -- plans -------------------------------------------------------------------------------------------------------------


def test_a_task_that_has_planned_nothing_is_named(page: Page) -> None:
    page.plan()
    page.airflow.tasks = {PLAN_TASK: "success"}
    found = page.ask(f"{DAG}/runs/{DAG_RUN}/plans/other.plan/-1/plan")
    assert found.status_code == 404
    assert found.json()["sentence"] == "The task 'other.plan' has planned no application of airflow-samza."
    assert found.json()["rule"] == "not-planned"


def test_a_plan_of_another_map_index_is_another_one(page: Page) -> None:
    page.plan()
    assert page.ask(f"{DAG}/runs/{DAG_RUN}/plans/{PLAN_TASK}/0/plan").status_code == 404


@pytest.mark.parametrize(
    ("tasks", "plan_task", "said"),
    [
        ({}, None, "This Dag run has planned no application of airflow-samza."),
        ({"a": "running", "b": None}, None, "Nothing is planned yet: a (running), b (not scheduled yet)."),
        ({"a": "running", "b": None}, "b", "Nothing is planned yet: b (not scheduled yet)."),
        ({"a": "success", "b": None}, None, "No note of a plan is there, though its task has ended: a (success), b "),
        ({"a": "success", "b": None}, "b", "Nothing is planned yet: b (not scheduled yet)."),
    ],
)
def test_a_run_without_a_plan_says_why(
    page: Page, tasks: dict[str, str | None], plan_task: str | None, said: str
) -> None:
    page.airflow.tasks = tasks
    assert why_not_planned(page.airflow, DAG, DAG_RUN, plan_task).startswith(said)  # type: ignore[arg-type]


def test_a_plan_whose_record_is_deleted_is_gone(page: Page) -> None:
    run = page.plan()
    open_filesystem(str(page.here.root)).delete(RunFolder(run.application, run.run_id).plan(1))
    assert page.get("plan", 404)["rule"] == "gone"
    assert not opened(page).is_there()


@pytest.mark.parametrize("other", [{"dag_id": "theirs"}, {"run_id": "manual__9"}])
def test_records_that_another_dag_run_has_planned_are_not_opened(page: Page, other: dict[str, Any]) -> None:
    page.plan()
    page.airflow.plans.append(dataclasses.replace(page.airflow.plans[-1], **other))
    with pytest.raises(Exception, match="was not planned by this Dag run"):
        _ = opened(page).files


def test_a_stage_has_its_task_as_far_as_the_note_knows(page: Page) -> None:
    page.plan()
    assert [opened(page).task_of(stage) for stage in ("visits", "none")] == ["flow.visits", ""]


# -- systems -----------------------------------------------------------------------------------------------------------


def test_systems_whose_connections_are_gone_are_not_asked_for_heads(page: Page) -> None:
    page.plan()
    page.rewrite(systems={"log": "gone_connection"})
    systems, unbound = opened(page).bound
    assert systems == {}
    (why,) = unbound.values()
    assert why.startswith("Heads of inputs are not asked for: The connection 'gone_connection' is not defined")
    assert page.get("progress")["note"] == why


def test_a_system_that_cannot_be_bound_leaves_the_others(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    page.plan()

    def broken(*_: object) -> object:
        raise TopicError("It cannot be bound.")

    monkeypatch.setattr(opened_run, "bind_system", broken)
    systems, unbound = opened(page).bound
    assert systems == {}
    assert unbound == {"log": "Heads of inputs in 'log' are not asked for: It cannot be bound."}


def test_a_system_that_does_not_answer_knows_no_heads_and_says_so(page: Page) -> None:
    page.plan()
    run, unknown = opened(page), dict[str, str]()
    heads = run.heads(unknown)
    stream = BoundStream("visits", "input", "log", StreamSpec("visits"))
    assert heads(stream)
    assert unknown == {}

    def metadata(streams: object) -> object:
        raise StorageUnavailable("The brokers are away.")

    system: Any = run.bound[0]["log"]
    system.metadata = metadata
    assert heads(stream) == ()
    assert "The brokers are away." in unknown["log"]

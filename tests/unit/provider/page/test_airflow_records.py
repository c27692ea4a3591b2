"""Questions to Airflow's database, over one of Airflow's tables in memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from airflow.models.asset import AssetModel
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG
from airflow.sdk.execution_time.xcom import XCom
from airflow.utils.state import DagRunState
from sqlalchemy import delete

from airflow_samza.provider.airflow_versions import scheduler_form
from airflow_samza.provider.page import airflow_records as module
from airflow_samza.provider.page.airflow_records import AirflowRecords, DownstreamRun, TaskAfter, TaskMark
from airflow_samza.provider.xcoms import PLAN_FAILURE, PlanFailure, PlanNote
from tests.support.airflow_tables import DAY, Database, airflow_tables


@pytest.fixture
def database() -> Iterator[Database]:
    with airflow_tables() as database:
        yield database


def records(database: Database) -> AirflowRecords:
    return AirflowRecords(database.session)


def note(application: str = "visits", **given: Any) -> PlanNote:
    return PlanNote(application, "run-1", 1, "f", "samza_default", 5.0, **given)


def test_a_run_is_there_by_its_dag_and_its_id(database: Database) -> None:
    database.run("one")
    asked = [("visits", "one"), ("visits", "two"), ("other", "one")]
    assert [records(database).has_run(*names) for names in asked] == [True, False, False]


def test_the_plans_of_a_dag_run_are_by_task_and_map_index(database: Database) -> None:
    for run_id, dag_id in (("one", "visits"), ("two", "visits"), ("one", "other")):
        database.run(run_id, dag_id)
        database.xcom(note(f"{dag_id}-{run_id}").to_dict(), run_id, dag_id)
    database.xcom(note("mapped").to_dict(), task_id="a.plan", map_index=1)
    database.xcom(note("mapped").to_dict(), task_id="a.plan", map_index=0)
    database.xcom(note("a return value").to_dict(), key="return_value")
    found = records(database).notes(PlanNote, "visits", "one")
    assert [(plan.task_id, plan.map_index, plan.note.application) for plan in found] == [
        ("a.plan", 0, "mapped"),
        ("a.plan", 1, "mapped"),
        ("flow.plan", -1, "visits-one"),
    ]
    assert {(plan.dag_id, plan.run_id) for plan in found} == {("visits", "one")}


def test_the_plans_of_a_task_are_the_newest_of_its_dag(database: Database) -> None:
    for run_id in ("one", "two", "three"):
        database.run(run_id)
        database.xcom(note().to_dict(), run_id)
        database.xcom(note().to_dict(), run_id, task_id="another.plan")
    assert [plan.run_id for plan in records(database).planned_by("visits", "flow.plan", 2)] == ["three", "two"]
    assert records(database).planned_by("other", "flow.plan", 2) == []


def test_failures_to_plan_are_those_of_a_dag_run_or_the_newest_of_all(database: Database) -> None:
    for number, run_id in enumerate(("one", "two")):
        database.run(run_id)
        failure = PlanFailure("flows:visits", "samza_default", "ConfigError", f"no {run_id}", "", float(number))
        database.xcom(failure.to_dict(), run_id, key=PLAN_FAILURE)
    database.xcom(note().to_dict(), "two")
    (failed,) = records(database).notes(PlanFailure, "visits", "one")
    assert (failed.task_id, failed.map_index, failed.note.sentence) == ("flow.plan", -1, "no one")
    assert [failed.run_id for failed in records(database).newest(PlanFailure)] == ["two", "one"]
    assert [plan.run_id for plan in records(database).newest(PlanNote)] == ["two"]


def test_the_newest_plans_are_those_of_all_dags_or_of_runs_in_some_states(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, state in enumerate(("running", "success", "failed")):
        database.run("one", f"dag-{number}", state)
        database.xcom(note().to_dict(), dag_id=f"dag-{number}")
    assert [plan.dag_id for plan in records(database).newest(PlanNote)] == ["dag-2", "dag-1", "dag-0"]
    assert [plan.dag_id for plan in records(database).newest(PlanNote, ["running", "failed"])] == ["dag-2", "dag-0"]
    monkeypatch.setattr(module, "NEWEST", 2)
    assert [plan.dag_id for plan in records(database).newest(PlanNote)] == ["dag-2", "dag-1"]


def test_a_note_is_read_as_airflow_or_a_backend_of_xcoms_keeps_it(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept_elsewhere = {"s3://xcoms/1": note("fetched").to_dict()}
    monkeypatch.setattr(XCom, "deserialize_value", lambda result: kept_elsewhere[result.value])
    database.run("one")
    values = [note("plain").to_dict(), json.dumps(note("text").to_dict()), "s3://xcoms/1", json.dumps("s3://xcoms/1")]
    for number, value in enumerate(values):
        database.xcom(value, task_id=f"plan-{number}")
    found = [plan.note.application for plan in records(database).notes(PlanNote, "visits", "one")]
    assert found == ["plain", "text", "fetched", "fetched"]


@pytest.mark.parametrize(
    "value",
    [
        "s3://xcoms/gone",
        {"application": "visits"},
        {**note().to_dict(), "interval": ["yesterday", "2026-01-02T00:00:00+00:00"]},
        None,
        [1],
        "7",
    ],
)
def test_what_is_no_note_of_a_plan_is_left_out(database: Database, value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(XCom, "deserialize_value", {}.__getitem__)
    database.run("one")
    database.xcom(value)
    assert records(database).notes(PlanNote, "visits", "one") == []


def test_tasks_are_marked_by_their_state_their_tries_and_when_they_began(database: Database) -> None:
    database.task("flow.a", state="running", try_number=2, max_tries=3, start_date=DAY)
    database.task("flow.b", pool="gate")
    database.task("flow.c", state="success")
    database.task("flow.a", map_index=0, state="failed")
    database.task("flow.b", run_id="two", state="failed")
    assert records(database).task_marks("visits", "one", ["flow.a", "flow.b"], -1) == {
        "flow.a": TaskMark("running", 2, 3, DAY.timestamp(), "default_pool"),
        "flow.b": TaskMark(None, 0, 0, None, "gate"),
    }


def test_the_tasks_that_plan_are_those_that_do_nothing_else_or_else_those_that_run_stages(database: Database) -> None:
    database.task("print", operator="PythonOperator")
    assert records(database).plan_tasks("visits", "one") == {}
    database.task("flow", operator="SamzaStreamOperator", state="running")
    database.task("decorated", operator="_SamzaStreamDecoratedOperator")
    assert records(database).plan_tasks("visits", "one") == {"flow": "running", "decorated": None}
    database.task("plan", operator="SamzaPlanOperator", state="failed")
    database.task("auto", operator="SamzaAutoPlanOperator")
    assert records(database).plan_tasks("visits", "one") == {"plan": "failed", "auto": None}
    assert records(database).plan_tasks("visits", "two") == {}


def test_the_runs_of_a_dag_have_their_states_by_their_dates(database: Database) -> None:
    for run_id, state in (("1", "success"), ("2", "failed"), ("3", "running"), ("4", "success")):
        database.run(run_id, state=state)
    database.run("of-no-date", dated=False)
    database.run("6", dag_id="other")
    second, third = DAY + timedelta(days=1), DAY + timedelta(days=2)
    assert records(database).runs_of_dates("visits", second, third) == {second: "failed", third: "running"}


def test_the_state_of_a_run_is_a_text_however_airflow_gives_it() -> None:
    assert [module._text(state) for state in (None, "failed", DagRunState.FAILED)] == [None, "failed", "failed"]


def test_events_of_assets_are_those_of_the_tasks_with_the_runs_that_they_started(database: Database) -> None:
    database.run("asset__1", "readers", "running")
    later = DAY + timedelta(minutes=1)
    database.event("second", "flow.b", later)
    database.event("first", "flow.a", DAY, ("asset__1",), extra={"rows": 5})
    database.event("of-another-task", "flow.c", DAY)
    database.event("of-another-run", "flow.a", DAY, source_run_id="two")
    database.event("of-another-dag", "flow.a", DAY, source_dag_id="other")
    first, second = records(database).events("visits", "one", ["flow.a", "flow.b"])
    assert (first.task_id, first.uri, first.name, first.at) == ("flow.a", "s3://lake/first", "first", DAY.timestamp())
    assert (first.extra, first.runs) == (
        {"rows": 5},
        (DownstreamRun(dag_id="readers", run_id="asset__1", state="running"),),
    )
    assert (second.name, second.extra, second.runs) == ("second", {}, ())


def test_an_event_of_an_asset_that_airflow_has_forgotten_is_left_out(database: Database) -> None:
    database.event("gone", "flow.a", DAY)
    database.session.execute(delete(AssetModel))
    database.session.expire_all()
    assert records(database).events("visits", "one", ["flow.a"]) == []


def test_the_tasks_after_a_task_are_those_of_the_dag_with_their_states(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with DAG("visits", schedule=None) as dag:
        tasks = {name: EmptyOperator(task_id=name) for name in ("plan", "visits", "cleanup", "beside")}
        tasks["plan"] >> tasks["visits"] >> tasks["cleanup"]
    monkeypatch.setattr(AirflowRecords, "schedule", lambda self, dag_id: scheduler_form(dag))
    database.run("one")
    database.task("visits", state="success", try_number=1, operator="SamzaStreamOperator")
    database.task("beside", state="success", try_number=1)
    assert records(database).tasks_after("visits", "one", "plan", -1) == [
        TaskAfter("cleanup", None, False, False),
        TaskAfter("visits", "success", True, True),
    ]
    assert records(database).tasks_after("visits", "one", "gone", -1) is None


def test_a_dag_of_which_airflow_has_no_version_has_no_schedule(database: Database) -> None:
    assert records(database).schedule("visits") is None

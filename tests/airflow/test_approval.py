"""The example Dag whose output a person approves, in a real Airflow: rejected, cleared, approved."""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.support.expecting_apps import hidden

pytestmark = [pytest.mark.nightly, pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(1800)]

DAG, DAY = "flights_approved", "2013-01-01"
PUBLISHED = "The output 'delays' (14 messages for warehouse.delays) was approved by "


def seen(warehouse: Path) -> list[tuple[Any, ...]]:
    folder = warehouse / "approved-delays"
    files = [str(path) for path in folder.rglob("*.parquet") if not hidden(path.relative_to(folder))]
    return rows(f"SELECT carrier, flights, round(delay, 6) FROM read_parquet({files}) ORDER BY ALL") if files else []


def rows(sql: str) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = duckdb.execute(sql).fetchall()
    return found


def answer(airflow: Any, run_id: str, word: str) -> None:
    """Answer the question of a run, as a person does in the page, once it waits for that."""
    waiting = ("awaiting_input", "deferred")
    airflow.wait_until(lambda: airflow.task_states(DAG, run_id).get("ask") in waiting, 900, "the question")
    time.sleep(10)  # Airflow fails a task that is answered before its scheduler has noted that the asking process ended
    path = f"/dags/{DAG}/dagRuns/{run_id}/taskInstances/ask/-1/hitlDetails"
    airflow.api("PATCH", path, json={"chosen_options": [word], "params_input": {}})


def events(airflow: Any) -> list[dict[str, Any]]:
    found = airflow.api("GET", "/assets/events", params={"source_dag_id": DAG, "limit": 100})["asset_events"]
    return [event for event in found if event["uri"].endswith("approved-delays")]


def test_readers_and_assets_know_nothing_of_output_before_a_person_has_approved_it(flights: Any) -> None:
    airflow = flights.airflow
    right = rows(
        "SELECT carrier, count(*), round(avg(dep_delay), 6) FROM read_parquet("
        f"'{flights.data}/flights/{DAY}.parquet') WHERE dep_delay IS NOT NULL GROUP BY ALL ORDER BY ALL"
    )
    at = datetime.fromisoformat(f"{DAY}T00:00+00:00")
    interval = {"data_interval_start": at.isoformat(), "data_interval_end": (at + timedelta(days=1)).isoformat()}
    run_id = airflow.trigger(DAG, logical_date=at, **interval)
    waits = partial(airflow.wait_for_run, DAG, run_id, timeout=900)

    answer(airflow, run_id, "Reject")
    assert waits()["state"] == "success"
    assert airflow.task_states(DAG, run_id)["publish"] == "skipped"
    assert (seen(flights.warehouse), events(airflow)) == ([], [])
    log = airflow.log(DAG, run_id, "publish")
    assert "was rejected by" in log
    assert "readers have seen nothing of it" in log

    airflow.clear(DAG, run_id)
    airflow.wait_until(lambda: airflow.task_states(DAG, run_id).get("ask") == "awaiting_input", 900, "the question")
    assert (seen(flights.warehouse), events(airflow)) == ([], [])
    answer(airflow, run_id, "Approve")
    assert waits()["state"] == "success", airflow.log(DAG, run_id, "ask", 2)
    assert seen(flights.warehouse) == right
    assert PUBLISHED in airflow.log(DAG, run_id, "publish", 2)
    (event,) = events(airflow)
    assert (event["source_task_id"], event["extra"]["rows"]) == ("publish", len(right))
    assert event["extra"]["expectations"]["unique(carrier)"] == "passed"
    (published,) = airflow.xcom(DAG, run_id, "publish")
    assert (published["stream"], published["state"], published["rows"]) == ("delays", "published", len(right))

    airflow.clear(DAG, run_id, "publish")
    assert waits()["state"] == "success"
    assert seen(flights.warehouse) == right, "again, it changes nothing"

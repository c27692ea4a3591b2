"""The demo's Dags of days in pods: a backfill, and a model that is pushed and then used."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from demo.flights_answers import asked_of_duckdb, written
from tests.kubernetes.cluster import Cluster, pods_of, until
from tests.support.scored_flights import day, is_scored, scored_with

pytestmark = [pytest.mark.kubernetes, pytest.mark.nightly, pytest.mark.timeout(3000)]


def test_a_backfill_of_eight_days_gives_each_day_its_own_result(airflow: Any, cluster: Cluster) -> None:
    days = [date(2013, 3, 1) + timedelta(days=number) for number in range(8)]
    airflow.wait_for_dag("flights_daily")
    airflow.backfill("flights_daily", str(days[0]), str(days[-1]), "--max-active-runs", "3")
    runs = [run for run in airflow.runs("flights_daily") if run["run_type"] == "backfill"]
    assert len(runs) == len(days)
    for run in runs:
        assert airflow.wait_for_run("flights_daily", run["dag_run_id"], 2400)["state"] == "success"
    for one in days:
        output = cluster.folder / "warehouse-of-dags/delays-of-a-day" / str(one)
        assert written(output) == asked_of_duckdb(cluster.folder / "data", f"{one}.parquet")
    until(lambda: not [pod for run in runs for pod in pods_of(cluster, run["dag_run_id"])])


def test_a_push_in_a_pod_starts_the_dag_that_scores_with_the_model(airflow: Any, cluster: Cluster) -> None:
    airflow.wait_for_dag("delay_scores")
    run_id = airflow.trigger("push_the_model", conf={"day": str(day(1)), "trained_to": str(day(0))})
    done = airflow.wait_for_run("push_the_model", run_id, 1500)
    assert done["state"] == "success", airflow.task_states("push_the_model", run_id)
    assert airflow.xcom("push_the_model", run_id, "push")["version"] == 1
    (begun,) = airflow.wait_until(lambda: airflow.runs("delay_scores") or None, 300, "a run started by the asset")
    scoring = begun["dag_run_id"]
    assert airflow.wait_for_run("delay_scores", scoring, 900)["state"] == "success"
    output = Path(airflow.xcom("delay_scores", scoring, "scores.run")["outputs"]["scores"]["path"])
    data = cluster.folder / "data"
    weights = pq.read_table(data / f"models/{day(0)}.parquet").to_pylist()
    assert is_scored(output, scored_with(weights, data, 1))
    until(lambda: not [pod for one in (run_id, scoring) for pod in pods_of(cluster, one)])

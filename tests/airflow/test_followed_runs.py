"""Two Dags at the same time: the one follows the run of the other, in a real Airflow on Spark (rule C10)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.support.signals import let_go, wait_for_start

pytestmark = [pytest.mark.nightly, pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(1800)]

TELLER, FOLLOWER = "departures_teller", "departures_follower"
DAY = "2013-01-01"


def carriers(flights: Any, run_id: str) -> list[Any]:
    path = Path(flights.airflow.xcom(FOLLOWER, run_id, "carriers.told-departures")["outputs"]["carriers"]["path"])
    read = f"read_parquet('{path}/*.parquet')"
    return duckdb.execute(f"SELECT carrier, flights, round(delay, 9) FROM {read} ORDER BY 1").fetchall()


def carriers_of_duckdb(flights: Any) -> list[Any]:
    return duckdb.execute(
        "SELECT carrier, count(*), round(avg(dep_delay), 9) FROM "
        f"read_parquet('{flights.data}/flights/{DAY}.parquet') WHERE dep_delay IS NOT NULL GROUP BY 1 ORDER BY 1"
    ).fetchall()


def folded(log: str) -> str:
    """Return the text of a log, whose long lines are folded, in one line."""
    return " ".join(log.split())


@pytest.fixture(scope="module")
def both(flights: Any) -> tuple[str, str]:
    """The runs of both Dags for one day; that of the follower is triggered first, and waits."""
    airflow = flights.airflow
    for dag_id in (TELLER, FOLLOWER):
        airflow.wait_for_dag(dag_id)
    follower: str = airflow.trigger(FOLLOWER, conf={"day": DAY})
    airflow.wait_for_task(FOLLOWER, follower, "carriers.plan", ("deferred",))
    teller: str = airflow.trigger(TELLER, conf={"day": DAY})
    return teller, follower


def test_a_dag_follows_the_run_of_another_dag_and_ends_with_it(flights: Any, both: tuple[str, str]) -> None:
    airflow = flights.airflow
    teller, follower = both
    assert airflow.wait_for_run(FOLLOWER, follower, timeout=1200)["state"] == "success", airflow.task_states(
        FOLLOWER, follower
    )
    assert airflow.wait_for_run(TELLER, teller, timeout=1200)["state"] == "success"
    assert "the section of departures-told/" in folded(airflow.log(FOLLOWER, follower, "carriers.plan"))
    assert carriers(flights, follower) == carriers_of_duckdb(flights)


def test_a_follower_is_planned_while_the_run_that_it_follows_is_held_up(flights: Any) -> None:
    airflow = flights.airflow
    for dag_id in ("held_teller", "follower_of_held"):
        airflow.wait_for_dag(dag_id)
    teller = airflow.trigger("held_teller")
    wait_for_start(flights, "departure")
    follower = airflow.trigger("follower_of_held")
    airflow.wait_for_task("follower_of_held", follower, "carriers.plan", ("success",))
    assert airflow.run("held_teller", teller)["state"] == "running"
    log = airflow.log("follower_of_held", follower, "carriers.plan")
    assert "follows the section of held-teller/" in folded(log)
    let_go(flights, "departure")
    for dag_id, run_id in (("held_teller", teller), ("follower_of_held", follower)):
        assert airflow.wait_for_run(dag_id, run_id, timeout=1200)["state"] == "success"


def test_both_are_cleared_and_give_the_same_once_more(flights: Any, both: tuple[str, str]) -> None:
    airflow = flights.airflow
    teller, follower = both
    for dag_id, run_id in ((TELLER, teller), (FOLLOWER, follower)):
        airflow.wait_for_run(dag_id, run_id, timeout=1200)
        airflow.clear(dag_id, run_id)
    for dag_id, run_id in ((TELLER, teller), (FOLLOWER, follower)):
        assert airflow.wait_for_run(dag_id, run_id, timeout=1200)["state"] == "success"
    assert carriers(flights, follower) == carriers_of_duckdb(flights)


def test_a_producer_that_fails_and_one_that_never_comes_fail_the_follower_in_one_sentence(flights: Any) -> None:
    airflow = flights.airflow
    for dag_id in ("failing_teller", "follower_of_failing", "follower_of_none"):
        airflow.wait_for_dag(dag_id)
    follower = airflow.trigger("follower_of_failing")
    airflow.wait_for_task("follower_of_failing", follower, "carriers.plan", ("deferred",))
    teller = airflow.trigger("failing_teller")
    assert airflow.wait_for_run("failing_teller", teller, timeout=1200)["state"] == "failed"
    assert airflow.wait_for_run("follower_of_failing", follower, timeout=1200)["state"] == "failed"
    said = "".join(
        airflow.log("follower_of_failing", follower, task_id)
        for task_id, state in airflow.task_states("follower_of_failing", follower).items()
        if state == "failed"
    )
    sentence = "of 'failing-teller' (Dag 'failing_teller') writes, and that run failed for good"
    assert sentence in folded(said)
    none = airflow.trigger("follower_of_none")
    assert airflow.wait_for_run("follower_of_none", none, timeout=1200)["state"] == "failed"
    log = airflow.log("follower_of_none", none, "carriers.plan")
    assert "No run of 'failing-teller' for the data interval" in folded(log)

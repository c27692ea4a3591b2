"""Pushes and what waits for them, in a real Airflow.

Readers take a version up, and a push that is marked failed leaves nothing behind.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_samza.runs.tables import versions
from airflow_samza.runs.tables.push_request import push_handle
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import StreamSpec, SystemBinding
from tests.support.signals import is_gone, let_go, started, wait_for_start

pytestmark = [pytest.mark.nightly, pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(1800)]


def log_of(flights: Any) -> LogSystem:
    return LogSystem("log", SystemBinding("log", {"root": str(flights.root)}))


def push(flights: Any, **prices: int) -> str:
    """Pushes prices; the Dag run."""
    source = flights.data / f"prices-{'-'.join(map(str, prices.values()))}.parquet"
    pq.write_table(pa.table({"item": list(prices), "price": pa.array(prices.values(), pa.int64())}), source)
    run_id: str = flights.airflow.trigger("prices_push", conf={"source": str(source)})
    return run_id


def sell(flights: Any, *sales: tuple[int, str]) -> None:
    rows = pa.table(
        {"number": pa.array([number for number, _ in sales], pa.int64()), "item": [item for _, item in sales]}
    )
    log_of(flights).append("sales", rows, key=["item"])


def succeeds(flights: Any, dag_id: str, run_id: str) -> None:
    assert flights.airflow.wait_for_run(dag_id, run_id, timeout=900)["state"] == "success", flights.airflow.task_states(
        dag_id, run_id
    )


@dataclass(frozen=True)
class Live:
    """A continuous run was awaited after a first push, met by a second, and drained."""

    first: str
    waited: str
    second: str
    live: str


@pytest.fixture(scope="module")
def live(flights: Any) -> Live:
    airflow = flights.airflow
    log_of(flights).create([StreamSpec("sales", 1, "number bigint, item string")])
    first = push(flights, tea=2, milk=1)
    succeeds(flights, "prices_push", first)
    sell(flights, (1, "tea"), (2, "salt"))
    waited = airflow.trigger("prices_wait")
    airflow.wait_for_task("prices_wait", waited, "deferred", ("deferred",))
    airflow.wait_for_task("prices_wait", waited, "on_a_worker", ("running",))
    run_id = airflow.trigger("prices_live")
    airflow.wait_for_run("prices_wait", waited)
    airflow.wait_until(
        lambda: "at the head" in airflow.log("prices_live", run_id, "prices.sales"), 600, "prices of the first sales"
    )
    second = push(flights, tea=3, milk=1)
    succeeds(flights, "prices_push", second)
    sell(flights, (3, "tea"))
    succeeds(flights, "prices_drain", airflow.trigger("prices_drain"))
    succeeds(flights, "prices_live", run_id)
    return Live(first, waited, second, run_id)


def test_a_sensor_is_content_with_no_reader_when_it_may_be(flights: Any, live: Live) -> None:
    assert flights.airflow.xcom("prices_push", live.first, "are_read") == {"version": 1, "readers": {}}


@pytest.mark.parametrize("task_id", ["deferred", "on_a_worker"])
def test_a_sensor_waits_for_a_run_that_is_not_on_yet(flights: Any, live: Live, task_id: str) -> None:
    found = flights.airflow.xcom("prices_wait", live.waited, task_id)
    assert (found["version"], list(found["readers"].values())) == (1, [1])
    assert "no run is on" in flights.airflow.log("prices_wait", live.waited, task_id)


def test_a_sensor_whose_time_is_over_is_skipped_if_it_may_fail_softly(flights: Any, live: Live) -> None:
    assert flights.airflow.task_states("prices_wait", live.waited)["too_long"] == "skipped"


def test_a_sensor_behind_a_push_ends_when_the_run_reads_it(flights: Any, live: Live) -> None:
    run_id = flights.airflow.xcom("prices_live", live.live, "prices.plan")["run_id"]
    assert flights.airflow.xcom("prices_push", live.second, "are_read") == {"version": 2, "readers": {run_id: 2}}


def test_what_is_sold_after_the_sensor_has_the_new_price(flights: Any, live: Live) -> None:
    folder = Path(flights.airflow.xcom("prices_live", live.live, "prices.sales")["outputs"]["sold"]["path"])
    found = duckdb.execute(f"SELECT number, item, price FROM read_parquet('{folder}/*.parquet') ORDER BY 1").fetchall()
    assert found == [(1, "tea", 2), (2, "salt", None), (3, "tea", 3)]


# -- a push that is marked failed
# ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Marked:
    """A deferred push was marked failed while Spark workers held its rows."""

    run_id: str
    push_id: str
    workers: tuple[int, ...]
    known: tuple[int, ...]


def status_of(flights: Any, push_id: str, attempt: int) -> Mapping[str, Any]:
    path = flights.root / push_handle("prices", "prices", push_id).folder.attempt(attempt, "status")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def known_versions(flights: Any) -> tuple[int, ...]:
    return tuple(
        version.number for version in versions.versions(open_filesystem(str(flights.root)), "log", "prices-push")
    )


@pytest.fixture(scope="module")
def marked(flights: Any, live: Live) -> Iterator[Marked]:
    known = known_versions(flights)
    run_id = flights.airflow.trigger("prices_held")
    wait_for_start(flights, "prices")
    flights.airflow.wait_for_task("prices_held", run_id, "push", ("deferred",))
    (folder,) = (flights.root / "runs" / "prices").glob("push*prices_held*")
    push_id = json.loads((folder / "push.json").read_text())["push_id"]
    workers = started(flights, "prices")
    flights.airflow.mark("prices_held", run_id, "push", "failed")
    flights.airflow.wait_until(
        lambda: status_of(flights, push_id, 1)["state"] == "cancelled", 120, "the record of the cancel"
    )
    yield Marked(run_id, push_id, workers, known)
    let_go(flights, "prices")


def test_marking_a_deferred_push_failed_ends_its_spark_work(flights: Any, marked: Marked) -> None:
    flights.airflow.wait_until(lambda: all(map(is_gone, marked.workers)), 120, "the Spark workers of the push to end")
    assert flights.airflow.wait_for_run("prices_held", marked.run_id)["state"] == "failed"


def test_nothing_of_it_is_visible(flights: Any, marked: Marked) -> None:
    assert known_versions(flights) == marked.known == (1, 2)


def test_when_it_is_cleared_it_pushes(flights: Any, marked: Marked) -> None:
    let_go(flights, "prices")
    flights.airflow.clear("prices_held", marked.run_id, "push")
    succeeds(flights, "prices_held", marked.run_id)
    found = flights.airflow.xcom("prices_held", marked.run_id, "push")
    assert (found["version"], found["rows"]) == (3, 2)

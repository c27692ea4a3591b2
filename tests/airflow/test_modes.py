"""An example Dag for each mode, on the real flights, in a real Airflow."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest

from demo.flights_answers import asked_of_duckdb, written

pytestmark = [pytest.mark.extended, pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(1800)]

DAYS = ("2013-01-01", "2013-01-02")
BOUNDARY = "2013-01-02T03:00:00Z"
"""The watermark is a day behind the last departure of the second day: windows before it are over."""

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Departures:
    """Runs over a topic of departures into which two days were fed, one after the other."""

    live: str
    caught_up: tuple[str, ...]
    drained: str


@pytest.fixture(scope="module")
def pipelined(flights: Any) -> str:
    """Has begun while the runs of the others go on."""
    run_id: str = flights.airflow.trigger("flights_pipelined")
    return run_id


@pytest.fixture(scope="module")
def producer(flights: Any, pipelined: str) -> str:
    """Has begun, too."""
    flights.airflow.wait_for_dag("departures_consumer")
    run_id: str = flights.airflow.trigger("departures_producer", conf={"day": DAYS[0]})
    return run_id


@pytest.fixture(scope="module")
def departures(flights: Any, producer: str) -> Departures:
    airflow = flights.airflow

    def succeeds(dag_id: str, run_id: str) -> str:
        assert airflow.wait_for_run(dag_id, run_id, timeout=1200)["state"] == "success", airflow.task_states(
            dag_id, run_id
        )
        return run_id

    def feed(day: str) -> None:
        succeeds("departures_feed", airflow.trigger("departures_feed", conf={"day": day}))

    feed(DAYS[0])
    live = airflow.trigger("departures_live")
    first = airflow.trigger("departures_catch_up")
    airflow.wait_for_task("departures_live", live, "hours.by-carrier", ("deferred",))
    airflow.wait_until(
        lambda: "at the head" in airflow.log("departures_live", live, "hours.by-carrier"),
        600,
        "windows over the first day",
    )
    succeeds("departures_catch_up", first)
    feed(DAYS[1])
    both = [airflow.trigger("departures_catch_up") for _ in range(2)]
    drained = airflow.trigger("departures_drain")
    caught_up = (first, *(succeeds("departures_catch_up", run_id) for run_id in both))
    return Departures(succeeds("departures_live", live), caught_up, succeeds("departures_drain", drained))


def hours_of_duckdb(data: Path, within: str = "true") -> list[Row]:
    """Departures per carrier and hour of the days that were fed."""
    files = [str(data / "flights" / f"{day}.parquet") for day in DAYS]
    rows: list[Row] = duckdb.execute(
        f"SELECT carrier, epoch(time_hour), count(*), round(avg(dep_delay), 9) FROM read_parquet({files}) "
        f"WHERE dep_delay IS NOT NULL AND {within} GROUP BY 1, 2 ORDER BY 1, 2"
    ).fetchall()
    return rows


def hours_written(*folders: Path) -> list[Row]:
    files = [f"{folder}/*.parquet" for folder in folders]
    rows: list[Row] = duckdb.execute(
        f"SELECT carrier, epoch(window_start), flights, round(delay, 9) FROM read_parquet({files}) ORDER BY 1, 2"
    ).fetchall()
    return rows


def output_of(flights: Any, dag_id: str, run_id: str, task_id: str, stream_id: str) -> Path:
    return Path(flights.airflow.xcom(dag_id, run_id, task_id)["outputs"][stream_id]["path"])


# -- pipelined ---------------------------------------------------------------------------------------------------------


@pytest.mark.nightly
def test_a_pipelined_run_gives_what_duckdb_gives(flights: Any, pipelined: str) -> None:
    assert flights.airflow.wait_for_run("flights_pipelined", pipelined, timeout=1200)["state"] == "success"
    found = written(output_of(flights, "flights_pipelined", pipelined, "delays.by-maker-and-hour", "delays"))
    assert found == asked_of_duckdb(flights.data)


@pytest.mark.nightly
def test_its_stages_are_on_at_the_same_time(flights: Any, pipelined: str) -> None:
    flights.airflow.wait_for_run("flights_pipelined", pipelined, timeout=1200)
    stages = [
        task
        for task in flights.airflow.tasks("flights_pipelined", pipelined)
        if task["task_id"] not in ("delays.plan", "delays.cleanup")
    ]
    assert len(stages) == 4
    assert max(task["start_date"] for task in stages) < min(task["end_date"] for task in stages)


@pytest.mark.nightly
def test_a_consumer_waits_without_a_worker_until_its_producers_have_started(flights: Any, pipelined: str) -> None:
    flights.airflow.wait_for_run("flights_pipelined", pipelined, timeout=1200)
    log = flights.airflow.log("flights_pipelined", pipelined, "delays.by-maker-and-hour")
    assert len(re.findall(r"Stage by-maker-and-hour( \([\w-]+\))? is done: 4 tasks", log)) == 1
    assert log.count("Pausing task as DEFERRED") >= 1


# -- continuous --------------------------------------------------------------------------------------------------------


@pytest.mark.nightly
def test_a_continuous_run_that_is_drained_has_given_every_window(flights: Any, departures: Departures) -> None:
    output = output_of(flights, "departures_live", departures.live, "hours.by-carrier", "hours")
    assert hours_written(output) == hours_of_duckdb(flights.data)


def test_its_log_tells_how_far_it_is(flights: Any, departures: Departures) -> None:
    log = flights.airflow.log("departures_live", departures.live, "hours.by-carrier")
    assert "2 partitions, at the head, watermark 2013-01-01 " in log
    assert "end-of-stream 0 of 4" in log


def test_the_drain_waits_until_the_run_is_over(flights: Any, departures: Departures) -> None:
    log = flights.airflow.log("departures_drain", departures.drained, "drain")
    assert log.index("was asked to drain") < log.index("every stage has succeeded")


# -- catch-up ----------------------------------------------------------------------------------------------------------


def test_windows_go_on_from_run_to_run_and_each_comes_once(flights: Any, departures: Departures) -> None:
    folders = [
        output_of(flights, "departures_catch_up", run_id, "hours.by-carrier", "hours")
        for run_id in departures.caught_up
    ]
    assert hours_written(*folders) == hours_of_duckdb(flights.data, f"time_hour < '{BOUNDARY}'")


def test_each_run_reads_what_came_since_the_one_before(flights: Any, departures: Departures) -> None:
    read = [
        flights.airflow.xcom("departures_catch_up", run_id, "hours.departures")["read"]["departures"]["messages"]
        for run_id in departures.caught_up
    ]
    assert sorted(read) == [0, 838, 935]


@pytest.mark.nightly
def test_of_two_runs_at_once_one_waits_for_the_other(flights: Any, departures: Departures) -> None:
    logs = [flights.airflow.log("departures_catch_up", run_id, "hours.plan") for run_id in departures.caught_up[1:]]
    assert sum("This task waits for it, deferred." in log for log in logs) == 1
    tries = [
        flights.airflow.task("departures_catch_up", run_id, "hours.plan")["try_number"]
        for run_id in departures.caught_up
    ]
    assert tries == [1, 1, 1]


# -- one application ---------------------------------------------------------------------------------------------------


@pytest.mark.nightly
@pytest.mark.parametrize(("dag_id", "conf"), [("departures_hours_all", {}), ("departures_hours_new", {"flush": True})])
def test_one_application_reads_all_or_what_is_new_and_gives_the_same_hours(
    flights: Any, departures: Departures, dag_id: str, conf: dict[str, Any]
) -> None:
    run_id = flights.airflow.trigger(dag_id, conf=conf)
    assert flights.airflow.wait_for_run(dag_id, run_id, timeout=1200)["state"] == "success"
    assert hours_written(output_of(flights, dag_id, run_id, "hours.by-carrier", "hours")) == hours_of_duckdb(
        flights.data
    )


# -- two Dags ----------------------------------------------------------------------------------------------------------


def test_a_producers_asset_starts_the_consumer_which_reads_that_runs_part_to_its_end(
    flights: Any, producer: str
) -> None:
    airflow = flights.airflow
    assert airflow.wait_for_run("departures_producer", producer, timeout=1200)["state"] == "success"
    (consumer,) = airflow.wait_until(
        lambda: airflow.runs("departures_consumer"), 120, "the asset to start the consumer"
    )
    assert consumer["run_type"] == "asset_triggered"
    assert airflow.wait_for_run("departures_consumer", consumer["dag_run_id"], timeout=1200)["state"] == "success"
    of_run = airflow.xcom("departures_producer", producer, "departures.plan")["run_id"]
    assert f"has a section of the run {of_run}" in airflow.log(
        "departures_consumer", consumer["dag_run_id"], "carriers.plan"
    )
    output = output_of(flights, "departures_consumer", consumer["dag_run_id"], "carriers.run", "carriers")
    found = duckdb.execute(
        f"SELECT carrier, flights, round(delay, 9) FROM read_parquet('{output}/*.parquet') ORDER BY 1"
    ).fetchall()
    expected = duckdb.execute(
        "SELECT carrier, count(*), round(avg(dep_delay), 9) FROM "
        f"read_parquet('{flights.data}/flights/{DAYS[0]}.parquet') "
        "WHERE dep_delay IS NOT NULL GROUP BY 1 ORDER BY 1"
    ).fetchall()
    assert found == expected


# -- decorated, and as the data is ------------------------------------------------------------------------------------


@pytest.mark.nightly
def test_a_decorated_function_is_an_application_on_spark(flights: Any) -> None:
    run_id = flights.airflow.trigger("decorated")
    assert flights.airflow.wait_for_run("decorated", run_id, timeout=600)["state"] == "success"
    folder = output_of(flights, "decorated", run_id, "planes_per_maker", "makers")
    found = duckdb.execute(f"SELECT manufacturer, planes FROM read_parquet('{folder}/*.parquet')").fetchall()
    wanted = duckdb.execute(
        f"SELECT manufacturer, count(*) FROM read_parquet('{flights.data}/planes/*.parquet') GROUP BY 1"
    ).fetchall()
    assert sorted(found, key=str) == sorted(wanted, key=str)
    links = flights.airflow.links("decorated", run_id, "planes_per_maker")
    assert all(links[name] for name in ("Samza", "Runner's log", "Output"))


@pytest.mark.nightly
def test_a_cleared_run_that_chooses_its_mode_chooses_again_and_writes_the_same(flights: Any) -> None:
    run_id = flights.airflow.trigger("automatic")
    assert flights.airflow.wait_for_run("automatic", run_id, timeout=600)["state"] == "success"
    chosen = {
        "automatic.plan": "success",
        "automatic.run": "success",
        "automatic.planes": "skipped",
        "automatic.by-tail": "skipped",
        "automatic.done": "success",
        "automatic.cleanup": "success",
    }
    assert flights.airflow.task_states("automatic", run_id) == chosen
    folder = output_of(flights, "automatic", run_id, "automatic.run", "out")
    first = planes_written(folder)
    assert first == duckdb.execute(f"SELECT count(*) FROM '{flights.data}/planes/*.parquet'").fetchall()
    flights.airflow.clear("automatic", run_id)
    assert flights.airflow.wait_for_run("automatic", run_id, timeout=600)["state"] == "success"
    assert flights.airflow.task_states("automatic", run_id) == chosen
    assert flights.airflow.task("automatic", run_id, "automatic.run")["try_number"] == 2
    assert flights.airflow.xcom("automatic", run_id, "automatic.run")["generation"] == "1.1"  # kept (rule P13)
    assert planes_written(folder) == first


def planes_written(folder: Path) -> list[Row]:
    rows: list[Row] = duckdb.execute(f"SELECT count(*) FROM read_parquet('{folder}/*.parquet')").fetchall()
    return rows

"""Runs of partitions in a real Airflow: the example's two Dags, backfills, second runs and clears of a key."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest

from airflow_samza.provider.airflow_versions import events_take_partitions

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.airflow,
    pytest.mark.spark,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not events_take_partitions(), reason="events carry partition keys since Airflow 3.3"),
]

PRODUCER, CONSUMER = "airport_days", "carrier_days"
SUMS = "count(*), sum(dep_delay)"


def rows(select: str) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = duckdb.execute(f"{select} ORDER BY ALL").fetchall()
    return found


def of_flights(data: Path, columns: str, *days: str) -> list[tuple[Any, ...]]:
    """Return what DuckDB makes of the flights of some days that left, grouped by columns and day."""
    parts = [
        f"SELECT {columns}, {SUMS} FROM '{data}/flights/{day}.parquet' WHERE dep_delay IS NOT NULL GROUP BY {columns}"
        for day in days
    ]
    return rows(" UNION ALL ".join(parts))


def airports(flights: Any, day: str) -> list[tuple[Any, ...]]:
    return rows(f"SELECT origin, carrier, flights, minutes FROM '{flights.warehouse}/airport-days/{day}/*.parquet'")


def carriers(flights: Any) -> list[tuple[Any, ...]]:
    return rows(f"SELECT carrier, flights, minutes FROM '{flights.warehouse}/carrier-days/*.parquet'")


def ended(flights: Any, dag_id: str, run_id: str) -> dict[str, Any]:
    run: dict[str, Any] = flights.airflow.wait_for_run(dag_id, run_id, timeout=1200)
    assert run["state"] == "success", flights.airflow.task_states(dag_id, run_id)
    return run


def consumed(flights: Any, *keys: str) -> list[dict[str, Any]]:
    """Return the runs of the consumer once it has one for each of the keys, and all have ended."""

    def look() -> list[dict[str, Any]]:
        runs = flights.airflow.runs(CONSUMER)
        found = sorted(run["partition_key"] for run in runs)
        return runs if found == sorted(keys) and all(run["state"] in ("success", "failed") for run in runs) else []

    runs: list[dict[str, Any]] = flights.airflow.wait_until(look, 1200, f"runs of {CONSUMER} for {keys}")
    assert {run["state"] for run in runs} == {"success"}
    return runs


def test_a_key_goes_from_dag_to_dag_and_each_run_replaces_what_the_former_wrote_of_it(flights: Any) -> None:
    flights.airflow.wait_for_dag(CONSUMER)
    flights.airflow.wait_for_dag(PRODUCER)
    flights.airflow.backfill(PRODUCER, "2013-01-01", "2013-01-02")
    runs = flights.airflow.runs(PRODUCER)
    assert [run["partition_key"] for run in runs] == ["2013-01-01", "2013-01-02"]
    assert all(run["data_interval_start"] is None for run in runs)
    for run in runs:
        ended(flights, PRODUCER, run["dag_run_id"])
    for run in consumed(flights, "2013-01-01", "2013-01-02"):
        assert run["data_interval_start"] is None
    for day in ("2013-01-01", "2013-01-02"):
        assert airports(flights, day) == of_flights(flights.data, "origin, carrier", day) != []
    right = of_flights(flights.data, "carrier", "2013-01-01", "2013-01-02")
    assert carriers(flights) == right
    events = flights.airflow.api("GET", "/assets/events", params={"source_dag_id": PRODUCER})["asset_events"]
    by_uri = {event["uri"] for event in events}
    assert by_uri == {"x-flights://airport-days", *(uri for uri in by_uri if uri.startswith("file://"))}
    assert {event["partition_key"] for event in events} == {"2013-01-01", "2013-01-02"}
    told = [event["extra"] for event in events if event["uri"].startswith("file://")]
    assert sorted(extra["interval"][0] for extra in told) == ["2013-01-01T00:00:00+00:00", "2013-01-02T00:00:00+00:00"]

    # A second run of a key, of another Dag run; the consumer runs again, too, and its folder has each row once.
    again = flights.airflow.trigger(PRODUCER, partition_key="2013-01-02")
    ended(flights, PRODUCER, again)
    assert "replaces what the run 'airport_days-days-backfill__2013-01-02" in flights.airflow.log(
        PRODUCER, again, "days.plan"
    )
    consumed(flights, "2013-01-01", "2013-01-02", "2013-01-02")
    assert airports(flights, "2013-01-02") == of_flights(flights.data, "origin, carrier", "2013-01-02")
    assert carriers(flights) == right

    # A clear of the consumer.
    first = flights.airflow.runs(CONSUMER)[0]["dag_run_id"]
    flights.airflow.clear(CONSUMER, first)
    ended(flights, CONSUMER, first)
    assert carriers(flights) == right


def test_the_preview_of_a_backfill_has_the_keys_and_what_is_there(flights: Any) -> None:
    flights.airflow.wait_for_dag(PRODUCER)
    command = [
        sys.executable,
        "-c",
        "from airflow_samza.cli import main; main()",
        "backfill-preview",
        PRODUCER,
        "--json",
    ]
    dates = ["--from", "2013-01-05", "--to", "2013-01-06"]
    told = subprocess.run([*command, *dates], env=flights.airflow._env, capture_output=True, text=True, timeout=300)
    assert told.returncode == 0, told.stderr
    preview = json.loads(told.stdout)
    assert [each["partition_key"] for each in preview["slices"]] == ["2013-01-05", "2013-01-06"]
    (application,) = preview["applications"]
    assert [each["interval"][0][:10] for each in application["slices"]] == ["2013-01-05", "2013-01-06"]
    assert [each["problem"] for each in application["slices"]] == [None, None]
    assert all(each["inputs"][0]["files"] == 1 for each in application["slices"])


def test_keys_that_are_moments_have_the_length_of_the_timetable(flights: Any) -> None:
    run_id = flights.airflow.trigger("partitions_by_hand", partition_key="2013-03-01T13:00:00")
    ended(flights, "partitions_by_hand", run_id)
    result = flights.airflow.xcom("partitions_by_hand", run_id, "flights")
    within = "time_hour >= '2013-03-01T18:00:00Z' AND time_hour < '2013-03-01T19:00:00Z'"  # 13 o'clock in New York
    ((count,),) = rows(f"SELECT count(*) FROM '{flights.data}/flights/*.parquet' WHERE {within}")
    assert result["read"]["flights"]["messages"] == count > 0

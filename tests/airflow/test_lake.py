"""The example Dag over tables of Iceberg, for two days and for one of them again: the same as DuckDB makes of the files."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.support.iceberg_lake import rows_of, stream, system_at

pytestmark = [pytest.mark.extended, pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(1800)]

DAG = "flights_lake"
DAYS = ("2013-01-01", "2013-01-02")


def rows(lake: Path, table: str) -> list[dict[str, Any]]:
    return rows_of(system_at(lake), stream(table))


def expected(data: Path, days: tuple[str, ...]) -> list[tuple[Any, ...]]:
    files = [f"{data}/flights/{day}.parquet" for day in days]
    found: list[tuple[Any, ...]] = duckdb.execute(
        f"SELECT carrier, count(*), round(avg(dep_delay), 9) FROM read_parquet({files}) WHERE dep_delay IS NOT NULL "
        "GROUP BY 1 ORDER BY 1"
    ).fetchall()
    return found


def delays(lake: Path) -> list[tuple[Any, ...]]:
    return sorted((row["carrier"], row["flights"], round(row["delay"], 9)) for row in rows(lake, "air.delays"))


def test_days_are_written_to_a_table_and_a_day_again_replaces_itself(flights: Any) -> None:
    airflow, lake = flights.airflow, flights.root.parent / "tables"
    snapshots = []
    for done, day in enumerate((*DAYS, DAYS[0]), 1):
        at = datetime.fromisoformat(f"{day}T00:00+00:00")
        interval = {"data_interval_start": at.isoformat(), "data_interval_end": (at + timedelta(days=1)).isoformat()}
        run_id = airflow.trigger(DAG, logical_date=at + timedelta(hours=done), **interval)
        assert airflow.wait_for_run(DAG, run_id, timeout=1200)["state"] == "success", airflow.task_states(DAG, run_id)
        days = DAYS[: min(done, 2)]
        assert delays(lake) == expected(flights.data, days)
        assert len(rows(lake, "air.departures")) == sum(count for _, count, _ in expected(flights.data, days))
        output = airflow.xcom(DAG, run_id, "load.run")["outputs"]["departures"]
        assert output["path"] == "air.departures"
        snapshots.append(output["snapshot"])
    assert len(set(snapshots)) == 3
    events = airflow.api("GET", "/assets/events", params={"source_dag_id": DAG, "limit": 100})["asset_events"]
    told = {event["extra"].get("snapshot") for event in events}
    assert set(snapshots) <= told, json.dumps(events)[:2000]
    assert {event["uri"] for event in events} == {f"file://{lake}/air/{table}" for table in ("departures", "delays")}

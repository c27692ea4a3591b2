"""An existing PySpark job in a Dag, by from_dataframe.

The same as DuckDB makes of the same flights, and its shuffle in the log.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

pytestmark = [pytest.mark.extended, pytest.mark.airflow, pytest.mark.timeout(1800)]


@pytest.mark.nightly
def test_an_existing_job_is_read_and_its_shuffle_is_named(flights: Any) -> None:
    run_id = flights.airflow.trigger("busy_airports")
    assert flights.airflow.wait_for_run("busy_airports", run_id, timeout=1200)["state"] == "success"
    output = Path(
        flights.airflow.xcom("busy_airports", run_id, "airports.by-airport")["outputs"]["busy-airports"]["path"]
    )
    found = duckdb.execute(
        f"SELECT origin, busy_hours, round(delay, 6) FROM read_parquet('{output}/*.parquet') ORDER BY 1"
    ).fetchall()
    hours = f"""
        SELECT origin, count(*) AS departures, avg(dep_delay) AS delay FROM read_parquet('{flights.data}/flights/*.parquet')
        WHERE dep_delay IS NOT NULL GROUP BY origin, CAST(time_hour AT TIME ZONE 'UTC' AS date), hour
    """
    expected = duckdb.execute(
        f"SELECT origin, count(*), round(avg(delay), 6) FROM ({hours}) WHERE departures > 20 GROUP BY 1 ORDER BY 1"
    )
    assert found == expected.fetchall()
    told = flights.airflow.log("busy_airports", run_id, "airports.departures-by-hour")
    assert "read once by Spark" in flights.airflow.xcom("busy_airports", run_id, "airports.plan", "plan_text")
    assert "departures-by-hour" in told

"""An edited application that is compared with the run before it, and published in its place, in a real Airflow."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.support.expecting_apps import hidden

pytestmark = [pytest.mark.nightly, pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(1800)]

DAG, DAY = "compared_carriers", "2013-01-01"

APPLICATION = """
from airflow_samza import count, stream_application, unique


@stream_application("carriers")
def carriers(app):
    flights = app.input_stream(
        "flights", system="data", schema="carrier string, dep_delay bigint", path="flights/{{ds}}.parquet", partitions=2
    )
    counted = flights.where("{where}").partition_by("carrier", id="by-carrier")
    counted.aggregate("carrier", flights=count(), id="counts").send_to(
        app.output_stream("counts", system="warehouse", path="carriers", format="parquet", expect=[unique("carrier")])
    )
"""

DAGS = f"""
from airflow.sdk import DAG
from airflow_samza.operators import SamzaCompareOperator, SamzaPublishOperator, SamzaStreamOperator

SYSTEMS = {{"data": "flights_data", "warehouse": "flights_warehouse"}}

with DAG("{DAG}", schedule=None):
    first = SamzaStreamOperator(task_id="first", application="carriers_before:carriers", systems=SYSTEMS)
    edited = {{"application": "carriers_after:carriers", "systems": SYSTEMS}}
    strict = SamzaCompareOperator(task_id="strict", trigger_rule="all_success", **edited)
    compare = SamzaCompareOperator(task_id="compare", fail_on_difference=False, deferrable=True, **edited)
    publish = SamzaPublishOperator(task_id="publish", scope="compare", **edited)
    first >> [strict, compare]
    compare >> publish
"""


def seen(warehouse: Path) -> list[tuple[Any, ...]]:
    folder = warehouse / "carriers"
    files = [str(path) for path in folder.rglob("*.parquet") if not hidden(path.relative_to(folder))]
    return duckdb.execute(f"SELECT carrier, flights FROM read_parquet({files}) ORDER BY ALL").fetchall()


def test_an_edit_is_compared_with_the_run_before_it_and_published_in_its_place(flights: Any) -> None:
    airflow = flights.airflow
    (flights.edited / "carriers_before.py").write_text(APPLICATION.format(where="dep_delay IS NOT NULL"))
    (flights.edited / "carriers_after.py").write_text(APPLICATION.format(where="dep_delay >= 0"))
    (flights.edited / "compared_dags.py").write_text(DAGS)
    before, after = (
        duckdb.execute(
            f"SELECT carrier, count(*) FROM read_parquet('{flights.data}/flights/{DAY}.parquet') WHERE {where} "
            "GROUP BY ALL ORDER BY ALL"
        ).fetchall()
        for where in ("dep_delay IS NOT NULL", "dep_delay >= 0")
    )
    at = datetime.fromisoformat(f"{DAY}T00:00+00:00")
    interval = {"data_interval_start": at.isoformat(), "data_interval_end": (at + timedelta(days=1)).isoformat()}
    run_id = airflow.trigger(DAG, logical_date=at, **interval)
    airflow.wait_for_run(DAG, run_id, timeout=1200)
    states = airflow.task_states(DAG, run_id)
    assert (states["first"], states["compare"], states["publish"]) == ("success", "success", "success"), states
    assert states["strict"] == "failed"
    log = airflow.log(DAG, run_id, "strict")
    assert "differ from those of the run" in log
    report = airflow.xcom(DAG, run_id, "compare")
    (counts,) = report["outputs"]
    old, new = dict(before), dict(after)
    assert counts["key"] == ["carrier"]
    assert counts["different"] == sum(old[carrier] != new[carrier] for carrier in new)
    assert (counts["gone"], counts["added"]) == (len(old.keys() - new.keys()), 0)
    assert airflow.xcom(DAG, run_id, "strict", key="comparison")["equal"] is False
    assert seen(flights.warehouse) == after, "published in place of the first"

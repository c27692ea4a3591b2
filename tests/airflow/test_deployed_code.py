"""A clear after a deploy, in a real Airflow whose Dag bundle has versions."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import duckdb
import pytest

from tests.support.versioned_bundle import deploy

pytestmark = [pytest.mark.nightly, pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(1800)]

DAG_ID = "versioned_planes"
DAG = """
from airflow.sdk import DAG

from airflow_samza import SamzaTaskGroup

with DAG("versioned_planes", schedule=None):
    SamzaTaskGroup(
        "planes",
        application="versioned_planes_app:large",
        systems={"data": "flights_data", "warehouse": "flights_warehouse"},
    )
"""
APPLICATION = """
from dataclasses import dataclass

from airflow_samza import stream_application


@dataclass(frozen=True)
class Plane:
    tailnum: str
    seats: int


def is_large(plane: Plane) -> bool:
    return plane.seats > SEATS


@stream_application("large-planes")
def large(app):
    planes = app.input_stream("planes", system="data", schema=Plane, path="planes", partitions=1)
    planes.filter(is_large, id="large").send_to(app.output_stream("large", system="warehouse", path="large-planes"))
"""


def ended(flights: Any, run_id: str) -> None:
    run = flights.airflow.wait_for_run(DAG_ID, run_id, timeout=1200)
    assert run["state"] == "success", flights.airflow.task_states(DAG_ID, run_id)


def deployed(flights: Any, version: str, seats: int) -> None:
    """Deploy a version of the application, and wait until Airflow has read it."""
    files = {"versioned_dag.py": DAG, "versioned_planes_app.py": APPLICATION.replace("SEATS", str(seats))}
    deploy(flights.versioned, version, files)

    def is_read() -> bool:
        found = flights.airflow.api("GET", f"/dags/{DAG_ID}", ok=(200, 404))
        return bool(found.get("bundle_version") == version)

    flights.airflow.wait_until(is_read, 300, f"version {version} of the bundle")


def counts(flights: Any, seats: int) -> tuple[int, int]:
    """Return how many planes there are of more seats in the output, and by DuckDB in the data."""
    found = [
        duckdb.execute(f"SELECT count(*) FROM '{path}' {where}").fetchall()[0][0]
        for path, where in (
            (f"{flights.warehouse}/large-planes/*.parquet", ""),
            (f"{flights.data}/planes/*.parquet", f"WHERE seats > {seats}"),
        )
    ]
    return found[0], found[1]


def test_a_clear_after_a_deploy_says_that_the_code_is_another_and_runs_it(flights: Any) -> None:
    deployed(flights, "4f2c9a1", 100)
    run_id = flights.airflow.trigger(DAG_ID)
    ended(flights, run_id)
    first = counts(flights, 100)
    assert first[0] == first[1] > 0
    deployed(flights, "9b03e77", 300)
    body = {"dry_run": False, "dag_run_id": run_id, "only_failed": False, "reset_dag_runs": True}
    flights.airflow.api("POST", f"/dags/{DAG_ID}/clearTaskInstances", json={**body, "run_on_latest_version": True})
    ended(flights, run_id)
    told = " ".join(flights.airflow.log(DAG_ID, run_id, "planes.plan", 2).split())
    assert (
        "The code is another than that by which the run was planned: version 9b03e77 of the Dag bundle 'versioned', "
        "and then it was 4f2c9a1." in told
    )
    second = counts(flights, 300)
    assert first[0] > second[0] == second[1] > 0
    command = [sys.executable, "-c", "from airflow_samza.cli import main; main()", "runs", "list", "large-planes"]
    listed = subprocess.run(
        [*command, "--json", "--root", str(flights.root)], capture_output=True, text=True, timeout=300, check=True
    )
    run = json.loads(listed.stdout)
    assert (run["bundle_version"], run["generation"]) == ("9b03e77", 2)

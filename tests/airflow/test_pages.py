"""Airflow's own page of a Dag run, in a browser: what a user sees in the end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from demo.screenshot import take_screenshot

if TYPE_CHECKING:
    from tests.airflow.conftest import FlightsAirflow

pytestmark = [pytest.mark.airflow, pytest.mark.browser, pytest.mark.timeout(1200)]


def test_the_page_of_a_finished_run_shows_every_stage_in_green(flights: FlightsAirflow, tmp_path: Path) -> None:
    airflow = flights.airflow
    done = [run["dag_run_id"] for run in airflow.runs("flights") if run["state"] == "success"]
    run_id = done[0] if done else airflow.trigger("flights")
    assert airflow.wait_for_run("flights", run_id)["state"] == "success"
    page_of_run = f"{airflow.url}/dags/flights/runs/{run_id}"
    picture = tmp_path / "pictures" / "dag-run.png"
    states = take_screenshot(page_of_run, airflow.username, airflow.password, picture)
    assert states == dict.fromkeys((task["task_display_name"] for task in airflow.tasks("flights", run_id)), "Success")
    assert len(states) == 6
    assert {"join-with-maker", "partition-by-tail"} <= states.keys()
    assert picture.read_bytes().startswith(b"\x89PNG")

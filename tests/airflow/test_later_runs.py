"""A day that is cleared behind later ones in a real Airflow: the plan's log names them, and clearing them helps."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from tests.support import delta_lake

pytestmark = [pytest.mark.nightly, pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(1800)]

DAG = "newest_rows"


def rows(mart: Path) -> list[tuple[int, str]]:
    found = delta_lake.rows_of(delta_lake.system_at(mart), delta_lake.stream("newest.rows"))
    return sorted((row["id"], row["told"]) for row in found)


def test_a_cleared_day_names_the_later_days_and_clearing_them_brings_their_rows_back(flights: Any) -> None:
    airflow, mart = flights.airflow, flights.root.parent / "mart"
    (flights.data / "newest").mkdir()

    def write(day: int, told: str) -> None:
        (flights.data / "newest" / f"2013-01-0{day}.json").write_text(f'{{"id": 1, "told": "{told}"}}\n')

    def done(run_id: str) -> None:
        assert airflow.wait_for_run(DAG, run_id, timeout=1200)["state"] == "success", airflow.task_states(DAG, run_id)

    runs = {}
    for day in (1, 2):
        write(day, f"day {day}")
        start = datetime(2013, 1, day, tzinfo=timezone.utc)
        interval = {"data_interval_start": start.isoformat(), "data_interval_end": (start + timedelta(1)).isoformat()}
        runs[day] = airflow.trigger(DAG, logical_date=start + timedelta(hours=1), **interval)
        done(runs[day])
    assert rows(mart) == [(1, "day 2")]
    write(1, "corrected")
    airflow.clear(DAG, runs[1], "keep.plan", downstream=True)
    done(runs[1])
    plan = airflow.task(DAG, runs[1], "keep.plan")
    log = " ".join(airflow.log(DAG, runs[1], "keep.plan", plan["try_number"]).split())
    later = airflow.xcom(DAG, runs[2], "keep.plan")["run_id"]
    assert f"The later run {later!r} has written to 'newest', and this run replaces newer rows there by older" in log
    assert rows(mart) == [(1, "corrected")]
    airflow.clear(DAG, runs[2], "keep.plan", downstream=True)
    done(runs[2])
    assert rows(mart) == [(1, "day 2")]

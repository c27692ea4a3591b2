"""The example Dag over files that keep coming, twice, with new files in between: the same as DuckDB makes of all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

pytestmark = [pytest.mark.nightly, pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(1800)]

DAG = "departures_files"
LATER = {f"2013-01-0{day}": f"2014-01-0{day}" for day in (1, 2, 3)}
"""Days that come after the first run: the first ones once more, a year later."""


@pytest.fixture
def days(flights: Any) -> Iterator[Path]:
    """The folder of the days' files; later ones are taken away again, other tests know none."""
    folder = flights.data / "flights"
    yield folder
    for day in LATER.values():
        (folder / f"{day}.parquet").unlink(missing_ok=True)


def come(folder: Path) -> None:
    for day, later in LATER.items():
        shifted = f"SELECT * REPLACE (time_hour + INTERVAL 365 DAY AS time_hour) FROM '{folder}/{day}.parquet'"
        duckdb.execute(f"COPY ({shifted}) TO '{folder}/.{later}' (FORMAT parquet)")
        (folder / f".{later}").rename(folder / f"{later}.parquet")


def run(airflow: Any) -> str:
    run_id: str = airflow.trigger(DAG)
    assert airflow.wait_for_run(DAG, run_id, timeout=1200)["state"] == "success", airflow.task_states(DAG, run_id)
    return run_id


def asked(text: str) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = duckdb.execute(text).fetchall()
    return rows


def test_each_run_reads_the_files_that_are_new_and_each_window_comes_once(flights: Any, days: Path) -> None:
    airflow, read, outputs = flights.airflow, [], []
    for number in range(2):
        if number:
            come(days)
        run_id = run(airflow)
        read.append(airflow.xcom(DAG, run_id, "hours.flights")["read"]["flights"]["messages"])
        outputs.append(airflow.xcom(DAG, run_id, "hours.by-carrier")["outputs"]["hours"]["path"])
    of_2013, of_2014 = f"'{days}/2013-*.parquet'", f"'{days}/2014-*.parquet'"
    assert [(count,) for count in read] == [
        *asked(f"FROM {of_2013} SELECT count(*)"),
        *asked(f"FROM {of_2014} SELECT count(*)"),
    ]
    found = f"read_parquet({[f'{output}/*.parquet' for output in outputs]})"
    assert asked(f"SELECT carrier, epoch(window_start), flights, round(delay, 9) FROM {found} ORDER BY 1, 2") == asked(
        # A window is over when the watermark, a day behind the last flight, has come over its end.
        f"SELECT carrier, epoch(time_hour), count(*), round(avg(dep_delay), 9) FROM '{days}/*.parquet' "
        f"WHERE dep_delay IS NOT NULL AND time_hour < (SELECT max(time_hour) - INTERVAL 1 DAY FROM '{days}/*.parquet') "
        "GROUP BY 1, 2 ORDER BY 1, 2"
    )

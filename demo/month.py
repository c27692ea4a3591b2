"""``make demo-month``: a month of daily runs, in parallel, then again from the last day to the first, on PostgreSQL.

Airflow's database decides how many runs can be created and scheduled at once: SQLite answers "database is locked" where
a backfill writes beside a scheduler. Here Airflow runs as an installation has it, in separate processes over a
PostgreSQL that is started and ended with it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path

from demo import backfills, show
from demo.airflow_api import AirflowApi
from demo.airflow_parts import AirflowInParts
from demo.databases import running_postgres
from demo.flights_answers import asked_of_duckdb, written

DAG = "flights_daily"
DAYS = [datetime(2013, 1, 1, tzinfo=timezone.utc) + timedelta(days=number) for number in range(31)]

TOGETHER = 4
"""Dag runs at the same time, and warm runners for them."""

BACKWARDS = "--run-backwards"
SETTINGS = {"AIRFLOW__SAMZA__WARM_RUNNERS": str(TOGETHER)}  # else each run starts a Spark of its own


@contextmanager
def airflow_on_postgres(
    home: Path, *, dags: Path, env: Mapping[str, str], connections: Mapping[str, str]
) -> Iterator[AirflowInParts]:
    """Start PostgreSQL; yield an Airflow over it, to be started. Nothing of a former demonstration is left."""
    for name in ("postgres", "airflow", "samza", "warehouse", "t"):
        shutil.rmtree(home / name, ignore_errors=True)
    for name in ("samza", "warehouse", "t"):
        (home / name).mkdir(parents=True)
    show.step("PostgreSQL starts")
    with running_postgres(home / "postgres") as database:
        airflow = AirflowInParts(
            home / "airflow",
            dags=dags,
            database=database,
            # Warm runners of this Airflow, apart from those that the user has.
            env={**SETTINGS, "TMPDIR": str(home / "t"), **env},
            connections=connections,
            parallelism=16,
        )
        with airflow:
            yield airflow


def run(airflow: AirflowApi, home: Path, data: Path, seconds: float) -> bool:
    """Backfill the month twice, show what came out; True when each day equals what DuckDB computes of its file."""
    airflow.wait_for_dag(DAG)
    show.fact(f"{airflow.url}/dags/{DAG}")
    good = True
    for title, options in (
        (f"January 2013, a run per day, {TOGETHER} at a time", []),
        ("The same month again, from the last day to the first", ["--reprocess-behavior", "completed", BACKWARDS]),
    ):
        show.step(title)
        bound = ["--max-active-runs", str(TOGETHER)]
        runs = backfills.backfill(airflow, DAG, DAYS, *options, *bound, name="%d", seconds=seconds)
        good = backfills.ended_well(airflow, DAG, runs) and good
        if BACKWARDS in options and [backfills.interval_start(run) for run in runs] != DAYS[::-1]:
            show.fact("The runs did not begin in reversed order.")
            good = False
        different = [day for day in DAYS if not _is_right(home, data, day)]
        names = ", ".join(f"{day:%Y-%m-%d}" for day in different)
        show.fact(
            f"DIFFERENT from what DuckDB computes: {names}" if different else "All days equal what DuckDB computes."
        )
        good = good and not different
    return good


def _is_right(home: Path, data: Path, day: datetime) -> bool:
    return written(home / "warehouse" / f"delays-of-a-day/{day:%Y-%m-%d}") == asked_of_duckdb(
        data, f"{day:%Y-%m-%d}.parquet"
    )

"""A backfill that is created, followed to its end, and told of run by run."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from demo import show
from demo.airflow_api import AirflowApi

Run = Mapping[str, Any]


def backfill(
    airflow: AirflowApi, dag_id: str, slices: Sequence[datetime], *options: str, name: str, seconds: float
) -> list[dict[str, Any]]:
    """Run a Dag over the data intervals that begin at ``slices``, and print each run that ends.

    ``options`` are those of ``airflow backfill create``, ``name`` is the format of an interval's start as it is
    printed.

    Returns:
        The runs as the API has them, in the order in which they began.

    Raises:
        AirflowProblem: when they have not ended after ``seconds``.
    """
    airflow.wait_for_backfills(dag_id)
    since, began = time.monotonic(), datetime.now(timezone.utc)
    first, last = (f"{one:%Y-%m-%dT%H:%M}" for one in (slices[0], slices[-1]))
    airflow.backfill(dag_id, first, last, *options)
    told: set[str] = set()

    def ended() -> list[dict[str, Any]] | None:
        runs = [run for run in airflow.runs(dag_id) if run["start_date"] and _time(run["start_date"]) >= began]
        for run in runs:
            if run["state"] in ("success", "failed") and run["dag_run_id"] not in told:
                told.add(run["dag_run_id"])
                show.fact(f"{time.monotonic() - since:6.1f} s  {interval_start(run):{name}}  {run['state']}")
        return runs if len(told) == len(slices) else None

    runs = airflow.wait_until(
        ended, seconds, f"the runs of {dag_id}", lambda: f"{len(told)} of {len(slices)} have ended."
    )
    ordered = sorted(runs, key=lambda run: _time(run["start_date"]))
    show.fact(f"{len(ordered)} runs in {time.monotonic() - since:.0f} s; {together(ordered)} at the same time at most;")
    show.fact("they began in this order: " + " ".join(f"{interval_start(run):{name}}" for run in ordered))
    return ordered


def ended_well(airflow: AirflowApi, dag_id: str, runs: Sequence[Run]) -> bool:
    """Return True when all of them succeeded; print why the first of the others did not."""
    failed = [run["dag_run_id"] for run in runs if run["state"] != "success"]
    for run_id in failed[:1]:
        show.failures(airflow, dag_id, run_id)
    return not failed


def together(runs: Sequence[Run]) -> int:
    """Return how many runs were on at the same time, at most."""
    starts = [run["start_date"] for run in runs]
    return max(len([one for one in runs if one["start_date"] <= start < one["end_date"]]) for start in starts)


def interval_start(run: Run) -> datetime:
    """Return the start of a run's data interval."""
    return _time(run["data_interval_start"])


def _time(text: Any) -> datetime:
    return datetime.fromisoformat(str(text).replace("Z", "+00:00"))

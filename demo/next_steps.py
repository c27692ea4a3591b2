"""Three things to try with the Airflow of the demo."""

from __future__ import annotations

import shlex
from pathlib import Path

WEEK = ("2013-01-01", "2013-01-07")
"""The days that the last step backfills, each a run of its own."""


def steps(script: Path, page: str, dag: str, task: str) -> dict[str, list[str]]:
    """Return what to try next with an Airflow that runs, as titles with commands or addresses.

    ``script`` runs a command in it, ``page`` is the address of the run in the page, ``task`` the id of its last stage.
    """
    run = shlex.quote(str(script.relative_to(Path.cwd()) if script.is_relative_to(Path.cwd()) else script))
    first, last = WEEK
    days = f"--dag-id flights_daily --from-date {first} --to-date {last}"
    return {
        "Open the page of the run: its plan, its progress, its results": [page],
        "Clear the last stage: it runs again by itself, and its result is replaced": [
            f"{run} airflow tasks clear {dag} --task-regex {task} --yes"
        ],
        "See what a backfill of a week would read, and run it (paused meanwhile: SQLite has one writer at a time)": [
            f"{run} airflow-samza backfill-preview flights_daily --from {first} --to {last}",
            f"{run} airflow dags pause flights_daily --yes",
            f"{run} airflow backfill create {days} --max-active-runs 2",
            f"{run} airflow dags unpause flights_daily --yes",
        ],
    }

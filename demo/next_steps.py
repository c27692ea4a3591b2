"""The end of the demo: a script that gives any command the demo's Airflow, and three things to try with it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

SCRIPT = "in-airflow"

WEEK = ("2013-01-01", "2013-01-07")
"""The days that the last step backfills, each a run of its own."""


def write_script(home: Path, environment: Mapping[str, str]) -> Path:
    """Write ``HOME/in-airflow``, which runs a command with the settings and connections of the demo's Airflow.

    Only its user can read it: it holds the connections.
    """
    settings = {name: value for name, value in environment.items() if name.startswith("AIRFLOW")}
    lines = [f"export {name}={shlex.quote(value)}" for name, value in sorted(settings.items())]
    path = f"export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH"
    script = home / SCRIPT
    script.touch(mode=0o700)
    script.write_text("\n".join(["#!/bin/sh", *lines, path, 'exec "$@"', ""]))
    return script


def steps(script: Path, page: str, dag: str, task: str) -> dict[str, list[str]]:
    """Return what to try next with an Airflow that runs, as titles with commands or addresses.

    ``page`` is the address of the run in the page, ``task`` the id of its last stage.
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

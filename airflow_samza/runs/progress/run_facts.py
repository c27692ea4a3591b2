"""Facts of each run of a list: state, mode, origin."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from airflow_samza.errors import SamzaError
from airflow_samza.runs.progress.run_list import KnownRun, plan_of
from airflow_samza.runs.records.folders import RunFolder, read_told
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.run_ends import RunEnd
from airflow_samza.systems.filesystems.filesystem import Filesystem

OPEN, SUCCEEDED, FAILED = "open", "succeeded", "failed"


def run_state(files: Filesystem, folder: RunFolder) -> str:
    """Return whether a run is open, or how it has ended."""
    end = read_told(files, folder.closed, RunEnd)
    if end is None:
        return FAILED if files.exists(folder.closed) else OPEN
    return SUCCEEDED if end.succeeded else FAILED


def facts_of(files: Filesystem, run: KnownRun) -> dict[str, Any]:
    """Return a run as ``runs list --json`` has it; what its plan says is None where the plan cannot be read.

    ``interval`` are start and end of the data interval (ISO texts, UTC), None for a run without one.
    """
    try:
        plan: RunPlan | None = plan_of(files, run)
    except SamzaError:
        plan = None
    return {
        "application": run.application,
        "run_id": run.run_id,
        "state": run_state(files, run.folder),
        "mode": plan.mode if plan is not None else None,
        "interval": plan.interval if plan is not None else None,
        "at": f"{datetime.fromtimestamp(run.at, timezone.utc):%Y-%m-%dT%H:%M:%SZ}" if run.at else None,
        "generation": run.generation,
        "dag_id": run.origin.dag_id or None,
        "dag_run": run.origin.run_id or None,
    }

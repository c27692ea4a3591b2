"""Runs that are named a second time: they go on by the plan that they have."""

from __future__ import annotations

from collections.abc import Callable

from airflow_samza.runs.records.folders import RunFolder, read
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.state_history.lease_holder import finished_stage
from airflow_samza.systems.filesystems.filesystem import Filesystem


def planned_before(files: Filesystem, application: str, run_id: str) -> RunPlan | None:
    """Return the newest plan of a run; None when it has not been planned."""
    folder = RunFolder(application, run_id)
    known = folder.plan_generations(files)
    return read(files, folder.plan(known[-1]), RunPlan) if known else None


def tell_if_all_is_done(files: Filesystem, run: RunPlan, tell: Callable[[str], None]) -> None:
    """Report that a run whose stages have all succeeded reads and writes nothing now."""
    if all(finished_stage(files, run, stage.stage_id) is not None for stage in run.plan.stages):
        tell(
            f"Run {run.run_id} has succeeded before: nothing is read or written now; what follows is what it did then. "
            "Add --again to run it anew."
        )

"""The newest generation of each stage under a plan, which alone counts, its result, and whether the run is over by it.

A stage that was cleared begins a new generation, and has no result until that has ended. Whoever looks at a run's
stages asks it: progress, the state that a run leaves, upkeep, and the faces.
"""

from __future__ import annotations

from airflow_samza.runs.records.folders import read_fixed
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.records.stage_result import CODE, StageResult
from airflow_samza.runs.stages.stage_state import StageHandle, newest_request
from airflow_samza.systems.filesystems.filesystem import Filesystem


def newest_submitted(files: Filesystem, run: RunPlan, stage_id: str) -> StageHandle | None:
    """Return the newest generation of a stage that was submitted under a plan; None where none was."""
    generations = run.generations(files, stage_id)
    return StageHandle(run.application, run.run_id, stage_id, generations[-1]) if generations else None


def newest_handle(files: Filesystem, run: RunPlan, stage_id: str) -> StageHandle:
    """Return the newest generation of a stage under a plan; its first one where none was submitted."""
    first = StageHandle(run.application, run.run_id, stage_id, Generation(run.generation, 1))
    return newest_submitted(files, run, stage_id) or first


def finished_stage(files: Filesystem, run: RunPlan, stage_id: str) -> StageHandle | None:
    """Return the newest generation of a stage under a plan, if it has succeeded."""
    handle = newest_submitted(files, run, stage_id)
    return handle if handle is not None and files.exists(handle.folder.result) else None


def finished_result(files: Filesystem, run: RunPlan, stage_id: str) -> StageResult | None:
    """Return the result of a stage under a plan, if it has succeeded."""
    handle = newest_submitted(files, run, stage_id)
    return read_fixed(files, handle.folder.result, StageResult) if handle is not None else None


def is_finished(files: Filesystem, run: RunPlan) -> bool:
    """Return whether all stages of a run have succeeded."""
    return all(finished_stage(files, run, stage.stage_id) is not None for stage in run.plan.stages)


def is_over(files: Filesystem, run: RunPlan) -> bool:
    """Return whether a run is closed, or all its stages have succeeded."""
    return files.exists(run.folder.closed) or is_finished(files, run)


def code_run(files: Filesystem, run: RunPlan, stage_id: str) -> str:
    """Return the digest of the callables that a stage was last run with under a plan; "" where that is not known."""
    handle = newest_submitted(files, run, stage_id)
    if handle is None:
        return ""
    result = read_fixed(files, handle.folder.result, StageResult)
    if result is not None:
        return result.fingerprint.get(CODE, "")
    request = newest_request(files, handle.folder)
    return request.code if request is not None else ""

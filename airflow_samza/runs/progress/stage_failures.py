"""The failures of a run's stages: of their newest attempts, or of the stage runner that did not start for them.

The command line and the page show them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from airflow_samza.errors import SamzaError
from airflow_samza.runs.records.folders import read_fixed
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.stage_runners import DID_NOT_START, RunnerEnd, all_runners
from airflow_samza.runs.stages.stage_state import FAILED, SUCCEEDED, StageHandle, StageStatus, failure_of
from airflow_samza.systems.filesystems.filesystem import Filesystem


class StageFailure(NamedTuple):
    """The failure of a stage; ``status`` is that of its newest attempt, number 0 where none was made."""

    handle: StageHandle
    status: StageStatus
    error: SamzaError


def stage_failures(
    files: Filesystem, run: RunPlan, looked: Sequence[tuple[StageHandle, StageStatus]]
) -> list[StageFailure]:
    """Return the failures of stages, which were ``looked`` at in the order of the plan.

    Where none has failed, that of a runner that did not start is the failure of the first stage that waits for it.
    """
    errors = [(handle, status, failure_of(status, handle.stage_id)) for handle, status in looked]
    failures = [StageFailure(handle, status, error) for handle, status, error in errors if error is not None]
    waiting = [one for one in looked if not one[1].attempt and one[1].state != SUCCEEDED]
    runners = all_runners(files, run.folder) if waiting and not failures else []
    end = read_fixed(files, runners[-1].closed, RunnerEnd) if runners else None
    if end is None or end.why != DID_NOT_START or end.error is None:
        return failures
    handle, status = waiting[0]
    failed = replace(status, state=FAILED, error=end.error, updated_at=end.at)
    return [StageFailure(handle, failed, SamzaError.from_dict(dict(end.error)))]

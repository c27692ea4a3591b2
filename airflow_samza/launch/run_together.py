"""Stages that run at the same time: submitted at once, and cancelled together when one of them fails.

The command ``run`` runs the stages of a run by it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Protocol

from airflow_samza.errors import SamzaError
from airflow_samza.launch.runner_settings import POLL_SECONDS
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.records.stage_result import StageResult
from airflow_samza.runs.stages.stage_state import StageHandle, StageStatus
from airflow_samza.systems.filesystems.pace import Looks, Pace


class Stages(Protocol):
    """The part of the runtime that runs stages."""

    @property
    def pace(self) -> Pace:
        """Pace at which looks at the records are fitting."""
        ...

    def submit(
        self, run: RunPlan, stage_id: str, generation: int = 1, spark_conf: Mapping[str, str] | None = None
    ) -> StageHandle:
        """Start a stage."""
        ...

    def status(self, handle: StageHandle) -> StageStatus:
        """Return the status of a stage."""
        ...

    def finish(self, handle: StageHandle) -> StageResult:
        """Return the result of a stage that has ended, or its error."""
        ...

    def cancel(self, handle: StageHandle) -> None:
        """Kill a stage."""
        ...


def run_together(
    runtime: Stages,
    run: RunPlan,
    generation: int = 1,
    spark_conf: Mapping[str, str] | None = None,
    on_progress: Callable[[str, StageStatus], None] | None = None,
    on_result: Callable[[StageResult], None] | None = None,
) -> list[StageResult]:
    """Run all stages of a run at once; their results in the order of the plan.

    The first error cancels the rest and is raised.
    """
    handles = {stage.stage_id: runtime.submit(run, stage.stage_id, generation, spark_conf) for stage in run.plan.stages}
    results: dict[str, StageResult] = {}
    shown: dict[str, str] = {}
    looks = Looks(runtime.pace)
    try:
        while len(results) < len(handles):
            for stage_id, handle in handles.items():
                if stage_id in results:
                    continue
                status = runtime.status(handle)
                if shown.get(stage_id) != str(status):
                    shown[stage_id] = str(status)
                    looks.news()
                    if on_progress is not None:
                        on_progress(stage_id, status)
                if status.is_final:
                    results[stage_id] = runtime.finish(handle)
                    if on_result is not None:
                        on_result(results[stage_id])
            time.sleep(looks.pause(POLL_SECONDS))
    except BaseException:
        for stage_id, handle in handles.items():
            if stage_id not in results:
                with suppress(SamzaError, OSError):  # what ended the run is what has to be heard
                    runtime.cancel(handle)
        raise
    return [results[stage.stage_id] for stage in run.plan.stages]

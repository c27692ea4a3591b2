"""The requests that a run has sent to a root that charges for them: the sum of what its records hold."""

from __future__ import annotations

from airflow_samza.runs.records.folders import RunFolder, numbers, read_told
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.records.stage_result import StageResult, requests_of
from airflow_samza.runs.stages.run_ends import RunEnd
from airflow_samza.runs.stages.stage_runners import RunnerEnd, StageRequest, all_runners
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.filesystems.object_store.requests import added


def run_requests(files: Filesystem, run: RunPlan) -> dict[str, int]:
    """Return the requests of a run so far, by kind; none on a root where they cost nothing.

    They are those of planning, of submitting, of its runners and tasks, and of its end. Looks of tasks that only wait
    are in no record.
    """
    if files.pace.is_free:
        return {}
    folder = RunFolder(run.application, run.run_id)
    parts = [run.requests]
    for stage in run.plan.stages:
        for generation in folder.generations(files, stage.stage_id):
            records = folder.stage(stage.stage_id, generation)
            for attempt in numbers(files, records.attempts):
                asked = read_told(files, records.attempt(attempt, "request"), StageRequest)
                parts += [asked.requests] if asked is not None else []
            result = read_told(files, records.result, StageResult)
            parts += [result.requests, requests_of(result.task_facts)] if result is not None else []
    ends = [read_told(files, runner.closed, RunnerEnd) for runner in all_runners(files, folder)]
    parts += [end.requests for end in ends if end is not None]
    closed = read_told(files, folder.closed, RunEnd)
    return added([*parts, closed.requests if closed is not None else {}])

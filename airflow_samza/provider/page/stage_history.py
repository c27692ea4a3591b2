"""Figures of the last runs of a stage, from their results, and how the present run compares with them."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from airflow_samza.figures import duration
from airflow_samza.provider.page.airflow_records import AirflowRecords, Planned
from airflow_samza.provider.page.answer import Answer
from airflow_samza.provider.page.opened_run import OpenedRun
from airflow_samza.provider.page.parallel import of_each
from airflow_samza.provider.page.stage_answers import Stage
from airflow_samza.runs.progress.run_list import Origin
from airflow_samza.runs.records.folders import RunFolder, read
from airflow_samza.runs.records.stage_result import StageResult

RUNS_SHOWN = 30

_LOOKED_AT = 60
"""Plans whose runs are looked at for that: some have failed, and have no result."""

_USUAL = 3
"""Other runs from which on there is something usual."""

_SLOW, _SLOW_SECONDS = 2.0, 1.0
"""The ratio to the usual time, and the difference, from which on a run is called slow."""


class StageRun(Answer):
    """A run of the Dag in which the stage has succeeded."""

    dag_run_id: str
    planned_at: float
    rows: int
    """Messages read of all inputs."""
    seconds: float
    bytes: int
    """Bytes in the systems that were written to, as far as these report them."""
    is_this: bool


class StageHistory(Answer):
    """The last runs of a stage, oldest first, and a sentence where the present one is slow."""

    stage_id: str
    runs: list[StageRun]
    note: str | None


def stage_history(opened: OpenedRun, records: AirflowRecords, stage: Stage) -> StageHistory:
    """Return the last runs of a stage by the same task; ``stage`` is the present one."""
    here = opened.planned
    plans = [
        planned
        for planned in records.planned_by(here.dag_id, here.task_id, _LOOKED_AT)
        if planned.map_index == here.map_index
        and (planned.note.conn_id, planned.note.application) == (here.note.conn_id, here.note.application)
    ]
    found = of_each(opened.files, lambda planned: _run_of(opened, planned, stage.stage_id), plans)
    runs = [run for run in found if run is not None][:RUNS_SHOWN][::-1]
    return StageHistory(stage_id=stage.stage_id, runs=runs, note=slow_note(stage, runs))


def _run_of(opened: OpenedRun, planned: Planned, stage_id: str) -> StageRun | None:
    """Return what a run's result of a stage says; None where there is none, or its records are of another Dag run."""
    files, folder = opened.files, RunFolder(planned.note.application, planned.note.run_id)
    origin = read(files, f"{folder.path}/origin.json", Origin)
    if origin is None or (origin.dag_id, origin.run_id) != (planned.dag_id, planned.run_id):
        return None
    generations = folder.generations(files, stage_id)
    result = read(files, folder.stage(stage_id, generations[-1]).result, StageResult) if generations else None
    if result is None:
        return None
    return StageRun(
        dag_run_id=planned.run_id,
        planned_at=planned.note.planned_at,
        rows=result.read,
        seconds=result.seconds,
        bytes=sum(output.bytes for output in result.outputs),
        is_this=planned.run_id == opened.planned.run_id,
    )


def slow_note(stage: Stage, runs: Sequence[StageRun]) -> str | None:
    """Return a sentence on a stage that is slower than usual; None of any other, and where nothing is usual yet."""
    others = [run for run in runs if not run.is_this]
    if stage.seconds is None or len(others) < _USUAL:
        return None
    usual = median(run.seconds for run in others)
    if stage.seconds < _SLOW * usual or stage.seconds - usual < _SLOW_SECONDS:
        return None
    times = f"{stage.seconds / usual:,.1f} times slower than usual" if usual else "Slower than usual"
    rows = median(run.rows for run in others)
    beside = f", for {stage.read / rows:,.1f} times the rows" if rows else ""
    return f"{times}: {duration(stage.seconds)} instead of {duration(usual)}, the median of {len(others)} runs{beside}."

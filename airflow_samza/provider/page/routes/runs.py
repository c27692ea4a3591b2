"""Roots, their runs, and the applications of a Dag run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from fastapi import APIRouter, Query

from airflow_samza.errors import SamzaError
from airflow_samza.provider.disclosure import shows_samples
from airflow_samza.provider.page.airflow_records import NEWEST, Planned, Records
from airflow_samza.provider.page.answer import Answer
from airflow_samza.provider.page.opened_run import OpenedRun, not_planned, why_not_planned
from airflow_samza.provider.page.problems import NotFound, not_read, problem_of
from airflow_samza.provider.page.rights import OF_RUN, ReadableDags
from airflow_samza.provider.page.routes.addresses import OF_DAG_RUN, DagId, Limit, Offset, RunId
from airflow_samza.runs.progress.run_list import run_state
from airflow_samza.secrecy import without_passwords

router = APIRouter(tags=["runs"])

GONE, UNKNOWN = "gone", "unknown"


class Root(Answer):
    """A Samza connection under whose root Dags that the user may read have runs."""

    conn_id: str
    applications: list[str]
    runs: int
    newest: float | None
    """The time at which the newest of its runs was planned."""


class Roots(Answer):
    """The roots, the one that was used last first."""

    roots: list[Root]
    note: str | None


class RunRow(Answer):
    """A run of an application in a list."""

    application: str
    run: str
    """The run's own id, under which the command line knows it."""
    dag_id: str
    dag_run_id: str
    plan_task: str
    map_index: int
    state: str
    """``running``, ``succeeded``, ``failed``; ``gone``: its records are deleted; ``unknown``: they cannot be read."""
    mode: str
    interval: list[str] | None
    """Start and end of the data interval, ISO texts in UTC; None for a run without one."""
    planned_at: float
    generation: int
    note: str | None


class Runs(Answer):
    """Runs under a root, newest first; a page of them."""

    conn_id: str
    place: str | None
    """The root; None where it cannot be opened, with the reason in ``note``."""
    applications: list[str]
    runs: list[RunRow]
    total: int
    note: str | None


class StageTask(Answer):
    """A stage, and the Airflow task that runs it."""

    stage_id: str
    task_id: str
    """The task, or the one that runs all stages (mode ``fused``)."""


class PlannedApplication(Answer):
    """An application that a task of the Dag run has planned; ``plan_task`` and ``map_index`` name it in addresses."""

    application: str
    group: str
    """The task group, empty where the tasks are in none."""
    plan_task: str
    map_index: int
    conn_id: str
    run: str
    generation: int
    mode: str
    state: str
    """As of a run in a list."""
    planned_at: float
    stages: list[StageTask]
    note: str | None


class Selected(Answer):
    """The application, and the stage where there is one, that a task instance belongs to."""

    plan_task: str
    map_index: int
    stage_id: str | None


class Applications(Answer):
    """The applications of a Dag run; ``note`` says why there are none."""

    dag_id: str
    run_id: str
    applications: list[PlannedApplication]
    selected: Selected | None
    samples: bool
    """True where messages and samples are shown at all (``[samza] page_samples``)."""
    note: str | None


@router.get("/api/roots", operation_id="roots")
def roots(may_read: ReadableDags, records: Records) -> Roots:
    """Return the roots under which Dags that the user may read have runs."""
    by_connection: dict[str, list[Planned]] = {}
    newest = records.newest()
    for planned in newest:
        if may_read(planned.dag_id):
            by_connection.setdefault(planned.note.conn_id, []).append(planned)
    rows = [
        Root(
            conn_id=conn_id,
            applications=sorted({planned.note.application for planned in runs}),
            runs=len(runs),
            newest=max(planned.note.planned_at for planned in runs),
        )
        for conn_id, runs in by_connection.items()
    ]
    note = _older(len(newest)) if rows else "No run of a Dag that you may read has planned an application yet."
    return Roots(roots=rows, note=note)


@router.get("/api/roots/{conn_id}/runs", operation_id="runs")
def runs(
    conn_id: str,
    may_read: ReadableDags,
    records: Records,
    application: Annotated[str | None, Query(description="Only runs of this application.")] = None,
    limit: Limit = 50,
    offset: Offset = 0,
) -> Runs:
    """Return the runs under a root, newest first, of Dags that the user may read."""
    newest = records.newest()
    readable = [planned for planned in newest if planned.note.conn_id == conn_id and may_read(planned.dag_id)]
    if not readable:
        raise NotFound(f"No run of a Dag that you may read is under the root of {conn_id!r}.")
    chosen = [planned for planned in readable if application in (None, planned.note.application)]
    place, note = _place(readable[0])
    return Runs(
        conn_id=conn_id,
        place=place,
        applications=sorted({planned.note.application for planned in readable}),
        runs=[_row(planned) for planned in chosen[offset : offset + limit]],
        total=len(chosen),
        note=note or _older(len(newest)),
    )


@router.get(f"{OF_DAG_RUN}/applications", operation_id="applications", dependencies=OF_RUN)
def applications(
    dag_id: DagId,
    run_id: RunId,
    records: Records,
    task_id: Annotated[str | None, Query(description="A task, for `selected`.")] = None,
    map_index: Annotated[int, Query(ge=-1, description="The map index of the task.")] = -1,
) -> Applications:
    """Return the applications that a Dag run has planned, and the one that a task belongs to."""
    plans = records.planned(dag_id, run_id)
    if not plans and not records.has_run(dag_id, run_id):
        raise not_planned(records, dag_id, run_id)
    return Applications(
        dag_id=dag_id,
        run_id=run_id,
        applications=[_application(planned) for planned in plans],
        selected=_selected(plans, task_id, map_index) if task_id is not None else None,
        samples=shows_samples(),
        note=None if plans else why_not_planned(records, dag_id, run_id),
    )


def _older(count: int) -> str | None:
    """Return a sentence on runs that are not counted, where there may be some."""
    return f"Of all roots together the newest {NEWEST:,} plans are counted." if count >= NEWEST else None


def _application(planned: Planned) -> PlannedApplication:
    state, note = _state(planned)
    return PlannedApplication(
        application=planned.note.application,
        group=planned.note.group,
        plan_task=planned.task_id,
        map_index=planned.map_index,
        conn_id=planned.note.conn_id,
        run=planned.note.run_id,
        generation=planned.note.generation,
        mode=planned.note.mode,
        state=state,
        planned_at=planned.note.planned_at,
        stages=[StageTask(stage_id=stage_id, task_id=task) for stage_id, task in planned.note.tasks.items()],
        note=note,
    )


def _row(planned: Planned) -> RunRow:
    state, note = _state(planned)
    return RunRow(
        application=planned.note.application,
        run=planned.note.run_id,
        dag_id=planned.dag_id,
        dag_run_id=planned.run_id,
        plan_task=planned.task_id,
        map_index=planned.map_index,
        state=state,
        mode=planned.note.mode,
        interval=list(planned.note.interval) if planned.note.interval is not None else None,
        planned_at=planned.note.planned_at,
        generation=planned.note.generation,
        note=note,
    )


def _state(planned: Planned) -> tuple[str, str | None]:
    """Return the state of a run, and why it is not known."""
    opened = OpenedRun(planned)
    try:
        return run_state(opened.files, opened.folder), None
    except NotFound as error:
        return GONE, error.problem.sentence
    except SamzaError as error:
        return UNKNOWN, problem_of(error).sentence
    except OSError as error:
        return UNKNOWN, not_read(error)


def _place(planned: Planned) -> tuple[str | None, str | None]:
    try:
        return without_passwords(OpenedRun(planned).hook.root), None
    except SamzaError as error:
        return None, problem_of(error).sentence


def _selected(applications: Iterable[Planned], task_id: str, map_index: int) -> Selected | None:
    """Return the plan, and the stage where it is one stage, that a task belongs to."""
    for planned in applications:
        if planned.map_index not in (-1, map_index):
            continue
        stages = [stage_id for stage_id, task in planned.note.tasks.items() if task == task_id]
        group = planned.note.group
        if stages or task_id == planned.task_id or (group and task_id.startswith(f"{group}.")):
            only = stages[0] if len(stages) == 1 else None
            return Selected(plan_task=planned.task_id, map_index=planned.map_index, stage_id=only)
    return None

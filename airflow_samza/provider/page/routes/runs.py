"""Roots, their runs, and the applications of a Dag run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated

from fastapi import APIRouter, Query

from airflow_samza.errors import SamzaError, entry_of
from airflow_samza.grouping import grouped
from airflow_samza.provider.disclosure import shows_samples
from airflow_samza.provider.page.airflow_records import NEWEST, AirflowRecords, FailedPlan, Planned, Records
from airflow_samza.provider.page.answer import Answer, NotFound, OfPlan, problem_of, sentence_on
from airflow_samza.provider.page.opened_run import NOTHING_PLANNED, OpenedRun, not_planned, why_not_planned
from airflow_samza.provider.page.rights import (
    OF_DAG_RUN,
    OF_RUN,
    DagId,
    Limit,
    MapIndex,
    Offset,
    PlanTask,
    ReadableDags,
    ReadableLogs,
    RunId,
)
from airflow_samza.provider.xcoms import PlanFailure, PlanNote
from airflow_samza.runs.progress.run_list import PLAN_FAILED, run_state
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


class PlannedRun(OfPlan):
    """A run of an application."""

    run: str
    """The run's own id, under which the command line knows it."""
    state: str
    """``running``, ``succeeded``, ``failed``; ``gone``: its records are deleted; ``unknown``: they cannot be read.

    ``plan failed``: there is no run, for the reason that its page gives.
    """
    mode: str
    planned_at: float
    generation: int
    note: str | None


class RunRow(PlannedRun):
    """A run of an application in a list."""

    dag_id: str
    dag_run_id: str
    interval: list[str] | None
    """Start and end of the data interval, ISO texts in UTC; None for a run without one."""
    partition_key: str | None


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


class PlannedApplication(PlannedRun):
    """An application that a task of the Dag run has planned; ``plan_task`` and ``map_index`` name it in addresses."""

    group: str
    """The task group, empty where the tasks are in none."""
    conn_id: str
    stages: list[StageTask]


class Selected(Answer):
    """The application, and the stage where there is one, that a task instance belongs to."""

    plan_task: str
    map_index: int
    stage_id: str | None


class FailedPlanning(OfPlan):
    """A task that could not plan its application, and why, for those who may read its log.

    The application is as the Dag names it: ``module:attribute``.
    """

    kind: str
    sentence: str
    hint: str | None
    entry: str
    """The address of the entry of its kind in the documentation."""
    at: float


class TaskAfterPlan(Answer):
    """A task that comes after a task that could not plan."""

    task_id: str
    state: str | None


class PlanClear(Answer):
    """The effects of clearing a task that could not plan, with the tasks after it; nothing is changed."""

    plan_task: str
    tasks: list[TaskAfterPlan]
    sentences: list[str]


class Applications(Answer):
    """The applications of a Dag run; ``note`` says why there are none."""

    dag_id: str
    run_id: str
    applications: list[PlannedApplication]
    failed_plans: list[FailedPlanning]
    selected: Selected | None
    samples: bool
    """True where messages and samples are shown at all (``[samza] page_samples``)."""
    note: str | None


@router.get("/api/roots", operation_id="roots")
def roots(may_read: ReadableDags, records: Records) -> Roots:
    """Return the roots under which Dags that the user may read have runs."""
    by_connection, older = _readable(records, may_read)
    rows = [
        Root(
            conn_id=conn_id,
            applications=sorted({each.note.application for each in listed}),
            runs=len(listed),
            newest=max(map(_at, listed)),
        )
        for conn_id, listed in by_connection.items()
    ]
    return Roots(roots=rows, note=older if rows else NOTHING_PLANNED)


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
    by_connection, older = _readable(records, may_read)
    readable = sorted(by_connection.get(conn_id, ()), key=_at, reverse=True)
    if not readable:
        raise NotFound(f"No run of a Dag that you may read is under the root of {conn_id!r}.")
    chosen = [each for each in readable if application in (None, each.note.application)]
    place, note = next((_place(each) for each in readable if isinstance(each.note, PlanNote)), (None, None))
    return Runs(
        conn_id=conn_id,
        place=place,
        applications=sorted({each.note.application for each in readable}),
        runs=[_row(plan) if isinstance(plan.note, PlanNote) else _failed_row(plan) for plan in chosen[offset:][:limit]],
        total=len(chosen),
        note=note or older,
    )


@router.get(f"{OF_DAG_RUN}/applications", operation_id="applications", dependencies=OF_RUN)
def applications(
    dag_id: DagId,
    run_id: RunId,
    records: Records,
    may_read_logs: ReadableLogs,
    task_id: Annotated[str | None, Query(description="A task, for `selected`.")] = None,
    map_index: Annotated[int, Query(ge=-1, description="The map index of the task.")] = -1,
) -> Applications:
    """Return the applications that a Dag run has planned, and the one that a task belongs to."""
    plans = records.notes(PlanNote, dag_id, run_id)
    if not plans and not records.has_run(dag_id, run_id):
        raise not_planned(records, dag_id, run_id)
    return Applications(
        dag_id=dag_id,
        run_id=run_id,
        applications=[_application(planned) for planned in plans],
        failed_plans=_failed(records.notes(PlanFailure, dag_id, run_id)) if may_read_logs(dag_id) else [],
        selected=_selected(plans, task_id, map_index) if task_id is not None else None,
        samples=shows_samples(),
        note=None if plans else why_not_planned(records, dag_id, run_id),
    )


@router.get(
    f"{OF_DAG_RUN}/failed-plans/{{plan_task}}/{{map_index}}/clear",
    operation_id="planClear",
    dependencies=OF_RUN,
)
def plan_clear(dag_id: DagId, run_id: RunId, plan_task: PlanTask, map_index: MapIndex, records: Records) -> PlanClear:
    """Return what a clear of a task that could not plan would make run again."""
    failed = records.notes(PlanFailure, dag_id, run_id)
    if (plan_task, map_index) not in [(one.task_id, one.map_index) for one in failed]:
        raise NotFound(f"The task {plan_task!r} of the run {run_id!r} has not failed to plan.", rule="not-found")
    after = records.tasks_after(dag_id, run_id, plan_task, map_index)
    if after is None:
        unknown = "Airflow has no version of the Dag any more, so the tasks after it are not known."
        return PlanClear(plan_task=plan_task, tasks=[], sentences=[f"{plan_task} plans the run anew.", unknown])
    begun = [task.task_id for task in after if task.runs_stages and task.has_begun]
    sentences = [
        f"{plan_task} plans the run anew.",
        f"With its downstream tasks, {'one more task runs' if len(after) == 1 else f'{len(after):,} more tasks run'}."
        if after
        else "No task comes after it.",
        f"Stages have run before: {', '.join(begun)}. Those that have not changed keep their results, and the output "
        "of the others replaces the former one."
        if begun
        else "No stage of this run has begun: nothing is written a second time.",
    ]
    tasks = [TaskAfterPlan(task_id=task.task_id, state=task.state) for task in after]
    return PlanClear(plan_task=plan_task, tasks=tasks, sentences=sentences)


def _readable(
    records: AirflowRecords, may_read: Callable[[str], bool]
) -> tuple[dict[str, list[Planned | FailedPlan]], str | None]:
    """Return the newest plans and failures of Dags that the user may read, by connection, and a note on older ones."""
    planned = records.newest(PlanNote)
    listed: list[Planned | FailedPlan] = [*planned, *records.newest(PlanFailure)]
    older = f"Of all roots together the newest {NEWEST:,} plans are counted." if len(planned) >= NEWEST else None
    return grouped((one.note.conn_id, one) for one in listed if may_read(one.dag_id)), older


def _at(listed: Planned | FailedPlan) -> float:
    """Return when a plan was made, or could not be."""
    return listed.note.planned_at if isinstance(listed.note, PlanNote) else listed.note.failed_at


def _failed(plans: Iterable[FailedPlan]) -> list[FailedPlanning]:
    """Return failures to plan, of tasks that plan for themselves one for all that have the same."""
    found: dict[tuple[str, str], FailedPlanning] = {}
    for plan in plans:
        failure = plan.note
        found.setdefault(
            (failure.application, failure.sentence),
            FailedPlanning(
                application=failure.application,
                plan_task=plan.task_id,
                map_index=plan.map_index,
                kind=failure.kind,
                sentence=failure.sentence,
                hint=failure.hint or None,
                entry=entry_of(failure.rule),
                at=failure.failed_at,
            ),
        )
    return list(found.values())


def _failed_row(plan: FailedPlan) -> RunRow:
    return RunRow(
        application=plan.note.application,
        run="",
        dag_id=plan.dag_id,
        dag_run_id=plan.run_id,
        plan_task=plan.task_id,
        map_index=plan.map_index,
        state=PLAN_FAILED,
        mode="",
        interval=None,
        partition_key=None,
        planned_at=plan.note.failed_at,
        generation=0,
        note=None,
    )


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
        partition_key=planned.note.partition_key,
        planned_at=planned.note.planned_at,
        generation=planned.note.generation,
        note=note,
    )


def _state(planned: Planned) -> tuple[str, str | None]:
    """Return the state of a run, and why it is not known."""
    opened = OpenedRun(planned)
    try:
        return run_state(opened.files, opened.folder), None
    except (NotFound, SamzaError, OSError) as error:
        return GONE if isinstance(error, NotFound) else UNKNOWN, sentence_on(error)


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

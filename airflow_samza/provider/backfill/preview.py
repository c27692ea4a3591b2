"""The preview of a backfill: its slices, what each would read, what is there already, and what it may cost.

Nothing runs, and nothing is written: plans are made as the plan task would make them, and thrown away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from airflow_samza.errors import NoSuchVersion, SamzaError, TopicError
from airflow_samza.provider.backfill.slices import Slice, for_slice, planned_slices
from airflow_samza.provider.backfill.waits import Awaited, awaited, awaited_by, others_before
from airflow_samza.provider.hooks.samza import SamzaHook
from airflow_samza.provider.operators.planning import PlanningOperator
from airflow_samza.provider.run_identity import run_id_of
from airflow_samza.runs.progress.later_writers import LaterWriters, later_writers
from airflow_samza.runs.progress.run_costs import (
    Estimate,
    History,
    InputAmount,
    RunCost,
    amounts,
    history,
)
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.tables.versions import by_number
from airflow_samza.secrecy import without_passwords
from airflow_samza.systems.spark.system import KIND as SPARK
from airflow_samza.systems.spark.tables import listed_amount


@dataclass(frozen=True)
class TableRead:
    """The version of a pushed table that a run would read now; ``rows`` are those that its push wrote."""

    table_id: str
    number: int
    push_id: str
    asked: str
    rows: int | None = None
    pushed_at: str | None = None


@dataclass(frozen=True)
class SlicePreview:
    """One run of a backfill, as far as it is known before it runs.

    ``interval`` is the one that is read: of the slice, unless the task has a ``data_interval`` of its own. ``there``
    are runs of the application over the same interval, ``airflow_run`` the state of this Dag's run of the same date, if
    there is one. ``problem`` is the sentence by which its plan task would fail. ``awaited`` are inputs of which nothing
    is there yet, because tasks before the plan write them. ``stages`` says, where the run was planned before, of each
    stage whether a new plan keeps its result, and why. ``outputs`` is what the plan notes of outputs, by stream: what
    would be replaced there. ``later`` are runs behind the backfill that have written newer rows to outputs of this one.
    """

    slice: Slice
    run_id: str
    interval: tuple[str, str] | None = None
    inputs: tuple[InputAmount, ...] = ()
    tables: tuple[TableRead, ...] = ()
    there: tuple[RunCost, ...] = ()
    airflow_run: str | None = None
    estimate: Estimate | None = None
    problem: str | None = None
    awaited: tuple[Awaited, ...] = ()
    stages: Mapping[str, str] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)
    later: LaterWriters = field(default_factory=LaterWriters)


@dataclass(frozen=True)
class ApplicationPreview:
    """The runs of one application of the Dag; ``former`` is the number of runs of it that are on record."""

    task_id: str
    application: str
    root: str
    former: int
    unread: int
    slices: tuple[SlicePreview, ...]


@dataclass(frozen=True)
class BackfillPreview:
    """The preview of a backfill; ``notes`` are sentences about what could not be found out."""

    dag_id: str
    slices: tuple[Slice, ...]
    applications: tuple[ApplicationPreview, ...]
    notes: tuple[str, ...] = ()


def preview_backfill(dag_id: str, first: datetime, last: datetime, file: Path | None = None) -> BackfillPreview:
    """Return what a backfill of a Dag from ``first`` to ``last`` would do.

    ``file`` is the Dag file; without one the Dag bundles are looked through.
    """
    tasks, slices = planned_slices(dag_id, first, last, file)
    runs, notes = _airflow_runs(dag_id, slices)
    if not tasks:
        notes.append(f"The Dag {dag_id} has no task that plans an application: only its slices are known.")
    return BackfillPreview(dag_id, tuple(slices), tuple(_of_task(task, slices, runs) for task in tasks), tuple(notes))


def _of_task(
    task: PlanningOperator, slices: Sequence[Slice], runs: Mapping[datetime, str | None]
) -> ApplicationPreview:
    of_function = getattr(task, "module", None)
    if of_function is not None:  # a decorated function's, which the task would write on its worker
        of_function.bring()
    name = task.application_spec().name
    by_root: dict[str, History] = {}
    slice_previews = _behind_the_last(tuple(_of_slice(task, slice_, runs, by_root) for slice_ in slices))
    root, former = next(reversed(by_root.items()), ("", History()))
    return ApplicationPreview(task.task_id, name, root, len(former.runs), former.unread, slice_previews)


def _of_slice(
    task: PlanningOperator, slice_: Slice, runs: Mapping[datetime, str | None], by_root: dict[str, History]
) -> SlicePreview:
    """Return the preview of a slice; the former runs of the application are read once for each root."""
    airflow_run = runs.get(slice_.date) if slice_.date is not None else None
    try:
        rendered, context = for_slice(task, slice_)
    except Exception as error:  # whatever a template of the user's raises
        return SlicePreview(
            slice_,
            slice_.run_id,
            airflow_run=airflow_run,
            problem=f"What the task {task.task_id} is given is known only when it runs: {error}",
        )
    run_id = run_id_of(context, rendered.task_id if rendered.scope is None else rendered.scope)
    before: dict[str, Awaited] = {}
    try:
        hook = rendered.hook
        spec = rendered.application_spec()
        request = rendered.run_request(spec, context)
        root = without_passwords(hook.root)
        if root not in by_root:
            by_root[root] = history(hook.files, spec.name)
        before = awaited(task, slice_, hook, spec, request)
        run = hook.preview(request)
        tables = _tables(hook, run)
    except (SamzaError, OSError) as error:
        lacking = awaited_by(error, before)
        if lacking is not None:
            interval = request.interval.iso() if request.interval is not None else None
            return SlicePreview(slice_, run_id, interval, airflow_run=airflow_run, awaited=(lacking,))
        return SlicePreview(slice_, run_id, airflow_run=airflow_run, problem=_problem(task, error))
    listed = tuple(_listed(hook, run, amount) for amount in amounts(run))
    lacks = tuple(
        before[amount.stream_id]
        for amount in listed
        if amount.stream_id in before and not any((amount.files, amount.bytes, amount.offsets))
    )
    without_data = {each.stream_id for each in lacks}
    inputs = tuple(
        replace(amount, files=None, bytes=None, offsets=None) if amount.stream_id in without_data else amount
        for amount in listed
    )
    return SlicePreview(
        slice_,
        run_id,
        run.interval,
        inputs,
        tables,
        tuple(by_root[root].of_data(run.interval, request.partition_key)),
        airflow_run,
        None if lacks else by_root[root].estimate(inputs),
        awaited=lacks,
        stages=run.reuse_texts,
        outputs={
            stream_id: texts[stream_id]
            for stage in run.plan.stages
            for texts in [run.notes.get(stage.stage_id, {})]
            for stream_id in stage.outputs
            if stream_id in texts and not run.is_own(stream_id)
        },
        later=later_writers(hook.files, run),
    )


def _behind_the_last(previews: tuple[SlicePreview, ...]) -> tuple[SlicePreview, ...]:
    """Return the runs of a backfill without those that later ones of the backfill write again among the later runs."""
    rewritten = {run_id for each in previews for run_id in (each.run_id, *(run.run_id for run in each.there))}
    return tuple(replace(each, later=each.later.without(rewritten)) for each in previews)


def _problem(task: PlanningOperator, error: Exception) -> str:
    """Return the sentence of a plan that fails, with the tasks before it that may bring what is missing."""
    others = others_before(task) if isinstance(error, TopicError | NoSuchVersion) else []
    more = f"\n  Before the plan run {', '.join(others)}: what they write is not known here." if others else ""
    return without_passwords(str(error)) + more


def _listed(hook: SamzaHook, run: RunPlan, amount: InputAmount) -> InputAmount:
    """Return an amount, of files that Spark reads by a listing: a plan has none of them."""
    binding = hook.bindings().get(amount.system)
    if amount.kind != SPARK or binding is None:  # none: a function of the application makes the DataFrame
        return amount
    listed = listed_amount(amount.system, binding, run.streams[amount.stream_id].spec)
    return amount if listed is None else replace(amount, files=listed[0], bytes=listed[1])


def _tables(hook: SamzaHook, run: RunPlan) -> tuple[TableRead, ...]:
    previews = []
    for table_id, pinned in sorted(run.tables.items()):
        stream = run.side_input(str(pinned["stream_id"]))
        rows = pushed_at = None
        try:
            version = by_number(hook.files, stream.system, stream.spec.name, int(pinned["number"]))
            rows, pushed_at = version.rows, version.pushed_at
        except SamzaError:  # it expires just now
            pass
        read = TableRead(table_id, int(pinned["number"]), str(pinned["push_id"]), str(pinned["asked"]), rows, pushed_at)
        previews.append(read)
    return tuple(previews)


def _airflow_runs(dag_id: str, slices: Sequence[Slice]) -> tuple[dict[datetime, str | None], list[str]]:
    """Return the states of a Dag's runs by logical or partition date, and a note where no database can be asked."""
    dates = [slice_.date for slice_ in slices if slice_.date is not None]
    if not dates:
        return {}, []
    from sqlalchemy.exc import SQLAlchemyError

    try:
        from airflow.utils.session import create_session

        from airflow_samza.provider.page.airflow_records import AirflowRecords

        with create_session() as session:
            return AirflowRecords(session).runs_of_dates(dag_id, min(dates), max(dates)), []
    except (ImportError, RuntimeError, SQLAlchemyError) as error:  # RuntimeError: not from here, Airflow says
        why = without_passwords(str(error).splitlines()[0] if str(error) else type(error).__name__)
        return {}, [f"Airflow's database was not asked for runs that exist: {why}"]

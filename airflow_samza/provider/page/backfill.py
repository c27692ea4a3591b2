"""The preview of a backfill from records: the page loads no Dag file, so it plans nothing anew."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import Any

from airflow_samza.errors import PushError, SamzaError
from airflow_samza.provider.backfill.slices import Slice, scheduled_slices
from airflow_samza.provider.page.airflow_records import AirflowRecords
from airflow_samza.provider.page.answer import Answer
from airflow_samza.provider.page.opened_run import OpenedRun
from airflow_samza.runs.progress.later_writers import LaterWriters, later_writers
from airflow_samza.runs.progress.run_costs import Estimate, RunCost, history
from airflow_samza.runs.progress.run_list import origin_of
from airflow_samza.runs.tables.pins import AS_OF_INTERVAL, CURRENT
from airflow_samza.runs.tables.versions import as_of, newest

SLICES_SHOWN = 366

RUNS_READ = 400
"""Runs on record that are looked at, the newest."""

HIDDEN_RUN = "a run of a Dag that you may not read"


class ReadAmount(Answer):
    """The amount that a run has read of an input; None where its plan does not know."""

    stream_id: str
    files: int | None
    bytes: int | None
    offsets: int | None


class RunThere(Answer):
    """A run of the application over the same interval that is on record."""

    run: str
    """Its id, or that it is of a Dag that the user may not read."""
    state: str
    seconds: float | None
    rows: int


class TableRead(Answer):
    """The version of a pushed table that the run would read if it were planned now; None where there is none."""

    table_id: str
    asked: str
    version: int | None


class BackfillSlice(Answer):
    """A run that a backfill would make."""

    name: str
    start: str | None
    end: str | None
    airflow_run: str | None
    """The state of the Dag's run of the same date, if there is one."""
    there: list[RunThere]
    inputs: list[ReadAmount]
    """The amounts that the newest run over this interval has read; empty where none is on record."""
    tables: list[TableRead]
    estimate_seconds: float | None
    estimate_task_seconds: float | None
    estimate_rows: int | None


class Backfill(Answer):
    """A backfill that was not made; the estimate is by ``former`` runs that are on record."""

    dag_id: str
    slices: list[BackfillSlice]
    former: int
    by: str | None
    """The measure with which the cost was taken to grow: ``bytes``, ``offsets``, or ``run`` (nothing)."""
    seconds: float | None
    """All slices, one after the other."""
    task_seconds: float | None
    rows: int | None
    command: str
    """The command that plans each slice, and so knows sizes of what nobody has read yet."""
    note: str | None


def backfill_answer(
    opened: OpenedRun, records: AirflowRecords, first: datetime, last: datetime, may_read: Callable[[str], bool]
) -> Backfill:
    """Return the runs that a backfill of the Dag would make, and what is on record of their intervals."""
    dag_id = opened.planned.dag_id
    slices, note = scheduled(records.schedule(dag_id), first, last)
    former = history(opened.files, opened.run.application, RUNS_READ)
    dates = [slice_.date for slice_ in slices if slice_.date is not None]
    states = records.runs_of_dates(dag_id, min(dates), max(dates)) if dates else {}
    answers, estimates = [], []
    for slice_ in slices:
        there = former.of_data(slice_.interval if slice_.partition_key is None else None, slice_.partition_key)
        # By what a run of this interval has read, else as of any run.
        estimate = former.estimate(there[0].inputs if there else ())
        answers.append(_slice(opened, slice_, there, states, estimate, may_read))
        estimates += [estimate] if estimate is not None else []
    return Backfill(
        dag_id=dag_id,
        slices=answers,
        former=len(former.runs),
        by=estimates[0].by if estimates else None,
        seconds=sum(estimate.seconds for estimate in estimates) if estimates else None,
        task_seconds=sum(estimate.task_seconds for estimate in estimates) if estimates else None,
        rows=sum(estimate.rows for estimate in estimates) if estimates else None,
        command=f"airflow-samza backfill-preview {dag_id} --from {first:%Y-%m-%d} --to {last:%Y-%m-%d}",
        note=" ".join([*([note] if note else []), *_later(opened, slices, may_read).sentences]) or None,
    )


def _later(opened: OpenedRun, slices: Sequence[Slice], may_read: Callable[[str], bool]) -> LaterWriters:
    """Return the later runs whose rows the last run of a backfill replaces by older ones."""
    last = slices[-1] if slices else None
    if last is None or last.interval is None:
        return LaterWriters()
    run = replace(opened.run, run_id=last.run_id, state=None, interval=last.interval)
    later = later_writers(opened.files, run, list(run.streams))
    return later.renamed(lambda run_id: shown_run(opened, run.application, run_id, may_read))


def shown_run(opened: OpenedRun, application: str, run_id: str, may_read: Callable[[str], bool]) -> str:
    """Return a run's id, or that the user may not read the Dag that has planned it; the command line's is nobody's."""
    if (application, run_id) == (opened.run.application, opened.run.run_id):
        return run_id
    return run_id if may_read(origin_of(opened.files, application, run_id).dag_id) else HIDDEN_RUN


def scheduled(form: Any, first: datetime, last: datetime) -> tuple[list[Slice], str | None]:
    """Return the slices, and a sentence where there are none or not all."""
    if form is None:
        return [], "Airflow has no version of this Dag any more."
    if last < first:
        return [], "The first day is after the last one."
    try:
        slices = list(islice(scheduled_slices(form, first, last), SLICES_SHOWN + 1))
    except SamzaError as error:
        return [], error.sentence
    if not slices:
        return [], "The schedule has no interval there that is over."
    if len(slices) > SLICES_SHOWN:
        return slices[:SLICES_SHOWN], f"There are more runs; these are the first {SLICES_SHOWN}."
    return slices, None


def _slice(
    opened: OpenedRun,
    slice_: Slice,
    there: Sequence[RunCost],
    states: Mapping[datetime, str | None],
    estimate: Estimate | None,
    may_read: Callable[[str], bool],
) -> BackfillSlice:
    return BackfillSlice(
        name=slice_.text,
        start=slice_.start.isoformat() if slice_.start is not None else None,
        end=slice_.end.isoformat() if slice_.end is not None else None,
        airflow_run=states.get(slice_.date) if slice_.date is not None else None,
        there=[
            RunThere(
                run=run.run_id if may_read(run.dag_id) else HIDDEN_RUN,
                state=run.state,
                seconds=run.seconds,
                rows=sum(run.rows.values()),
            )
            for run in there
        ],
        inputs=[ReadAmount.model_validate(amount) for amount in there[0].inputs] if there else [],
        tables=[_table(opened, table_id, pinned, slice_) for table_id, pinned in sorted(opened.run.tables.items())],
        estimate_seconds=estimate.seconds if estimate is not None else None,
        estimate_task_seconds=estimate.task_seconds if estimate is not None else None,
        estimate_rows=estimate.rows if estimate is not None else None,
    )


def _table(opened: OpenedRun, table_id: str, pinned: Mapping[str, Any], slice_: Slice) -> TableRead:
    bound, version_name = opened.run.side_input(str(pinned["stream_id"])), str(pinned["asked"])
    place = (opened.files, bound.system, bound.spec.name)
    number: int | None = int(pinned["number"])
    if version_name == CURRENT:
        version = newest(*place)
        number = version.number if version is not None else None
    elif version_name == AS_OF_INTERVAL and slice_.start is not None:
        try:
            number = as_of(*place, slice_.start).number
        except PushError:  # none was current then, or it has expired
            number = None
    return TableRead(table_id=table_id, asked=version_name, version=number)

"""The Dag of a backfill and its slices, as Airflow would make them; nothing is run and nothing is written."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

from airflow_samza.application.rejections import did_you_mean, listed
from airflow_samza.errors import ConfigError, UnknownName
from airflow_samza.provider.airflow_versions import dags_in, scheduler_form
from airflow_samza.provider.operators.planning import PlanningOperator
from airflow_samza.provider.operators.samza_operator import SamzaOperator
from airflow_samza.runs.records.data_interval import DataInterval

Task = TypeVar("Task", bound=SamzaOperator)

_SHOWN = 20
"""Dags that are named where one is not found."""


@dataclass(frozen=True)
class Slice:
    """One run that a backfill would make: its logical date and data interval, or the key and date of its partition."""

    run_after: datetime
    logical_date: datetime | None = None
    start: datetime | None = None
    end: datetime | None = None
    partition_key: str | None = None
    partition_date: datetime | None = None

    @property
    def run_id(self) -> str:
        """Return the id of a Dag run as Airflow makes it for a backfill; that of a partition gets a random end."""
        key = "" if self.partition_key is None else f"__{self.partition_key}"
        return f"backfill__{self.run_after.isoformat()}{key}"

    @property
    def date(self) -> datetime | None:
        """Return the date by which Airflow finds a Dag's run of the slice."""
        return self.logical_date or self.partition_date

    @property
    def interval(self) -> tuple[str, str] | None:
        """Return the data interval as records of runs have it; None of a slice without one."""
        return DataInterval(self.start, self.end).iso() if self.start is not None and self.end is not None else None

    @property
    def text(self) -> str:
        """Return the slice for people: its interval, else its date or partition."""
        if self.start is not None and self.end is not None:
            moment = self.start == self.end  # which is what Airflow makes of "@daily", unless it is told otherwise
            return _short(self.start) if moment else f"{_short(self.start)} – {_short(self.end)}"
        return self.partition_key or _short(self.logical_date or self.run_after)


def find_dag(dag_id: str, file: Path | None = None) -> Any:
    """Return a Dag of a file, or of Airflow's bundles; an import error of its file is a ``ConfigError``."""
    if file is not None and not file.is_file():
        raise ConfigError(
            f"There is no Dag file {file}.", hint="Name the file that has the Dag.", key="--dag-file", value=str(file)
        )
    dags, problems = dags_in(file)
    if dag_id in dags:
        return dags[dag_id]
    if problems:
        where, why = next(iter(problems.items()))
        raise ConfigError(
            f"The Dag {dag_id!r} was not found, and {where} cannot be read: {why.strip().splitlines()[-1]}",
            hint="See the whole error with: airflow dags list-import-errors.",
            key="DAG",
            value=dag_id,
        )
    dag_ids = sorted(dags)
    raise UnknownName(
        f"There is no Dag {dag_id!r} in {file or 'the Dag bundles of this Airflow'}.",
        hint=f"{did_you_mean(dag_id, dag_ids)}Known are {listed(dag_ids, _SHOWN)}.",
        name=dag_id,
    )


def planned_slices(
    dag_id: str, first: datetime, last: datetime, file: Path | None = None
) -> tuple[list[PlanningOperator], list[Slice]]:
    """Return the tasks of a Dag that plan an application each, and its runs from ``first`` to ``last``, oldest first.

    They are those that ``airflow backfill create`` makes.
    """
    dag = find_dag(dag_id, file)
    if last < first:
        raise ConfigError(
            f"--from {first.isoformat()} is after --to {last.isoformat()}.",
            hint="Name the earlier moment with --from.",
            key="--from",
            value=first.isoformat(),
        )
    tasks = [
        task
        for task in dag.tasks
        if isinstance(task, PlanningOperator) and getattr(task, "plan", None) is None and task.application
    ]
    return tasks, list(scheduled_slices(scheduler_form(dag), first, last))


def scheduled_slices(form: Any, first: datetime, last: datetime) -> Iterator[Slice]:
    """Yield the runs of a Dag whose interval is over, as Airflow makes them; ``form`` is the scheduler's form of it."""
    if not form.timetable.can_be_scheduled:
        raise ConfigError(
            f"The Dag {form.dag_id!r} has no schedule, so a backfill of it makes no runs.",
            hint='Give it a schedule, for example schedule=CronDataIntervalTimetable("@daily", timezone="UTC").',
            key="DAG",
            value=form.dag_id,
        )
    now = datetime.now(timezone.utc)
    for info in form.iter_dagrun_infos_between(first, last):
        interval = info.data_interval
        if interval is not None and interval.end >= now:
            return  # so do all that follow, and there are many where the last date is far away
        yield Slice(
            info.run_after,
            getattr(info, "logical_date", None),
            interval.start if interval is not None else None,
            interval.end if interval is not None else None,
            getattr(info, "partition_key", None),
            getattr(info, "partition_date", None),
        )


def for_slice(task: Task, slice_: Slice) -> tuple[Task, dict[str, Any]]:
    """Return a task with its templates rendered for a slice, and the context that they were rendered with."""
    ti = SimpleNamespace(dag_id=task.dag_id, task_id=task.task_id, run_id=slice_.run_id, map_index=-1, try_number=1)
    context = _context(task, slice_, ti)
    rendered = copy(task)
    rendered.render_template_fields(context)  # type: ignore[arg-type]  # it is as much of one as a preview has
    return rendered, context


def _context(task: Any, slice_: Slice, ti: Any) -> dict[str, Any]:
    from airflow.sdk.execution_time.context import ConnectionAccessor, MacrosAccessor, VariableAccessor

    interval = {"data_interval_start": slice_.start, "data_interval_end": slice_.end}
    dag_run = SimpleNamespace(
        dag_id=task.dag_id,
        run_id=slice_.run_id,
        run_type="backfill",
        conf={},
        logical_date=slice_.logical_date,
        run_after=slice_.run_after,
        partition_key=slice_.partition_key,
        partition_date=slice_.partition_date,
        **interval,
    )
    context: dict[str, Any] = {
        "ti": ti,
        "task_instance": ti,
        "task": task,
        "dag": task.dag,
        "dag_run": dag_run,
        "run_id": slice_.run_id,
        "params": task.dag.params.dump() if task.dag else {},
        "var": {"value": VariableAccessor(deserialize_json=False), "json": VariableAccessor(deserialize_json=True)},
        "conn": ConnectionAccessor(),
        "macros": MacrosAccessor(),
    }
    if slice_.partition_key is not None:
        context |= {"partition_key": slice_.partition_key, "partition_date": slice_.partition_date}
    if slice_.logical_date is not None and slice_.start is not None:
        context |= {"logical_date": slice_.logical_date, **interval, **_texts(slice_.logical_date)}
    return context


def _texts(moment: datetime) -> dict[str, str]:
    day, stamp = f"{moment:%Y-%m-%d}", moment.isoformat()
    return {
        "ds": day,
        "ds_nodash": day.replace("-", ""),
        "ts": stamp,
        "ts_nodash": f"{moment:%Y%m%dT%H%M%S}",
        "ts_nodash_with_tz": stamp.replace("-", "").replace(":", ""),
    }


def _short(moment: datetime) -> str:
    """Return a moment in UTC without parts that are zero.

    >>> _short(datetime(2013, 1, 2, tzinfo=timezone.utc)), _short(datetime(2013, 1, 2, 3, 5, tzinfo=timezone.utc))
    ('2013-01-02', '2013-01-02T03:05')
    """
    moment = moment.astimezone(timezone.utc)
    if (moment.hour, moment.minute, moment.second, moment.microsecond) == (0, 0, 0, 0):
        return f"{moment:%Y-%m-%d}"
    return f"{moment:%Y-%m-%dT%H:%M}" if not moment.second else f"{moment:%Y-%m-%dT%H:%M:%S}"

"""Airflow's own records that the page needs: notes of plans, states of tasks, events of assets."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

from airflow.api_fastapi.common.db.common import SessionDep
from airflow.models.asset import AssetEvent as EventModel, AssetModel, DagScheduleAssetReference
from airflow.models.dagrun import DagRun
from airflow.models.serialized_dag import SerializedDagModel
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from fastapi import Depends
from sqlalchemy import func, select
from sqlalchemy.orm import Session, selectinload

from airflow_samza.grouping import grouped
from airflow_samza.provider.page.answer import Answer
from airflow_samza.provider.xcoms import PLAN_FAILURE, PLAN_NOTE, PlanFailure, PlanNote

_PLANNING = ("SamzaPlanOperator", "SamzaAutoPlanOperator")
_RUNNING = ("SamzaStreamOperator", "_SamzaStreamDecoratedOperator")
"""Operators that plan a run and do nothing else, and those that run stages, by the names that Airflow keeps."""

_NOT_BEGUN = (None, "scheduled", "queued", "upstream_failed", "skipped", "removed")

NEWEST = 2000
"""Notes that a list of all runs looks at."""

_KEYS: Mapping[type[PlanNote | PlanFailure], str] = {PlanNote: PLAN_NOTE, PlanFailure: PLAN_FAILURE}

Note = TypeVar("Note", PlanNote, PlanFailure)


@dataclass(frozen=True)
class OfTask(Generic[Note]):
    """A note that a task has left on the plan that it has made, or on why it could not make one."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    note: Note


Planned = OfTask[PlanNote]
FailedPlan = OfTask[PlanFailure]


@dataclass(frozen=True)
class TaskMark:
    """A task instance: its state, its tries, when it began, and its pool; another one after each try and each clear."""

    state: str | None
    try_number: int
    max_tries: int
    began_at: float | None
    pool: str = ""

    @property
    def never_begun(self) -> bool:
        """Return whether the task has never run: nothing of its stage is under the root."""
        return self.try_number == 0 and self.state in _NOT_BEGUN


@dataclass(frozen=True)
class TaskAfter:
    """A task of a Dag run that comes after another one; its state is None where it has none yet."""

    task_id: str
    state: str | None
    runs_stages: bool
    has_begun: bool


class DownstreamRun(Answer):
    """A run of another Dag that an asset event of this one has started; only of Dags that the user may read."""

    dag_id: str
    run_id: str
    state: str | None


@dataclass(frozen=True)
class Event:
    """An event of an asset, and the runs that it has started."""

    task_id: str | None
    uri: str
    name: str
    at: float
    extra: dict[str, Any]
    runs: tuple[DownstreamRun, ...]


class Sender(NamedTuple):
    """A Dag that has sent events of an asset, and when it last did."""

    dag_id: str
    at: float


@dataclass(frozen=True)
class Assets:
    """The Dags that have ``sent`` events of assets, and those that assets start (``starts``), by URI."""

    sent: Mapping[str, list[Sender]]
    starts: Mapping[str, list[str]]


@dataclass(frozen=True)
class AirflowRecords:
    """Questions to Airflow's database; nothing is written."""

    session: Session

    def has_run(self, dag_id: str, run_id: str) -> bool:
        """Return whether there is such a Dag run."""
        query = select(DagRun.id).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id)
        return self.session.scalar(query) is not None

    def notes(self, kind: type[Note], dag_id: str, run_id: str) -> list[OfTask[Note]]:
        """Return the notes of a kind that tasks of a Dag run have left, by task and map index."""
        query = self._query(kind).where(XComModel.dag_id == dag_id, XComModel.run_id == run_id)
        return self._left(kind, query.order_by(XComModel.task_id, XComModel.map_index))

    def planned_by(self, dag_id: str, task_id: str, most: int) -> list[Planned]:
        """Return the plans of a task in all runs of its Dag, newest first."""
        query = self._query(PlanNote).where(XComModel.dag_id == dag_id, XComModel.task_id == task_id)
        return self._left(PlanNote, query.order_by(XComModel.timestamp.desc()).limit(most))

    def newest(self, kind: type[Note], states: Iterable[str] = ()) -> list[OfTask[Note]]:
        """Return the newest notes of a kind in all Dags, of Dag runs in these states, or in any."""
        query = self._query(kind)
        if run_states := list(states):
            query = query.where(DagRun.state.in_(run_states))
        return self._left(kind, query.order_by(XComModel.timestamp.desc()).limit(NEWEST))

    def task_marks(self, dag_id: str, run_id: str, task_ids: Iterable[str], map_index: int) -> dict[str, TaskMark]:
        """Return the tasks of a Dag run as they are now, by task id: what is unchanged need not be looked at again."""
        columns = (TaskInstance.task_id, TaskInstance.state, TaskInstance.try_number, TaskInstance.max_tries)
        query = select(*columns, TaskInstance.start_date, TaskInstance.pool).where(
            TaskInstance.dag_id == dag_id,
            TaskInstance.run_id == run_id,
            TaskInstance.map_index == map_index,
            TaskInstance.task_id.in_(list(task_ids)),
        )
        return {
            task_id: TaskMark(_text(state), tries, max_tries, None if begun is None else begun.timestamp(), pool)
            for task_id, state, tries, max_tries, begun, pool in self.session.execute(query)
        }

    def plan_tasks(self, dag_id: str, run_id: str) -> dict[str, str | None]:
        """Return the states of the tasks of a Dag run that plan applications, by task id.

        Where none does nothing else, those that run stages plan, too.
        """
        query = select(TaskInstance.task_id, TaskInstance.state).where(
            TaskInstance.dag_id == dag_id, TaskInstance.run_id == run_id
        )
        for kinds in (_PLANNING, _RUNNING):
            rows = self.session.execute(query.where(TaskInstance.operator.in_(kinds))).all()
            if rows:
                return {task_id: None if state is None else str(state) for task_id, state in rows}
        return {}

    def tasks_after(self, dag_id: str, run_id: str, task_id: str, map_index: int) -> list[TaskAfter] | None:
        """Return the tasks after a task, in the order of their ids; None where Airflow has no version of the Dag."""
        dag = self.schedule(dag_id)
        if dag is None or not dag.has_task(task_id):
            return None
        after = sorted(dag.get_task(task_id).get_flat_relative_ids(upstream=False))
        query = select(TaskInstance.task_id, TaskInstance.state, TaskInstance.try_number, TaskInstance.operator).where(
            TaskInstance.dag_id == dag_id,
            TaskInstance.run_id == run_id,
            TaskInstance.map_index.in_((-1, map_index)),
            TaskInstance.task_id.in_(after),
        )
        found = {
            name: TaskAfter(name, _text(state), operator in _RUNNING, bool(tries))
            for name, state, tries, operator in self.session.execute(query)
        }
        return [found.get(name) or TaskAfter(name, None, runs_stages=False, has_begun=False) for name in after]

    def schedule(self, dag_id: str) -> Any:
        """Return a Dag as the scheduler has it; None where Airflow has none of its versions."""
        serialized = SerializedDagModel.get(dag_id, session=self.session)
        return None if serialized is None else serialized.dag

    def runs_of_dates(self, dag_id: str, first: datetime, last: datetime) -> dict[datetime, str | None]:
        """Return the states of a Dag's runs by their logical dates, those of partitions by their partition dates."""
        states: dict[datetime, str | None] = {}
        for name in ("logical_date", "partition_date"):
            date: Any = getattr(DagRun, name, None)  # there are no partitions before Airflow 3.2
            if date is not None:
                query = (
                    select(date, DagRun.state)
                    .where(DagRun.dag_id == dag_id, date >= first, date <= last)
                    .order_by(DagRun.id)
                )
                states |= {moment: _text(state) for moment, state in self.session.execute(query)}
        return states

    def events(self, dag_id: str, run_id: str, task_ids: Sequence[str]) -> list[Event]:
        """Return the events of assets that tasks of a Dag run have sent, oldest first."""
        query = (
            select(EventModel)
            .where(
                EventModel.source_dag_id == dag_id,
                EventModel.source_run_id == run_id,
                EventModel.source_task_id.in_(task_ids),
            )
            .options(selectinload(EventModel.created_dagruns), selectinload(EventModel.asset))
            .order_by(EventModel.timestamp)
        )
        return [
            Event(
                event.source_task_id,
                event.uri,
                event.name,
                event.timestamp.timestamp(),
                dict(event.extra or {}),
                tuple(
                    DownstreamRun(dag_id=run.dag_id, run_id=run.run_id, state=_text(run.state))
                    for run in event.created_dagruns
                ),
            )
            for event in self.session.scalars(query)
            if event.asset is not None
        ]

    def assets(self, uris: Collection[str]) -> Assets:
        """Return the Dags that write and wait for assets, by two queries whatever their number."""
        sent, starts = [], []
        for part in _parts(sorted(uris)):
            last = (
                select(AssetModel.uri, EventModel.source_dag_id, func.max(EventModel.timestamp))
                .join(AssetModel, EventModel.asset_id == AssetModel.id)
                .where(AssetModel.uri.in_(part), EventModel.source_dag_id.is_not(None))
                .group_by(AssetModel.uri, EventModel.source_dag_id)
            )
            sent += [(uri, Sender(str(dag_id), at.timestamp())) for uri, dag_id, at in self.session.execute(last)]
            waiting = select(AssetModel.uri, DagScheduleAssetReference.dag_id).join(
                AssetModel, DagScheduleAssetReference.asset_id == AssetModel.id
            )
            starts += [(uri, dag_id) for uri, dag_id in self.session.execute(waiting.where(AssetModel.uri.in_(part)))]
        return Assets(grouped(sent), grouped(starts))

    def run_states(self, dag_id: str, run_ids: Sequence[str]) -> dict[str, str | None]:
        """Return the states of runs of a Dag, by run id."""
        states = {}
        for part in _parts(run_ids):
            query = select(DagRun.run_id, DagRun.state).where(DagRun.dag_id == dag_id, DagRun.run_id.in_(part))
            states.update({run_id: _text(state) for run_id, state in self.session.execute(query)})
        return states

    def _query(self, kind: type[Note]) -> Any:
        columns = (XComModel.dag_id, XComModel.run_id, XComModel.task_id, XComModel.map_index, XComModel.value)
        query = select(*columns).join(DagRun, XComModel.dag_run_id == DagRun.id)
        return query.where(XComModel.key == _KEYS[kind])

    def _left(self, kind: type[Note], query: Any) -> list[OfTask[Note]]:
        """Return what tasks have left in XComs, with the tasks; what is no note of the kind is left out."""
        left = [(task, kind.from_dict(_plain(value))) for *task, value in self.session.execute(query)]
        return [OfTask(dag_id, run_id, task_id, index, note) for (dag_id, run_id, task_id, index), note in left if note]


def _parts(names: Sequence[str], size: int = 500) -> Iterator[Sequence[str]]:
    """Yield parts of names that a query may hold."""
    return (names[first : first + size] for first in range(0, len(names), size))


def _text(state: Any) -> str | None:
    return None if state is None else str(getattr(state, "value", state))


def _plain(value: Any) -> Any:
    """Return an XCom's value as the task has pushed it.

    A backend of XComs may keep it elsewhere, and has it fetched by its own class.
    """
    with suppress(ValueError, TypeError):  # it is no JSON, or no text
        value = json.loads(value)
    return _from_backend(value) if isinstance(value, str) else value


def _from_backend(value: str) -> Any:
    from types import SimpleNamespace

    from airflow.sdk.execution_time.xcom import XCom

    try:
        return XCom.deserialize_value(SimpleNamespace(value=value, key=PLAN_NOTE))
    except Exception:
        return None  # what cannot be fetched is no note; a backend raises what it likes


def airflow_records(session: SessionDep) -> AirflowRecords:
    """Return Airflow's records for one request."""
    return AirflowRecords(session)


Records = Annotated[AirflowRecords, Depends(airflow_records)]

"""A run that a route is about: found by the Dag run and the task that have planned it, and by nothing else.

What is read of its root is asked for several at a time, where the root is elsewhere.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from contextvars import copy_context
from functools import cached_property, partial
from typing import Annotated, TypeVar

from fastapi import Depends

from airflow_samza.errors import SamzaError, StorageUnavailable
from airflow_samza.provider.hooks.samza import SamzaHook
from airflow_samza.provider.page.airflow_records import AirflowRecords, Planned, Records, TaskMark
from airflow_samza.provider.page.answer import NotFound
from airflow_samza.provider.page.rights import DagId, MapIndex, PlanTask, RunId
from airflow_samza.provider.xcoms import PlanNote
from airflow_samza.runs.progress.run_list import Origin
from airflow_samza.runs.progress.stage_progress import Heads, bound_answers, heads_that_answer
from airflow_samza.runs.records.folders import RunFolder, read
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.newest_stages import newest_handle
from airflow_samza.runs.stages.stage_state import StageHandle
from airflow_samza.systems.bindings import bind_system
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.filesystems.root_access import access_within
from airflow_samza.systems.system import System, SystemBinding

AWAY_SECONDS = 10.0
"""For how long a root that did not answer is not asked again."""


SERVER_SECONDS = 5.0
"""For how long the page waits for the servers of a system, such as brokers, at each question."""

NOTHING_PLANNED = "No run of a Dag that you may read has planned an application yet."


class Away:
    """Roots and systems that did not answer a moment ago: who asks then hears so at once, and does not wait, too."""

    def __init__(self) -> None:
        self._since: dict[str, tuple[float, Exception]] = {}

    @contextmanager
    def noticed(self, place: str, *errors: type[Exception]) -> Iterator[None]:
        """Ask a root or a system in the body, unless it has just failed by one of these errors."""
        at, before = self._since.get(place, (0.0, None))
        if before is not None and time.monotonic() - at < AWAY_SECONDS:
            raise before
        try:
            yield
        except errors as error:
            self._since[place] = (time.monotonic(), error.with_traceback(None))
            raise
        self._since.pop(place, None)


AWAY = Away()


class OpenedRun:
    """A planned run, and the root of its records.

    The note that names both is an XCom, which users may be allowed to write. So the records have to say, too, that
    this Dag run has planned them.
    """

    def __init__(self, planned: Planned) -> None:
        self.planned = planned
        self.hook = SamzaHook(planned.note.conn_id, systems=planned.note.systems)

    @property
    def note(self) -> PlanNote:
        """The note of the plan."""
        return self.planned.note

    @property
    def folder(self) -> RunFolder:
        """The records of the run."""
        return RunFolder(self.note.application, self.note.run_id)

    @cached_property
    def files(self) -> Filesystem:
        """The root; NotFound where the run's records are gone, or are those of another Dag run."""
        with AWAY.noticed(self.note.conn_id, SamzaError, OSError):
            files = self.hook.files
            origin = read(files, f"{self.folder.path}/origin.json", Origin)
        if origin is None:
            raise records_missing(self.note)
        if (origin.dag_id, origin.run_id) != (self.planned.dag_id, self.planned.run_id):
            raise NotFound(
                f"The run {self.note.run_id!r} was not planned by this Dag run.",
                hint="Clear the plan task: its XCom names a run of another one.",
                rule="not-planned",
            )
        return files

    def task_marks(self, records: AirflowRecords) -> dict[str, TaskMark]:
        """Return the tasks of the run's stages as Airflow has them now, by task id."""
        here = self.planned
        return records.task_marks(here.dag_id, here.run_id, set(self.note.tasks.values()), here.map_index)

    def is_there(self) -> bool:
        """Return whether the records that were opened are still there."""
        return self.files.exists(self.folder.plan(self.note.generation))

    @cached_property
    def run(self) -> RunPlan:
        """The plan, of the generation that the task has made."""
        plan = read(self.files, self.folder.plan(self.note.generation), RunPlan)
        if plan is None:
            raise records_missing(self.note)
        return plan

    @cached_property
    def bindings(self) -> dict[str, SystemBinding]:
        """The bindings of the run's systems, as far as their connections are there."""
        from airflow_samza.prepare.bound_systems import run_bindings

        return run_bindings(self.run.systems, self.hook.bindings())

    @cached_property
    def bound(self) -> tuple[dict[str, System], dict[str, str]]:
        """The systems that can be bound here, and sentences on those that cannot, by name."""
        try:
            bindings: Mapping[str, SystemBinding] = self.bindings
        except SamzaError as error:
            return {}, {"": f"Heads of inputs are not asked for: {error.sentence}"}
        systems, unbound = {}, {}
        with self.opening():
            for name, binding in bindings.items():
                try:
                    systems[name] = bind_system(name, binding, self.hook.root)
                except SamzaError as error:
                    unbound[name] = f"Heads of inputs in {name!r} are not asked for: {error.sentence}"
        bound_answers(systems.values(), SERVER_SECONDS)
        return systems, unbound

    def heads(self, unknown: dict[str, str]) -> Heads:
        """Return the function that asks for heads; ``unknown`` gets sentences on systems that give none, by name."""
        systems, unbound = self.bound
        unknown.update(unbound)
        return heads_that_answer(systems, unknown, self.asking)

    def opening(self) -> AbstractContextManager[None]:
        """Open the root, in the body, with the connection's own access."""
        return access_within(self.hook.root, self.hook.access)

    def asking(self, system: str) -> AbstractContextManager[None]:
        """Ask a system in the body, unless its servers have just been away."""
        whose = self.note.systems.get(system, self.note.application)
        return AWAY.noticed(f"{self.note.conn_id} {whose} {system}", StorageUnavailable)

    def task_of(self, stage_id: str) -> str:
        """Return the task that runs a stage; empty where the plan's task does not know."""
        return self.note.tasks.get(stage_id, "")


def records_missing(note: PlanNote) -> NotFound:
    """Return the error for a run whose records are deleted."""
    return NotFound(
        f"The records of the run {note.run_id!r} are not there any more.",
        hint="Runs are kept as [samza] keep_runs and keep_runs_days say.",
        rule="gone",
    )


def open_planned(records: Records, dag_id: DagId, run_id: RunId, plan_task: PlanTask, map_index: MapIndex) -> OpenedRun:
    """Return the run that an address names."""
    plans = {(planned.task_id, planned.map_index): planned for planned in records.notes(PlanNote, dag_id, run_id)}
    if (plan_task, map_index) not in plans:
        raise not_planned(records, dag_id, run_id, plan_task)
    return OpenedRun(plans[plan_task, map_index])


def not_planned(records: Records, dag_id: str, run_id: str, plan_task: str | None = None) -> NotFound:
    """Return the error that says why a Dag run has no plan."""
    if not records.has_run(dag_id, run_id):
        return NotFound(
            f"There is no run {run_id!r} of the Dag {dag_id!r}.",
            hint="Its id may be mistyped, or the run deleted: the page of the Dag in Airflow lists its runs.",
        )
    return NotFound(why_not_planned(records, dag_id, run_id, plan_task), rule="not-planned")


def why_not_planned(records: Records, dag_id: str, run_id: str, plan_task: str | None = None) -> str:
    """Return a sentence on a Dag run without a plan."""
    states = records.plan_tasks(dag_id, run_id)
    if plan_task is not None:
        states = {name: state for name, state in states.items() if name == plan_task}
    if not states:
        whose = "This Dag run" if plan_task is None else f"The task {plan_task!r}"
        return f"{whose} has planned no application of airflow-samza."
    listed = ", ".join(f"{name} ({state or 'not scheduled yet'})" for name, state in sorted(states.items()))
    if any(state == "success" for state in states.values()):
        return f"No note of a plan is there, though its task has ended: {listed}. A release before this page ran it."
    return f"Nothing is planned yet: {listed}."


Opened = Annotated[OpenedRun, Depends(open_planned)]


def of_stages(opened: OpenedRun, work: Callable[[StageHandle], Result]) -> list[Result]:
    """Return a result of each stage, from records of its newest generation; the plan is read before."""
    run, files = opened.run, opened.files
    return of_each(files, lambda stage: work(newest_handle(files, run, stage.stage_id)), run.plan.stages)


Item = TypeVar("Item")
Result = TypeVar("Result")

AT_A_TIME = 16
"""Requests at a time, of all looks of the process."""

_THREADS = ThreadPoolExecutor(AT_A_TIME, thread_name_prefix="samza-page")


def of_each(files: Filesystem, work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Return the results of ``work``, in the order of the items; it may not call this function again.

    On a disk one after the other: there threads cost more than they save.
    """
    if files.local_path("") is not None:
        return [work(item) for item in items]
    calls = [partial(copy_context().run, work, item) for item in items]
    return list(_THREADS.map(lambda call: call(), calls))

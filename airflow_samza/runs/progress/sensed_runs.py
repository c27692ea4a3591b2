"""The progress of runs for which sensors wait: the ends of streams, and the versions of tables that are read.

A stream has its end in all partitions when every task of every stage that writes it has ended, and all of it is
published; a stage that was cleared begins anew. Of a pushed table an open run reads what its newest epoch's intent
names; before the first one, what the run's plan fixed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_samza.application.rejections import did_you_mean, listed
from airflow_samza.errors import UnknownName
from airflow_samza.runs.progress.run_list import newest_runs, plan_of, runs_on
from airflow_samza.runs.records.epoch_records import newest_commit, newest_intent
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.newest_stages import finished_stage, newest_handle
from airflow_samza.runs.stages.stage_state import written_by
from airflow_samza.runs.tables.versions import number_read
from airflow_samza.systems.filesystems.filesystem import Filesystem


@dataclass(frozen=True)
class StreamQuery:
    """A stream whose end is waited for, of a run of an application: by its id or Airflow's, else of the newest run.

    ``dag_id`` leaves out runs that other Dags have planned.
    """

    application: str
    stream_id: str
    run_id: str | None = None
    dag_id: str | None = None


@dataclass(frozen=True)
class StreamEnd:
    """End of a stream of a run: ``ended`` of ``tasks`` have sent end-of-stream, by writing stage.

    ``run_id`` None: there is no such run yet. ``generations`` are those of the stages that have ended.
    """

    stream_id: str
    run_id: str | None = None
    ended: Mapping[str, int] = field(default_factory=dict)
    tasks: Mapping[str, int] = field(default_factory=dict)
    generations: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_reached(self) -> bool:
        """Return whether the end is there in all partitions, and everything before it is published."""
        return bool(self.tasks) and self.generations.keys() == self.tasks.keys()

    def to_dict(self) -> dict[str, Any]:
        """The part of it that tasks leave to others."""
        return {"run_id": self.run_id, "stream": self.stream_id, "generations": dict(self.generations)}

    def __str__(self) -> str:
        if self.run_id is None:
            return f"The stream {self.stream_id} is waited for; no such run is on record yet."
        said = ", ".join(f"{self.ended[stage]} of {tasks} tasks of {stage}" for stage, tasks in self.tasks.items())
        published = "" if self.is_reached or self.ended != self.tasks else ", and it is not published yet"
        return f"The stream {self.stream_id} of the run {self.run_id!r}: {said} have sent end-of-stream{published}."


def stream_end(files: Filesystem, query: StreamQuery) -> StreamEnd:
    """Return how far a stream is from its end; one that no stage of the run writes is an UnknownName."""
    runs = newest_runs(files, query.application)
    entry = next((run for run in runs if run.is_asked_for(query.run_id, query.dag_id)), None)
    if entry is None:
        return StreamEnd(query.stream_id)
    run = plan_of(files, entry)
    ended, tasks, generations = {}, {}, {}
    for stage in _writers(run, query.stream_id):
        tasks[stage], ended[stage] = run.plan.stage(stage).task_count, _ended(files, run, stage)
        handle = finished_stage(files, run, stage)
        if handle is not None:
            ended[stage], generations[stage] = tasks[stage], str(handle.generation)
    return StreamEnd(query.stream_id, entry.run_id, ended, tasks, generations)


def _writers(run: RunPlan, stream_id: str) -> list[str]:
    writers = [stage.stage_id for stage in run.plan.stages if stream_id in stage.outputs]
    if not writers:
        written = sorted({name for stage in run.plan.stages for name in stage.outputs})
        raise UnknownName(
            f"No stage of the run {run.run_id!r} of {run.application!r} writes a stream {stream_id!r}.",
            hint=f"{did_you_mean(stream_id, written)}Its stages write {listed(written)}.",
            name=stream_id,
        )
    return writers


def _ended(files: Filesystem, run: RunPlan, stage_id: str) -> int:
    """Return how many tasks of the newest generation of a stage have ended, by its newest commit."""
    folder = run.folder.stage(stage_id, written_by(files, newest_handle(files, run, stage_id)))
    intent = newest_intent(files, folder)
    committed = newest_commit(files, folder, intent) if intent is not None else None
    return len(committed.ended) if committed is not None else 0


@dataclass(frozen=True)
class Freshness:
    """A version of a table that runs are expected to read.

    It is read when every run of an application that is on, and at least ``least``, reads ``number`` of a table or
    newer.
    """

    application: str
    stream_id: str
    system: str
    topic: str
    number: int
    least: int = 1


@dataclass(frozen=True)
class Readers:
    """The versions that runs read, by run id, and the one that is wanted; 0: none that is known."""

    target: int
    least: int
    readers: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_reached(self) -> bool:
        """Return whether all of them have it."""
        return len(self.readers) >= self.least and all(number >= self.target for number in self.readers.values())

    def __str__(self) -> str:
        said = ", ".join(f"{run} reads {number or 'none'}" for run, number in sorted(self.readers.items()))
        return f"version {self.target} is waited for; {said or 'no run is on'}"


def freshness(files: Filesystem, expected: Freshness) -> Readers:
    """Return the versions that the readers of a table have now."""
    numbers: dict[str, int] = {}
    for run in runs_on(files, expected.application):
        stages = [stage.stage_id for stage in run.plan.stages if expected.stream_id in stage.side_inputs]
        if stages:
            numbers[run.run_id] = min(
                number_read(files, expected.system, expected.topic, _slice(files, run, stage_id, expected.stream_id))
                for stage_id in stages
            )
    return Readers(expected.number, expected.least, numbers)


def _slice(files: Filesystem, run: RunPlan, stage_id: str, stream_id: str) -> Mapping[str, Any]:
    intent = newest_intent(files, newest_handle(files, run, stage_id).folder)
    if intent is not None and stream_id in intent.side_inputs:
        return intent.side_inputs[stream_id].slice
    return run.side_input(stream_id).slice or {}

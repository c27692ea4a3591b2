"""Triggers of deferred tasks.

They read the run's records under the root: no Spark, and of connections only what opens the root, and what binds the
systems that are asked where inputs end.

Looks go through threads, so that a slow shared filesystem holds up nobody else's trigger. That a triggerer stops, or
hands a trigger to another one, cancels nothing: only a user's act does (``on_kill``).
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from airflow.triggers.base import TriggerEvent

from airflow_samza.errors import SamzaError, SectionOpen, UnknownName
from airflow_samza.planner.titles import stage_names
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.prepare.shared_sections import find_writer
from airflow_samza.provider.airflow_versions import start_stats
from airflow_samza.provider.connections.root_access import find_access
from airflow_samza.provider.deferral import LOST, NOT_SEEN, OVER, SECTIONS, TIMED_OUT, UNKNOWN
from airflow_samza.provider.links import SPARK, SparkPages, show_link
from airflow_samza.provider.producer_tasks import (
    ABORTED,
    ASK_SECONDS,
    STARTED,
    ProducerTasks,
    ended_by_a_user,
    producer_state,
)
from airflow_samza.provider.stats import emitter
from airflow_samza.provider.triggers.deferred_progress import (
    DeferredProgress,
    NoConnection,
    WatchedSystems,
    connection_of,
)
from airflow_samza.provider.triggers.settling import SettlingTrigger, settled
from airflow_samza.runs.progress.progress_log import DEFAULT_INTERVAL
from airflow_samza.runs.progress.sensed_runs import StreamQuery, stream_end
from airflow_samza.runs.progress.stage_progress import open_systems, stage_progress
from airflow_samza.runs.records.data_interval import DataInterval
from airflow_samza.runs.records.folders import RunFolder, must_read
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.newest_stages import is_over
from airflow_samza.runs.stages.stage_state import StageHandle, StageStatus, ask_to_cancel, stage_status
from airflow_samza.runs.state_history.lease import holder_works
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.filesystems.pace import FREE, Pace
from airflow_samza.systems.filesystems.root_access import NO_ACCESS, RootAccess, access_within

Result = TypeVar("Result")

PATIENCE_SECONDS = 300.0
"""Seconds for which a root that cannot be read is tried again, in case a shared filesystem comes back."""


@dataclass(kw_only=True, eq=False, repr=False)
class RunTrigger(SettlingTrigger):
    """Reads a run's records every ``poll_interval`` seconds until :meth:`look` returns an event.

    :param root: The folder of run records, as the worker that deferred has it.
    :param deadline: When the task's time is over, in seconds since 1970; None: never.
    :param conn_id: The Samza connection, where the root is opened with what connections hold; None: with nothing.
    :param deferred_by: Identity of the process that defers. Default: this process.
    """

    root: str
    deadline: float | None = None
    conn_id: str | None = None

    def __post_init__(self) -> None:
        """Begin with nothing opened."""
        super().__post_init__()
        self._access: RootAccess | None = None
        self._pace: Pace = FREE
        self._spark_pages = SparkPages()

    def look(self, files: Filesystem) -> dict[str, Any] | None:
        """Return the event for the task when it is time, else None. Runs in a thread."""
        raise NotImplementedError

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event: the result, the time-out, or that the root cannot be read."""
        try:
            event = await settled(self._awaited(), self.deferred_by)
        except asyncio.CancelledError:
            if await ended_by_a_user(self.task_instance):
                await self.on_kill()
            raise
        yield event

    async def on_kill(self) -> None:
        """Do nothing: a trigger that only waits has started nothing."""

    def show_spark(self, files: Filesystem, handle: StageHandle, status: StageStatus) -> None:
        """Have Airflow's page link to Spark's, as soon as a stage of the deferred task has one."""
        address = self._spark_pages.look(files, handle, status)
        if address and getattr(self, "task_instance", None) is not None:
            show_link(self.task_instance, SPARK, address)

    async def _awaited(self) -> TriggerEvent:
        blind_since: float | None = None
        began = time.monotonic()
        while True:
            try:
                event = await self.with_files(self.look)
                blind_since = None
            except (SamzaError, OSError, NoConnection) as error:
                event, self._access = None, None  # its connection may have been changed meanwhile
                blind_since = blind_since or time.monotonic()
                if time.monotonic() - blind_since >= PATIENCE_SECONDS:
                    return TriggerEvent(
                        {
                            NOT_SEEN: f"the triggerer on {socket.gethostname()} cannot read the run under "
                            f"{self.root}: {error}"
                        }
                    )
            if event is not None:
                return TriggerEvent(event)
            if self.deadline is not None and time.time() >= self.deadline:
                return TriggerEvent({TIMED_OUT: True})
            await asyncio.sleep(self._pace.pause(self.poll_interval, time.monotonic() - began))

    async def with_files(self, work: Callable[[Filesystem], Result]) -> Result:
        """Do work on the root's files in a thread, in which the root is opened as the connection says."""

        def done() -> Result:
            if self._access is None:
                self._access = self._find_access()
            with access_within(self.root, self._access):
                files = open_filesystem(self.root)
                self._pace = files.pace
                return work(files)

        from asgiref.sync import sync_to_async  # comes with Airflow

        # In a thread of this kind Airflow 3.1 can be asked: its answers belong to the triggerer's event loop.
        return await sync_to_async(done, thread_sensitive=False)()

    def _find_access(self) -> RootAccess:
        if self.conn_id is None:
            return NO_ACCESS
        return find_access(self.conn_id, connection_of(self.conn_id), self.root, connection_of)


@dataclass(kw_only=True, eq=False, repr=False)
class SamzaStageTrigger(RunTrigger):
    """Waits until one of several submitted stages has ended, and writes their progress to the task's log.

    :param stages: The handles of the stages, as plain values.
    :param progress_interval: Seconds between two reports of a stage's progress.
    :param said: The states that the task's log has already, by stage.
    :param producers: The tasks of the stages that write what these read, as plain values: if one fails for good, the
        wait ends.
    :param systems: Connection ids by the names of the application's systems, which are asked where inputs end.
    """

    stages: Sequence[Mapping[str, Any]]
    progress_interval: float = DEFAULT_INTERVAL
    said: Mapping[str, str] = field(default_factory=dict)
    producers: Mapping[str, Any] | None = None
    systems: Mapping[str, str] = field(default_factory=dict)
    _run: RunPlan | None = field(default=None, init=False)
    _files: Filesystem | None = field(default=None, init=False)
    _progress: DeferredProgress | None = field(default=None, init=False)
    _watched: WatchedSystems | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        """Begin to look."""
        super().__post_init__()
        self._looked_at = time.monotonic()
        self._handles = [StageHandle.from_dict(stage) for stage in self.stages]

    async def with_files(self, work: Callable[[Filesystem], Result]) -> Result:
        """Do work on the root's files; before, find the systems' connections where they are needed."""
        if self._watched is not None and self._watched.needs_connections:
            await self._watched.connect()
        return await super().with_files(work)

    def look(self, files: Filesystem) -> dict[str, Any] | None:
        """Return the states of the stages, once one has ended."""
        if self._progress is None:
            self._files, first = files, self._handles[0]
            self._run = must_read(files, first.run.plan(first.generation.plan), RunPlan)
            start_stats()
            system_names = {name for handle in self._handles for name in open_systems(self._run, handle.stage_id)}
            systems = {name: conn_id for name, conn_id in self.systems.items() if name in system_names}
            self._watched = WatchedSystems(self._run.systems, systems, files.root, self._tell)
            self._progress = DeferredProgress(
                self._tell,
                self._measure,
                self.progress_interval,
                emitter(first.application),
                said=self.said,
                names=stage_names(self._run.plan),
            )
        ended = {}
        for handle in self._handles:
            status = stage_status(files, handle)
            self._progress.look(handle, status)
            self.show_spark(files, handle, status)
            if status.is_final:
                ended[handle.stage_id] = status.state
        if ended:
            self._progress.end()
        return {"states": ended, "said": self._progress.said} if ended else self._lost_producers(files)

    def _tell(self, line: str) -> None:
        self.log.info("%s", line)

    def _lost_producers(self, files: Filesystem) -> dict[str, Any] | None:
        if self.producers is None or time.monotonic() - self._looked_at < ASK_SECONDS:
            return None
        self._looked_at = time.monotonic()
        assert self._run is not None
        lost = ProducerTasks(**self.producers).lost(files, self._run)
        return {LOST: lost} if lost else None

    async def on_kill(self) -> None:
        """Cancel these stages: a user marked the task, or cleared it."""
        await self.with_files(self._cancel)

    def _cancel(self, files: Filesystem) -> None:
        for handle in self._handles:
            ask_to_cancel(files, handle)

    def _measure(self, handle: StageHandle, status: StageStatus) -> Any:
        assert self._run is not None
        assert self._files is not None
        assert self._watched is not None
        return stage_progress(self._files, self._watched, self._run, handle.stage_id, handle.generation, status=status)


@dataclass(kw_only=True, eq=False, repr=False)
class PlannedRunTrigger(RunTrigger):
    """Reads the records of one run by its plan.

    :param application: The application's name.
    :param run_id: The run.
    :param generation: The generation of the run's plan.
    """

    application: str
    run_id: str
    generation: int
    _run: RunPlan | None = field(default=None, init=False)

    def run_in(self, files: Filesystem) -> RunPlan:
        """Return the plan of the run, which is read once."""
        if self._run is None:
            self._run = must_read(files, RunFolder(self.application, self.run_id).plan(self.generation), RunPlan)
        return self._run


@dataclass(kw_only=True, eq=False, repr=False)
class SamzaProducersTrigger(PlannedRunTrigger):
    """Waits until the producers of a stage have started, in a run whose stages run concurrently.

    :param application: The application's name.
    :param run_id: The run.
    :param generation: The generation of the run's plan.
    :param upstream: The stages that have to start.
    :param beyond: Generations that do not count any more, by stage.
    """

    upstream: Sequence[str]
    beyond: Mapping[str, str] = field(default_factory=dict)

    def look(self, files: Filesystem) -> dict[str, Any] | None:
        """Return an event when all have started, or one was given up."""
        run = self.run_in(files)
        states = {
            stage_id: producer_state(files, run, stage_id, self.beyond.get(stage_id)) for stage_id in self.upstream
        }
        return {"producers": states} if ABORTED in states.values() or set(states.values()) <= {STARTED} else None


@dataclass(kw_only=True, eq=False, repr=False)
class SamzaStateTrigger(RunTrigger):
    """Waits until the run that holds an application's state has ended, or cannot go on by itself.

    :param application: The application's name.
    :param app_id: Which copy of it.
    :param grace_seconds: The seconds without a sign of life after which a run counts as over.
    """

    application: str
    app_id: str
    grace_seconds: float

    def look(self, files: Filesystem) -> dict[str, Any] | None:
        """Return an event when the state is free, or has to be freed by hand."""
        works = holder_works(files, self.application, self.app_id, self.grace_seconds)
        return None if works else {"state": "free"}


@dataclass(kw_only=True, eq=False, repr=False)
class SamzaSectionsTrigger(RunTrigger):
    """Waits until the runs are planned that write the sections of shared streams which a run is to follow.

    :param sections: Topic, and the run as the request names it, by stream.
    :param interval: The data interval of the run that waits, as two texts.
    :param partition_key: Its partition key.
    :param until: When the wait is over, in seconds since 1970.
    """

    sections: Mapping[str, Sequence[str]]
    interval: Sequence[str] | None
    partition_key: str | None
    until: float

    def look(self, files: Filesystem) -> dict[str, Any] | None:
        """Return an event when all runs are planned, or the time is over."""
        if all(self._is_planned(files, name) for name in self.sections):
            return {SECTIONS: "planned"}
        return {SECTIONS: OVER} if time.time() >= self.until else None

    def _is_planned(self, files: Filesystem, stream_id: str) -> bool:
        topic, named = self.sections[stream_id]
        interval = DataInterval.from_iso(*self.interval) if self.interval is not None else None
        request = RunRequest("", "", interval=interval, partition_key=self.partition_key)
        try:
            return find_writer(files, stream_id, topic, named, request) is not None
        except SectionOpen:
            return False


@dataclass(kw_only=True, eq=False, repr=False)
class SamzaRunTrigger(PlannedRunTrigger):
    """Waits until a run has ended: all its stages have succeeded, or it is closed.

    :param application: The application's name.
    :param run_id: The run.
    :param generation: The generation of its plan.
    """

    def look(self, files: Filesystem) -> dict[str, Any] | None:
        """Return an event when the run has ended."""
        return {"run": "over"} if is_over(files, self.run_in(files)) else None


@dataclass(kw_only=True, eq=False, repr=False)
class SamzaEndOfStreamTrigger(RunTrigger):
    """Waits until a stream of a run has end-of-stream in all partitions, or turns out to be none of its streams.

    :param stream: What is waited for, as ``StreamQuery`` has it.
    """

    stream: Mapping[str, Any]

    def look(self, files: Filesystem) -> dict[str, Any] | None:
        """Return an event when it is time for the task to look; log what is new."""
        try:
            ended = stream_end(files, StreamQuery(**self.stream))
        except UnknownName as error:  # the run has begun meanwhile, and writes no such stream
            return {UNKNOWN: error.sentence}
        self.say(str(ended))
        return ended.to_dict() if ended.is_reached else None

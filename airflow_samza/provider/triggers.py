"""Triggers: what a deferred task waits for. They read the run's records under the root, and nothing else: no Spark, no connection.

Looks go through threads, so that a slow shared filesystem holds up nobody else's trigger. That a triggerer stops, or hands a trigger to
another one, cancels nothing: only a user's act does (``on_kill``).
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_samza.errors import SamzaError
from airflow_samza.provider.deferral import NOT_SEEN, TIMED_OUT
from airflow_samza.provider.progress_log import DEFAULT_INTERVAL, ProgressLog
from airflow_samza.provider.stats import emitter, start_stats
from airflow_samza.runs.folders import must_read
from airflow_samza.runs.names import Generation
from airflow_samza.runs.run_ends import is_aborted
from airflow_samza.runs.run_plan import RunPlan
from airflow_samza.runs.stage_progress import newest_generation, stage_progress
from airflow_samza.runs.stage_state import StageHandle, StageStatus, ask_to_cancel, newest_attempt, stage_status
from airflow_samza.spark.bound_systems import EMBEDDED, bind_systems
from airflow_samza.systems.filesystem import Filesystem, open_filesystem
from airflow_samza.systems.system import SystemBinding

PATIENCE_SECONDS = 300.0
"""For how long a root that cannot be read is asked again: a shared filesystem comes back, or somebody has to look."""


class RunTrigger(BaseTrigger):  # type: ignore[misc]
    """Looks at a run's records every ``poll_interval`` seconds until :meth:`look` finds what the task waits for.

    :param root: The folder of run records, as the worker that deferred has it.
    :param deadline: When the task's time is over, in seconds since 1970; None: never.
    """

    def __init__(self, *, root: str, poll_interval: float, deadline: float | None = None) -> None:
        super().__init__()
        self.root = root
        self.poll_interval = poll_interval
        self.deadline = deadline

    def given(self) -> dict[str, Any]:
        """The further arguments of the class."""
        raise NotImplementedError

    def look(self, files: Filesystem) -> dict[str, Any] | None:
        """What the task is told when it is time, else None. Runs in a thread."""
        raise NotImplementedError

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Class path and arguments, for another process."""
        place = f"{type(self).__module__}.{type(self).__qualname__}"
        return place, {"root": self.root, "poll_interval": self.poll_interval, "deadline": self.deadline, **self.given()}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """One event: what was found, that the time is over, or that nothing can be seen from here."""
        blind_since: float | None = None
        files: Filesystem | None = None
        while True:
            try:
                if files is None:
                    files = await asyncio.to_thread(open_filesystem, self.root)
                found = await asyncio.to_thread(self.look, files)
                blind_since = None
            except (SamzaError, OSError) as error:
                found = None
                blind_since = blind_since or time.monotonic()
                if time.monotonic() - blind_since >= PATIENCE_SECONDS:
                    yield TriggerEvent(
                        {NOT_SEEN: f"the triggerer on {socket.gethostname()} cannot read the run under {self.root}: {error}"}
                    )
                    return
            if found is not None:
                yield TriggerEvent(found)
                return
            if self.deadline is not None and time.time() >= self.deadline:
                yield TriggerEvent({TIMED_OUT: True})
                return
            await asyncio.sleep(self.poll_interval)


class SamzaStageTrigger(RunTrigger):
    """Waits until one of several submitted stages has ended, one way or another, and writes their progress to the task's log.

    :param stages: The handles of the stages, as plain values.
    :param progress_interval: Seconds between two reports of a stage's progress.
    """

    def __init__(self, *, stages: Sequence[Mapping[str, Any]], progress_interval: float = DEFAULT_INTERVAL, **given: Any) -> None:
        super().__init__(**given)
        self.stages = [dict(stage) for stage in stages]
        self.progress_interval = progress_interval
        self._handles = [StageHandle.from_dict(stage) for stage in self.stages]
        self._run: RunPlan | None = None
        self._files: Filesystem | None = None
        self._progress: ProgressLog | None = None

    def given(self) -> dict[str, Any]:
        """The further arguments of the class."""
        return {"stages": self.stages, "progress_interval": self.progress_interval}

    def look(self, files: Filesystem) -> dict[str, Any] | None:
        """The states of the stages, once one has ended."""
        if self._progress is None:
            self._files, first = files, self._handles[0]
            self._run = RunPlan.from_dict(must_read(files, first.run.plan(first.generation.plan)))
            start_stats()
            tell = self.log.info
            self._progress = ProgressLog(lambda line: tell("%s", line), self._measure, self.progress_interval, emitter(first.application))
        found = {}
        for handle in self._handles:
            status = stage_status(files, handle)
            self._progress.look(handle, status)
            if status.is_final:
                found[handle.stage_id] = status.state
        return {"states": found} if found else None

    async def on_kill(self) -> None:
        """Cancels these stages: a user marked the task, or cleared it."""
        await asyncio.to_thread(self._cancel)

    def _cancel(self) -> None:
        files = open_filesystem(self.root)
        for handle in self._handles:
            ask_to_cancel(files, handle)

    def _measure(self, handle: StageHandle, status: StageStatus) -> Any:
        assert self._run is not None
        assert self._files is not None
        # The heads of topics under the root need no connection; those of other systems are left out here.
        embedded = {EMBEDDED: SystemBinding("log")} if EMBEDDED in self._run.systems else {}
        systems = bind_systems(embedded, self._files.root)
        return stage_progress(self._files, systems, self._run, handle.stage_id, handle.generation, status=status)


class SamzaProducersTrigger(RunTrigger):
    """Waits until the stages that write a stage's topics have started, in a run whose stages run at the same time.

    :param application: The application's name.
    :param run_id: The run.
    :param generation: The generation of the run's plan.
    :param upstream: The stages that have to start.
    """

    def __init__(self, *, application: str, run_id: str, generation: int, upstream: Sequence[str], **given: Any) -> None:
        super().__init__(**given)
        self.application = application
        self.run_id = run_id
        self.generation = generation
        self.upstream = list(upstream)
        self._run: RunPlan | None = None

    def given(self) -> dict[str, Any]:
        """The further arguments of the class."""
        return {"application": self.application, "run_id": self.run_id, "generation": self.generation, "upstream": self.upstream}

    def look(self, files: Filesystem) -> dict[str, Any] | None:
        """That all have started, or that one was given up."""
        if self._run is None:
            folder = StageHandle(self.application, self.run_id, "", Generation(self.generation, 1)).run
            self._run = RunPlan.from_dict(must_read(files, folder.plan(self.generation)))
        states = {stage_id: producer_state(files, self._run, stage_id) for stage_id in self.upstream}
        if "aborted" in states.values() or set(states.values()) == {"started"}:
            return {"producers": states}
        return None


def producer_state(files: Filesystem, run: RunPlan, stage_id: str) -> str:
    """Whether a stage has ``started``, was ``aborted`` (it failed for good), or neither (``waited for``)."""
    newest = newest_generation(files, run, stage_id)
    folder = StageHandle(run.application, run.run_id, stage_id, newest).folder
    if is_aborted(files, folder):
        return "aborted"
    return "started" if newest_attempt(files, folder) else "waited for"

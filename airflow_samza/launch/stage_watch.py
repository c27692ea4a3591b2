"""Stages of a run, or a push, on the way to their ends: submit in order, ask for the state, finish, cancel if killed.

A task of Airflow that waits itself calls :meth:`StageWatch.run` once; one that defers calls it each time that it is
back. Stage and push operators wait by it, and the runtime runs whole applications.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from airflow_samza.errors import SamzaError, StageCancelled
from airflow_samza.runs.progress.progress_log import ProgressLog
from airflow_samza.runs.stages.stage_state import QUEUED, StageHandle, StageStatus
from airflow_samza.systems.filesystems.pace import Looks

if TYPE_CHECKING:
    from airflow_samza.launch.recorded_runs import RecordedRuns

LONGEST_NAP = 0.5
"""Seconds.

A kill comes as a signal, after which a sleep goes on to its end; the task has 5 s until it is killed outright.
"""

SHORTEST_NAP = 0.0025
"""Seconds.

A warm stage on little data takes 0.2 s: what has just begun is asked more often, so that waiting adds a twentieth to it
at most.
"""

GUARD_SECONDS = 10.0

PATIENCE_SECONDS = 60.0
"""Seconds for which a root whose storage does not answer is read again."""


Result = TypeVar("Result")
"""The result of a stage, or the version of a push."""


class StageWatch(Generic[Result]):
    """One try at one or several stages of a run, or at a push, which is a stage by itself.

    Whatever fails cancels what is still on, and is raised.

    :param runtime: The runtime, which looks after what was submitted.
    :param log: Where warnings go, as of :mod:`logging`.
    :param run_id: The run, or the push, as errors name it.
    :param submit: Submits a stage by its id, or re-attaches to it.
    :param finish: Returns the result of a stage that has ended, or raises its error.
    :param poll_interval: Seconds between two questions for the state of a stage that has run for a while.
    :param on_result: Told each result as soon as it is there.
    :param progress: Told of each look at a stage.
    :param on_look: Told of each look, too, for what is not written into the log.
    :param guard: Raises what ends the wait from outside; asked every :data:`GUARD_SECONDS`.
    """

    def __init__(
        self,
        runtime: RecordedRuns,
        log: Any,
        run_id: str,
        submit: Callable[[str], StageHandle],
        finish: Callable[[StageHandle], Result],
        poll_interval: float,
        on_result: Callable[[Result], None] = lambda result: None,
        progress: ProgressLog | None = None,
        guard: Callable[[], None] | None = None,
        on_look: Callable[[StageHandle, StageStatus], None] = lambda handle, status: None,
    ) -> None:
        self.runtime = runtime
        self.log = log
        self._run_id = run_id
        self._submit = submit
        self._finish = finish
        self.poll_interval = poll_interval
        self.on_result = on_result
        self.progress = progress or ProgressLog(lambda line: log.info("%s", line))
        self.guard = guard
        self.on_look = on_look
        self.results: dict[str, Result] = {}
        self.active: dict[str, StageHandle] = {}
        self.ended: dict[str, StageHandle] = {}
        self._waiting: dict[str, set[str]] = {}
        self._killed = False
        self._seen: dict[str, StageStatus] = {}
        self._blind_since: float | None = None
        self._submitted_at = self._guarded = time.monotonic()
        self.looks = Looks(runtime.pace)

    def run(
        self,
        upstream: Mapping[str, Collection[str]],
        submitted: Mapping[str, StageHandle] | None = None,
        reported: Collection[str] = (),
        *,
        waits: bool = True,
    ) -> bool:
        """Run stages by their ids, each after those that it waits for; return whether any is left.

        No stage is left where the task ``waits`` for their ends; else those that can start are submitted, and those
        that have ended are finished. ``submitted`` are those that an earlier part of this try has submitted,
        ``reported`` saw to their end.
        """
        handles = dict(submitted or {})
        self.ended = {stage_id: handles.pop(stage_id) for stage_id in reported}
        self.results = {stage_id: self._finish(handle) for stage_id, handle in self.ended.items()}
        self.active = handles
        self._waiting = {
            stage_id: set(others)
            for stage_id, others in upstream.items()
            if stage_id not in {**self.ended, **self.active}
        }

        try:
            is_left = self._advance()
            while waits and is_left:
                self._nap()
                is_left = self._advance()
        except BaseException:
            self.cancel_active()
            raise
        return is_left

    def kill(self) -> None:
        """Cancel running stages. For signal handlers: it only leaves requests, and does not wait."""
        self._killed = True
        self.cancel_active()

    def cancel_active(self) -> None:
        """Request the end of every stage that this task has submitted and that has not ended."""
        for stage_id, handle in list(self.active.items()):
            try:
                self.runtime.cancel(handle)
            except Exception:
                self.log.exception("Stage %s could not be cancelled.", self.progress.name_of(stage_id))

    def _advance(self) -> bool:
        ended = True
        while ended:
            self._stop_if_killed()
            if self.guard is not None and time.monotonic() - self._guarded >= GUARD_SECONDS:
                self._guarded = time.monotonic()
                self.guard()
            for stage_id in [name for name, upstream in self._waiting.items() if upstream <= self.results.keys()]:
                del self._waiting[stage_id]
                self.active[stage_id] = self._submit(stage_id)
                self._submitted_at = time.monotonic()
                self.looks.news()
            final = {
                stage_id: status for stage_id, handle in self.active.items() if (status := self._look(handle)).is_final
            }
            for stage_id, status in final.items():
                self.results[stage_id] = self._ended(stage_id, status)
            ended = bool(final)
        return bool(self.active)

    def _look(self, handle: StageHandle) -> StageStatus:
        try:
            status = self._seen[handle.stage_id] = self.runtime.status(handle)
        except (SamzaError, OSError) as error:
            if isinstance(error, SamzaError) and "errno" not in error.facts:
                raise
            return self._not_seen(handle, error)
        self._blind_since = None
        self.progress.look(handle, status)
        self.on_look(handle, status)
        return status

    def _not_seen(self, handle: StageHandle, error: Exception) -> StageStatus:
        """Return the last known status, while the root's storage does not answer.

        The stage goes on, and a shared filesystem comes back.
        """
        now = time.monotonic()
        if self._blind_since is None:
            self._blind_since = now
            name = self.progress.name_of(handle.stage_id)
            self.log.warning("Stage %s cannot be looked at, and is looked at again: %s", name, error)
        if now - self._blind_since >= PATIENCE_SECONDS:
            raise error
        return self._seen.get(handle.stage_id) or StageStatus(QUEUED, handle.attempt)

    def _ended(self, stage_id: str, status: StageStatus) -> Result:
        handle = self.ended[stage_id] = self.active.pop(stage_id)
        result = self._finish(handle)
        self.progress.report(handle, status, quietly=True)
        self.on_result(result)
        return result

    def _stop_if_killed(self) -> None:
        if self._killed:
            stages = ", ".join(self.active) or "nothing"
            raise StageCancelled(
                f"The task was killed; {stages} of run {self._run_id!r} was cancelled.",
                hint="Clear the task to run it again.",
                stage=stages,
                run=self._run_id,
            )

    def _nap(self) -> None:
        now = time.monotonic()
        until = now + self.looks.pause(min(self.poll_interval, max(SHORTEST_NAP, (now - self._submitted_at) / 20)))
        while (left := until - time.monotonic()) > 0:
            self._stop_if_killed()
            time.sleep(min(left, LONGEST_NAP))

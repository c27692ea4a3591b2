"""Drives stages to their end from one Airflow task: submit in order, ask for the state, finish, cancel when the task is killed.

Knows nothing of Airflow but a logger, and nothing of Spark: everything goes through the hook, so tests put another one in.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from airflow_samza.errors import SamzaError, StageCancelled
from airflow_samza.runs.run_plan import RunPlan
from airflow_samza.runs.stage_result import StageResult
from airflow_samza.runs.stage_state import StageHandle, StageStatus

LONGEST_NAP = 0.5
"""Seconds. A kill comes as a signal, after which a sleep goes on to its end; the task has 5 s until it is killed outright."""

SHORTEST_NAP = 0.1
"""Seconds. A warm stage on little data takes 0.2 s: what has just begun is asked more often, so that waiting adds a fifth to it at most."""


class StageService(Protocol):
    """The part of the hook that stages need."""

    def submit(self, run: RunPlan, stage_id: str, generation: int) -> StageHandle:
        """Has a stage run, or re-attaches to it."""
        ...

    def status(self, handle: StageHandle) -> StageStatus:
        """Where a stage is."""
        ...

    def cancel(self, handle: StageHandle) -> None:
        """Asks for the end of a stage's Spark work."""
        ...

    def finish(self, handle: StageHandle) -> StageResult:
        """The result of a stage that has ended; raises what ended it."""
        ...


class StageWatch:
    """One try of an Airflow task at one or several stages of a run.

    :param poll_interval: Seconds between two questions for the state of a stage that has run for a while.
    :param on_result: Told each result as soon as it is there.
    """

    def __init__(
        self,
        service: StageService,
        log: logging.Logger,
        poll_interval: float,
        on_result: Callable[[StageResult], None] = lambda result: None,
    ) -> None:
        self.service = service
        self.log = log
        self.poll_interval = poll_interval
        self.on_result = on_result
        self._active: dict[str, StageHandle] = {}
        self._told: dict[str, str] = {}
        self._killed = False
        self._submitted = time.monotonic()

    def run(self, run: RunPlan, stage_ids: Sequence[str], generation: int) -> dict[str, StageResult]:
        """Runs stages, each as soon as its upstream stages among them have ended; returns their results by stage id.

        The first failure cancels the others and is raised.
        """
        waiting = {stage.stage_id: set(stage.upstream) & set(stage_ids) for stage in run.plan.stages if stage.stage_id in stage_ids}
        results: dict[str, StageResult] = {}
        try:
            while waiting or self._active:
                self._stop_if_killed(run)
                for stage_id in [name for name, upstream in waiting.items() if upstream <= results.keys()]:
                    del waiting[stage_id]
                    self._active[stage_id] = self.service.submit(run, stage_id, generation)
                    self._submitted = time.monotonic()
                ended = {stage_id: status for stage_id, handle in self._active.items() if (status := self._look(stage_id, handle)).is_final}
                for stage_id, status in ended.items():
                    results[stage_id] = self._ended(stage_id, status)
                if not ended:
                    self._nap(run)
        except BaseException:
            self._cancel_active()
            raise
        return results

    def kill(self) -> None:
        """Cancels what runs. Called in a signal handler: only leaves requests, waits for nothing."""
        self._killed = True
        self._cancel_active()

    def _look(self, stage_id: str, handle: StageHandle) -> StageStatus:
        status = self.service.status(handle)
        text = str(status)
        if self._told.get(stage_id) != text:
            self._told[stage_id] = text
            where = f" on {status.runner}" if status.runner else ""
            self.log.info("Stage %s: %s%s", stage_id, text, where)
        return status

    def _ended(self, stage_id: str, status: StageStatus) -> StageResult:
        handle = self._active.pop(stage_id)
        try:
            result = self.service.finish(handle)
        except SamzaError:
            if status.log:
                self.log.info("Stage %s: the runner's own log is %s, under the root.", stage_id, status.log)
            raise
        self.on_result(result)
        return result

    def _stop_if_killed(self, run: RunPlan) -> None:
        if self._killed:
            stages = ", ".join(self._active) or "nothing"
            raise StageCancelled(
                f"The task was killed; {stages} of run {run.run_id!r} was cancelled.",
                hint="Clear the task to run it again.",
                stage=stages,
                run=run.run_id,
            )

    def _nap(self, run: RunPlan) -> None:
        now = time.monotonic()
        until = now + min(self.poll_interval, max(SHORTEST_NAP, (now - self._submitted) / 5))
        while (left := until - time.monotonic()) > 0:
            self._stop_if_killed(run)
            time.sleep(min(left, LONGEST_NAP))

    def _cancel_active(self) -> None:
        for stage_id, handle in list(self._active.items()):
            try:
                self.service.cancel(handle)
            except Exception:
                self.log.exception("Stage %s could not be cancelled.", stage_id)

"""Runs by their records alone: asked for their state, waited for, cancelled, drained and stopped by any process."""

from __future__ import annotations

import time
from collections.abc import Callable

from airflow_samza.errors import StageError, UnknownName
from airflow_samza.launch.runner_settings import POLL_SECONDS
from airflow_samza.runs.records.folders import RunFolder, read_fixed
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.run_ends import abort, ask_to_drain, ask_to_stop, set_deadline
from airflow_samza.runs.stages.stage_runners import RunnerFolder, all_runners
from airflow_samza.runs.stages.stage_state import StageHandle, StageStatus, ask_to_cancel, stage_status
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.filesystems.pace import Looks, Pace


class RecordedRuns:
    """The runs under a ``root``, by what their records say; no application is loaded, and no system is asked."""

    def __init__(self, files: Filesystem) -> None:
        self._files = files
        self.root = files.root

    @property
    def pace(self) -> Pace:
        """Pace at which looks at the records are fitting."""
        return self._files.pace

    def load_plan(self, application: str, run_id: str, generation: int | None = None) -> RunPlan:
        """Return a stored plan of a run (``application`` is its name); without a generation the newest."""
        folder = RunFolder(application, run_id)
        if generation is None:
            generation = next(reversed(folder.plan_generations(self._files)), None)
        plan = None if generation is None else read_fixed(self._files, folder.plan(generation), RunPlan)
        if plan is None:
            raise UnknownName(
                f"The run {run_id!r} of {application!r} has no "
                f"plan{f' of generation {generation}' if generation else ''}.",
                hint="Its plan task has not run: run it first, or clear it with its downstream tasks.",
                name=run_id,
            )
        return plan

    def status(self, handle: StageHandle) -> StageStatus:
        """Return the status of the stage's newest attempt, from files only."""
        return stage_status(self._files, handle)

    def cancel(self, handle: StageHandle) -> None:
        """Ask the runner to kill this stage's Spark jobs, and no other's.

        A stage that is committed already stays so.
        """
        ask_to_cancel(self._files, handle)

    def abort(self, handle: StageHandle, why: str = "") -> None:
        """Record that a stage failed for good in this generation, so that stages which read from it stop with an error.

        For runs whose stages run at the same time; call it when retries are exhausted, or the stage was cancelled.
        """
        abort(self._files, handle.folder, why)

    def drain(self, run: RunPlan, who: str = "") -> None:
        """End a continuous or pipelined run for good.

        What has arrived by now is processed, windows flush, stages end in order.

        An input that is bounded ends where it has been read to. Returns at once; stages that are submitted later end
        so, too. ``who`` is kept on record.
        """
        ask_to_drain(self._files, RunFolder(run.application, run.run_id), run.generation, who)

    def stop(self, run: RunPlan, who: str = "", *, at: float | None = None) -> None:
        """Stop a continuous or pipelined run where it is, now or ``at`` a time (seconds since 1970).

        Nothing flushes, state stays (rule C9).
        """
        folder = RunFolder(run.application, run.run_id)
        if at is None:
            ask_to_stop(self._files, folder, run.generation, who)
        else:
            set_deadline(self._files, folder, run.generation, at, who)

    def wait(
        self,
        handle: StageHandle,
        timeout: float | None = None,
        on_progress: Callable[[StageStatus], None] | None = None,
    ) -> StageStatus:
        """Return the final status of a stage; ``on_progress`` gets each status that differs from the one before.

        After ``timeout`` seconds a stage that still runs is a StageError.
        """
        began = time.monotonic()
        looks = Looks(self._files.pace)
        shown: str | None = None
        while True:
            status = self.status(handle)
            if str(status) != shown:
                shown = str(status)
                looks.news()
                if on_progress is not None:
                    on_progress(status)
            if status.is_final:
                return status
            waited = time.monotonic() - began
            if timeout is not None and waited > timeout:
                raise StageError(
                    f"The stage {handle.stage_id} is still {status} after {timeout} s.",
                    hint="It still runs; wait longer, or cancel it.",
                    stage=handle.stage_id,
                    run=handle.run_id,
                )
            # A shorter wait is polled more often, so that polling adds a twentieth to it.
            time.sleep(looks.pause(min(POLL_SECONDS, max(waited, POLL_SECONDS) / 20)))

    def live_runners(self, run: RunPlan) -> list[RunnerFolder]:
        """Return the run's runners whose process lives."""
        return [
            runner
            for runner in all_runners(self._files, RunFolder(run.application, run.run_id))
            if runner.is_alive(self._files)
        ]

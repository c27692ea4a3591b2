"""Epochs of few messages: their tasks run in a process beside the driver, sooner than a Spark job would (121)."""

from __future__ import annotations

import logging
import time

from airflow_samza.config import Config
from airflow_samza.engine.stage_context import StageContext, reject_stopped
from airflow_samza.engine.stage_setup import StageSetup
from airflow_samza.engine.worker_errors import shown_as_written
from airflow_samza.errors import SamzaError
from airflow_samza.runs.records.epoch_records import Intent
from airflow_samza.runs.stages.stage_state import cancelled
from airflow_samza.spark.task_process import HELLO_SECONDS, TaskForker, TaskOrder, TaskProcess
from airflow_samza.task.program.stage_program import TASK

log = logging.getLogger("airflow_samza.runner")

MOST_MESSAGES = 50_000
"""Of an epoch that runs beside the driver, unless configured."""

MOST_SECONDS = 0.5
"""For how long tasks of an epoch are begun there; a Spark job runs the others, on all cores."""

LOOK_SECONDS = 0.1
"""The time between two looks whether the attempt was cancelled."""


class SmallEpochs:
    """The epochs of one attempt at a stage that run without a Spark job.

    An epoch with side inputs or tables has them in the memory of Spark's workers, and stays there.
    """

    def __init__(self, forker: TaskForker | None, context: StageContext, setup: StageSetup) -> None:
        self._context = context
        self._task = setup.task
        self._most = self._limit(setup)
        self._process: TaskProcess | None = None
        self._seconds = 0.0
        lasts = context.run.runs_epochs(context.handle.stage_id)
        if forker is not None and self._most and (forker.has_imports or lasts):
            self._process = forker.open()
            self._seconds = HELLO_SECONDS if forker.has_imports else 0.0

    def run(self, intent: Intent, messages: int | None) -> bool:
        """Run the tasks of an epoch that reads at most so many ``messages`` (None: nobody knows).

        Return False when a Spark job has to run those that have left no manifest.
        """
        process = self._process
        if process is None or messages is None or messages > self._most or not process.is_ready(self._seconds):
            return False
        reject_stopped(self._context.files, self._context.attempt)
        started = time.monotonic()
        process.send(TaskOrder.of(self._task, intent.epoch, MOST_SECONDS))
        try:
            while (ran := process.answer(LOOK_SECONDS)) is None:
                if self._context.attempt.cancel_requested():
                    self._end()
                    raise cancelled(self._context.handle)
        except EOFError:
            log.warning("%s: the process that ran its tasks has died; Spark runs them", self._context.attempt.group)
            self._end()
            return False
        if ran.error is not None:
            raise SamzaError.from_dict(shown_as_written(ran.error, self._context.origins))
        took = time.monotonic() - started
        level = logging.INFO if intent.epoch == 0 else logging.DEBUG
        log.log(level, "%s: %d tasks took %.2f s beside the driver", self._context.attempt.group, ran.count, took)
        if took > MOST_SECONDS:
            self._most = min(self._most, messages) // 2
        return ran.count == len(intent.running)

    def close(self) -> None:
        """End the process once it is idle."""
        if self._process is not None:
            self._process.close()

    def _end(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process = None

    @staticmethod
    def _limit(setup: StageSetup) -> int:
        program = setup.program
        if len(program.sections) > 1 or program.sections[0].kind != TASK:
            return 0
        if program.stage.tables or program.stage.side_inputs:
            return 0
        most = Config(program.spec.config).driver_max_messages
        return MOST_MESSAGES if most is None else most

"""Epochs that run in processes beside the driver, sooner than a Spark job would (decision 121)."""

from __future__ import annotations

import logging
import pickle
import sys
import time
from collections import deque
from collections.abc import Sequence
from functools import cached_property

from airflow_samza.config import Config
from airflow_samza.engine.stage_context import StageContext, reject_stopped
from airflow_samza.engine.stage_setup import StageSetup
from airflow_samza.errors import SamzaError
from airflow_samza.runs.records.epoch_records import Intent
from airflow_samza.runs.stages.stage_state import cancelled
from airflow_samza.spark.epoch_task import in_groups
from airflow_samza.spark.task_process import HELLO_SECONDS, TaskForker, TaskOrder, TaskProcess, said
from airflow_samza.spark.worker_daemon import without_zips
from airflow_samza.task.program.stage_program import TASK, StageProgram

log = logging.getLogger("airflow_samza.runner")

IMPORT_SECONDS = 30.0
"""For how long a stage waits for its process, which imports what tasks need, where Spark is not up either."""

ALONE_MESSAGES = 20_000
ALONE_SECONDS = 0.05
"""For how many messages, and for how long, one process runs an epoch alone: to fork a second one takes some ms."""

LOOK_SECONDS = 0.1
"""The time between two looks whether the attempt was cancelled, or a process has died."""


class SmallEpochs:
    """The epochs of one attempt at a stage that run without a Spark job, on as many processes as the master has cores.

    ``spark_is_up`` is False where waiting for the process is worth while.
    """

    def __init__(
        self, forker: TaskForker | None, context: StageContext, setup: StageSetup, *, spark_is_up: bool = True
    ) -> None:
        self._forker = forker
        self._context = context
        self._task = setup.task
        lasts = context.run.runs_epochs(context.handle.stage_id)
        self._most = most_messages_of(setup.program, lasts=lasts)
        self._processes: list[TaskProcess] = []
        self._seconds = 0.0
        if forker is not None and self._most and (forker.has_imports or lasts or not spark_is_up):
            self._seconds = HELLO_SECONDS if forker.has_imports else 0.0 if spark_is_up else IMPORT_SECONDS
            self._open()

    def run(self, intent: Intent, messages: int | None) -> bool:
        """Run the tasks of an epoch that reads at most so many ``messages`` (None: nobody knows).

        Return False when a Spark job has to run those that have left no manifest.
        """
        if not self._processes or messages is None or messages > self._most:
            return False
        if not self._processes[0].is_ready(self._seconds):
            return False
        attempt, tasks = self._context.attempt, len(intent.running)
        reject_stopped(self._context.files, attempt)
        started = time.monotonic()
        try:
            self._run(intent, alone=messages <= ALONE_MESSAGES)
        except EOFError:
            log.warning("%s: the process that ran its tasks has died; Spark runs them", attempt.group)
            self._kill()
            return False
        except BaseException:
            self._kill()
            raise
        self.close(left=1)
        level = logging.INFO if intent.epoch == 0 else logging.DEBUG
        took = time.monotonic() - started
        named = "task" if tasks == 1 else "tasks"
        log.log(level, "%s: %d %s took %.2f s beside the driver", attempt.group, tasks, named, took)
        return True

    def _run(self, intent: Intent, *, alone: bool) -> None:
        """Hand out groups of the tasks to idle processes until all have succeeded."""
        assert self._forker is not None
        groups = deque(in_groups(range(len(intent.running)), self._forker.cores))
        started = looked = time.monotonic()
        busy: set[TaskProcess] = set()
        while True:
            if groups and not (alone and time.monotonic() - started < ALONE_SECONDS):
                self._open(len(busy) + len(groups))
            for process in self._processes:
                if groups and process not in busy and process.is_ready(0.0):
                    process.send(self._order(intent.epoch, groups.popleft()))
                    busy.add(process)
            if not busy:
                if groups:
                    raise EOFError
                return
            for process in said([p for p in self._processes if p in busy or not p.is_ready(0.0)], ALONE_SECONDS):
                if process not in busy:
                    if not process.is_ready(0.0):  # it has died before it was there
                        self._give_back(process)
                elif (error := process.answer()) is not None:
                    busy.remove(process)
                    if error:
                        raise SamzaError.from_dict(error)
            if time.monotonic() - looked > LOOK_SECONDS:
                looked = time.monotonic()
                if self._context.attempt.cancel_requested():
                    raise cancelled(self._context.handle)
                if any(process.has_died for process in busy):
                    raise EOFError

    @cached_property
    def _stage(self) -> tuple[bytes, list[str]]:
        return pickle.dumps(self._task), without_zips(sys.path)

    def _order(self, epoch: int, places: Sequence[int]) -> TaskOrder:
        stage, path = self._stage
        return TaskOrder(stage, epoch, places, path)

    def _open(self, most: int = 1) -> None:
        """Have as many processes as that, if the forker still gives them."""
        assert self._forker is not None
        while len(self._processes) < most and (process := self._forker.open(further=bool(self._processes))):
            self._processes.append(process)

    def _give_back(self, process: TaskProcess) -> None:
        assert self._forker is not None
        self._processes.remove(process)
        self._forker.give_back(process, further=bool(self._processes))

    def _kill(self) -> None:
        """End all processes, in the middle of a task."""
        while self._processes:
            self._processes[-1].kill()
            self._give_back(self._processes[-1])

    def close(self, left: int = 0) -> None:
        """Give back all idle processes but the first so many."""
        while len(self._processes) > left:
            self._give_back(self._processes[-1])


def most_messages_of(program: StageProgram, *, lasts: bool) -> int:
    """Return the most messages of an epoch of a stage that runs beside the driver; 0 where none does.

    Tables of a stage that ``lasts`` for several epochs stay in the memory of Spark's workers.
    """
    if len(program.sections) > 1 or program.sections[0].kind != TASK:
        return 0
    if lasts and (program.stage.tables or program.stage.side_inputs):
        return 0
    return Config(program.spec.config).driver_max_messages

"""The engine that runs stages in this process, one task after the other: for tests and measurements, without a JVM."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NoReturn

from airflow_samza.engine.stage_context import PushContext, StageContext, reject_stopped
from airflow_samza.engine.stage_setup import StageSetup, bindings_of_tasks, program_source, set_up_stage
from airflow_samza.engine.tables.table_compaction import CompactionTask
from airflow_samza.engine.task_section import TaskSection
from airflow_samza.engine.worker_errors import error_of_task
from airflow_samza.errors import RuntimeMissing, SamzaError
from airflow_samza.launch.bindings import bindings_to_json
from airflow_samza.runs.records.epoch_records import InputIntent, Intent
from airflow_samza.runs.records.run_plan import BoundStream, RunPlan
from airflow_samza.runs.stages.stage_state import cancelled
from airflow_samza.systems.spark.system import CarriedByDriver
from airflow_samza.task.program.stage_program import reject_catalyst


class LocalEngine:
    """A :class:`~airflow_samza.engine.stage_engine.StageEngine` of this process.

    It runs the tasks that Spark runs, over Arrow, but no part of a stage that only Catalyst runs, and no push.
    """

    @property
    def place(self) -> str:
        """``this process``."""
        return "this process"

    def connect(self, context: StageContext) -> None:
        """Connect nothing: tables of Spark are not written here."""

    def read_inputs(self, context: StageContext) -> RunPlan:
        """Return the plan as it is; inputs that Spark would read are rejected."""
        run = context.run
        for stream_id in run.plan.stage(context.handle.stage_id).inputs:
            if not run.is_own(stream_id) and isinstance(context.systems[run.stream(stream_id).system], CarriedByDriver):
                raise RuntimeMissing(
                    f"The input {stream_id!r} is read by Spark, and there is no Spark here.",
                    hint="Run the stage on Spark.",
                    stream=stream_id,
                )
        return run

    @contextmanager
    def start_stage(self, context: StageContext, inputs: Mapping[str, BoundStream]) -> Iterator[LocalStage]:
        """Compile the stage, of which Arrow has to run all parts."""
        source = program_source(context.systems, context.run, context.handle.stage_id, inputs)
        program = source.load()
        reject_catalyst(program)
        bindings = bindings_to_json(bindings_of_tasks(context.bindings))
        yield self.stage(context, set_up_stage(context, inputs, source, program, bindings))

    def stage(self, context: StageContext, setup: StageSetup) -> LocalStage:
        """Return the stage that runs the epochs of an attempt."""
        return LocalStage(context, setup)

    def open_source(self, push: PushContext) -> NoReturn:
        """Reject pushes, whose sources Spark reads."""
        raise RuntimeMissing("A push reads its table with Spark, and there is no Spark here.", hint="Push it on Spark.")

    def compact(self, push: PushContext, work: CompactionTask) -> None:
        """Compact one partition after the other."""
        for task in work.tasks:
            work.run(task)

    def cancel(self, tag: str) -> None:
        """End nothing: before each task its attempt is asked whether it is cancelled."""

    def answers(self) -> bool:
        """Return True."""
        return True

    @property
    def is_up(self) -> bool:
        """True: it is this process."""
        return True

    def page(self) -> None:
        """Return none: this process shows itself nowhere."""

    def processor_seconds(self) -> float | None:
        """Return None: there is no other process."""
        return None

    def stop(self, *, in_a_hurry: bool = False) -> None:
        """Stop nothing: nothing runs beside the threads of stages."""

    def kill(self) -> None:
        """Kill nothing."""


class LocalStage:
    """A :class:`~airflow_samza.engine.stage_engine.RunningStage` whose tasks run in turn, in the caller's thread."""

    def __init__(self, context: StageContext, setup: StageSetup) -> None:
        self.setup = setup
        self._context = context
        self._cancelled: set[str] = set()

    def run_epoch(self, intent: Intent, messages: int | None) -> None:
        """Run every task of the epoch."""
        context = self._context
        reject_stopped(context.files, context.attempt)
        attempt = uuid.uuid4().hex
        for place in range(len(intent.running)):
            if context.attempt.cancel_requested():
                raise cancelled(context.handle)
            try:
                for _ in TaskSection(self.setup.task, intent, place, attempt).run(iter(())):
                    raise AssertionError("a stage of one section yields nothing")
            except SamzaError:
                raise
            except Exception as error:
                raise error_of_task(error, context.handle.stage_id, place) from error

    def fill_tables(self, side_inputs: Mapping[str, InputIntent], tag: str) -> None:
        """Fill the tables of each task in turn."""
        tasks = self.setup.program.stage.task_count
        for task in range(tasks):
            if tag in self._cancelled:
                return
            self.setup.task.fill_tables(task, tasks, side_inputs)

    def cancel(self, tag: str) -> None:
        """Keep the next task with the tag from starting."""
        self._cancelled.add(tag)

    def epoch_committed(self, epoch: int, standing: Mapping[int, int]) -> None:
        """Copy nothing: there is no other host."""

"""The engine that runs stages on Spark, one job for each epoch."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from airflow_samza.application.operator_specs import TransformSpec
from airflow_samza.engine.stage_context import PushContext, StageContext, reject_stopped
from airflow_samza.engine.stage_setup import StageSetup, bindings_of_tasks, program_source, set_up_stage
from airflow_samza.engine.stage_task import StageTask
from airflow_samza.engine.tables.table_compaction import CompactionTask
from airflow_samza.engine.task_section import read_over
from airflow_samza.launch.bindings import bindings_from_json
from airflow_samza.launch.class_archive import make_in_background
from airflow_samza.runs.records.epoch_records import InputIntent, Intent
from airflow_samza.runs.records.run_plan import BoundStream, RunPlan
from airflow_samza.spark.catalyst import analyse_sections
from airflow_samza.spark.dataframe_inputs import read_inputs
from airflow_samza.spark.epoch_frames import EpochFrames
from airflow_samza.spark.push_job import SparkSource, open_source
from airflow_samza.spark.sealed_bindings import unsealed
from airflow_samza.spark.sessions.driver_session import DriverSession
from airflow_samza.spark.small_epochs import SmallEpochs, most_messages_of
from airflow_samza.spark.stage_job import losses, run_job
from airflow_samza.spark.standbys import Standbys, placement_of
from airflow_samza.spark.table_writer import connect_tables
from airflow_samza.spark.task_process import TaskForker
from airflow_samza.spark.worker_rows import DONE, on_partition, one_row, own_partition

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

log = logging.getLogger("airflow_samza.runner")

_FILL_RESULT = "task bigint"


class SparkEngine:
    """A :class:`~airflow_samza.engine.stage_engine.StageEngine` over a session of Spark.

    ``settings`` are those of the runner; without any no archive of Java's classes is left. ``forker`` forks processes
    for small epochs, where tasks may run beside the driver.
    """

    def __init__(
        self,
        driver: DriverSession,
        settings: Mapping[str, Any] | None = None,
        forker: TaskForker | None = None,
    ) -> None:
        self.driver = driver
        self._forker = forker
        self._settings = settings
        self.cancel = driver.cancel
        self.answers = driver.answers
        self.page = driver.page
        self.processor_seconds = driver.processor_seconds
        self.kill = driver.kill

    @property
    def place(self) -> str:
        """The place of the session."""
        return self.driver.place

    @property
    def is_up(self) -> bool:
        """Return whether the session is up."""
        return self.driver.is_up

    def connect(self, context: StageContext) -> None:
        """Give systems of kind spark what writes their tables."""
        connect_tables(self.driver, context)

    def read_inputs(self, context: StageContext) -> RunPlan:
        """Read inputs of kind spark, and those that ``from_dataframe`` makes, into topics of the run."""
        with losses(self.driver, context.handle):
            return read_inputs(self.driver, context)

    @contextmanager
    def start_stage(self, context: StageContext, inputs: Mapping[str, BoundStream]) -> Iterator[SparkStage]:
        """Open the stage's session, in which Spark says which columns the parts have that Catalyst runs.

        A stage that may do without Spark opens it when an epoch needs it.
        """
        source = program_source(context.systems, context.run, context.handle.stage_id, inputs)
        program = source.load()
        registers_names = any(isinstance(operator.spec, TransformSpec) for operator in program.operators.values())
        conf = context.attempt.request.spark_conf
        with losses(self.driver, context.handle), ExitStack() as opened:

            @cache
            def session() -> SparkSession:
                return opened.enter_context(self.driver.stage_session(conf, own=registers_names))

            lasts = context.run.runs_epochs(context.handle.stage_id)
            may_wait = (
                not self.driver.is_up
                and not conf
                and self._forker is not None
                and most_messages_of(program, lasts=lasts) > 0
            )
            spark = None if may_wait else session()
            if len(program.sections) > 1:
                source, program = analyse_sections(session(), source)
            bindings = self.driver.for_workers(spark, bindings_of_tasks(context.bindings))
            has_hosts = self.driver.knows_executors
            setup = set_up_stage(context, inputs, source, program, bindings, has_hosts=has_hosts)
            with closing(SparkStage(self.driver, session, context, setup, self._forker)) as stage:
                yield stage

    def open_source(self, push: PushContext) -> AbstractContextManager[SparkSource]:
        """Open the source in a session of its own."""
        return open_source(self.driver, push)

    def compact(self, push: PushContext, work: CompactionTask) -> None:
        """Run the tasks of a compaction as one job."""
        request, attempt, tasks = push.request, push.attempt, len(work.tasks)
        with self.driver.stage_session(attempt.request.spark_conf, own=True) as spark:
            bindings = self.driver.for_workers(spark, bindings_from_json(work.bindings))
            job = CompactionJob(dataclasses.replace(work, bindings=bindings))
            reject_stopped(push.files, attempt)
            description = f"compaction of table {request.table} after push {request.push_id}"
            with self.driver.tagged(spark, attempt.group, description, pool=request.table):
                spark.range(0, tasks, 1, tasks).mapInArrow(job, DONE).collect()

    def stop(self, *, in_a_hurry: bool = False) -> None:
        """Stop Spark; then have the archive of classes made with which the next one starts sooner."""
        was_up = self.is_up
        self.driver.stop()
        if self._settings is not None and was_up and not in_a_hurry:
            make_in_background(self._settings)


class SparkStage:
    """A :class:`~airflow_samza.engine.stage_engine.RunningStage` with a ``session`` of Spark, open or to be opened."""

    def __init__(
        self,
        driver: DriverSession,
        session: Callable[[], SparkSession],
        context: StageContext,
        setup: StageSetup,
        forker: TaskForker | None = None,
    ) -> None:
        self.setup = setup
        self._driver = driver
        self.cancel = driver.cancel
        self._session = session
        self._context = context
        runs_epochs = context.run.runs_epochs(context.handle.stage_id)
        self._placement = placement_of(driver, context, setup) if runs_epochs else None
        self._standbys = Standbys(driver, session, setup.task, self._placement, context.attempt.group)
        self._small = SmallEpochs(forker, context, setup, spark_is_up=driver.is_up)

    @cached_property
    def _frames(self) -> EpochFrames:
        return EpochFrames(self._driver, self._session(), self.setup.program, self.setup.task, self._placement)

    def run_epoch(self, intent: Intent, messages: int | None) -> None:
        """Collect the epoch's DataFrame, and then that of the tasks which their groups have left out.

        An epoch of few messages is run by a process beside the driver.
        """
        if self._small.run(intent, messages):
            return
        done = self._run_tasks(intent)
        left = [place for place, task in enumerate(intent.running) if task not in done]
        if left:
            self._run_tasks(intent, left)

    def _run_tasks(self, intent: Intent, left: Sequence[int] = ()) -> set[int]:
        frames = self._frames
        rows = run_job(
            self._driver,
            self._context,
            self._session(),
            self.setup.program,
            lambda: frames.of(intent, left),
            frames.properties(intent),
            logging.INFO if intent.epoch == 0 else logging.DEBUG,
        )
        return {row["task"] for row in rows}

    def fill_tables(self, side_inputs: Mapping[str, InputIntent], tag: str) -> None:
        """Run a small job in a pool of its own."""
        tasks = self.setup.program.stage.task_count
        work = TableTask(self.setup.task, tasks, side_inputs)
        spark = self._session()
        with self._driver.tagged(spark, tag, f"tables of {self.setup.task.stage}", pool=tag):
            spark.range(0, tasks, 1, tasks).mapInArrow(work, _FILL_RESULT).collect()

    def epoch_committed(self, epoch: int, standing: Mapping[int, int]) -> None:
        """Bring the hosts that would take tasks over what they lack of the tasks' state."""
        self._standbys.after(epoch, standing)

    def close(self) -> None:
        """End what runs beside the epochs."""
        self._small.close()
        self._standbys.close()


@dataclass(frozen=True)
class TableTask:
    """The function that ``mapInArrow`` calls to fill the tables of a stage's ``tasks`` on their hosts."""

    stage: StageTask
    tasks: int
    side_inputs: Mapping[str, InputIntent]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield one row."""
        task = own_partition(batches)
        unsealed(self.stage).fill_tables(task, self.tasks, self.side_inputs)
        yield one_row(_FILL_RESULT, task)


@dataclass(frozen=True)
class CompactionJob:
    """The function that ``mapInArrow`` calls to compact a partition of a pushed table."""

    work: CompactionTask

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield one row."""
        read_over(batches)
        what = f"compaction of {self.work.stream['name']}"
        return on_partition(what, lambda place: unsealed(self.work).run(self.work.tasks[place]))

"""The DataFrames of a stage's epochs (decision 63): one serves many, as planning one takes as long as running it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from airflow_samza.engine.placement import Placement
from airflow_samza.engine.stage_task import StageTask
from airflow_samza.runs.records.epoch_records import Intent
from airflow_samza.spark.catalyst import stage_frame
from airflow_samza.spark.epoch_task import EPOCH_PROPERTY, EpochTask
from airflow_samza.spark.sessions.driver_session import DriverSession
from airflow_samza.task.program.stage_program import StageProgram

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MOST = 8
"""Frames that are kept: tasks without new data skip the epoch, so the same few sets of tasks come again and again."""


class EpochFrames:
    """The maker of an epoch's frame, with one partition for each task that runs in it.

    What Catalyst runs is planned anew for each epoch: it fixes the current time, for one, when it plans. With a
    ``placement`` Spark gets the place of each task: to the executor that ran it before, which has its state at hand.
    """

    def __init__(
        self,
        driver: DriverSession,
        spark: SparkSession,
        program: StageProgram,
        task: StageTask,
        placement: Placement | None = None,
    ) -> None:
        self._driver = driver
        self._spark = spark
        self._program = program
        self._task = task
        self._placement = placement
        self._lasts = driver.passes_properties and len(program.sections) == 1
        self._frames: dict[tuple[object, ...], DataFrame] = {}

    def of(self, intent: Intent) -> DataFrame:
        """Return the frame; collecting it runs the epoch."""
        tasks = len(intent.running)
        locations = self._locations(intent.running)
        if not self._lasts:
            return self._frame(intent.epoch, tasks, locations)
        key = (tasks, *(tuple(preferred) for preferred in locations or ()))
        if key not in self._frames:
            while len(self._frames) >= _MOST:
                del self._frames[next(iter(self._frames))]
            self._frames[key] = self._frame(None, tasks, locations)
        return self._frames[key]

    def _frame(self, epoch: int | None, tasks: int, locations: Sequence[Sequence[str]] | None) -> DataFrame:
        if locations is None:
            source = self._spark.range(0, tasks, 1, tasks)
        else:
            source = self._driver.frame_at(self._spark, locations)
        return stage_frame(source, self._program, EpochTask(self._task, epoch))

    def _locations(self, running: Sequence[int]) -> list[list[str]] | None:
        """Return the locations to which the tasks of an epoch belong; None when they are not known."""
        if self._placement is None:
            return None
        self._placement.update(self._driver.executors())
        places = self._placement.places
        return [places[task].preferred for task in running] if places else None

    def properties(self, intent: Intent) -> Mapping[str, str]:
        """Return the properties that the job carries to its tasks."""
        return {EPOCH_PROPERTY: str(intent.epoch)} if self._lasts else {}

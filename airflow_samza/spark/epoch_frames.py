"""The DataFrames of a stage's epochs: one serves many where it can, because planning one takes as long as running it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

from airflow_samza.runs.epoch_records import Intent
from airflow_samza.spark.catalyst import stage_frame
from airflow_samza.spark.driver_session import DriverSession
from airflow_samza.spark.epoch_task import EPOCH_PROPERTY, EpochTask
from airflow_samza.task.stage_program import StageProgram

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class EpochFrames:
    """Makes the frame of an epoch, with one partition for each task that runs in it.

    What Catalyst runs is planned anew for each epoch: it fixes the current time, for one, when it plans.
    """

    def __init__(self, driver: DriverSession, spark: SparkSession, program: StageProgram, task: EpochTask) -> None:
        self._spark = spark
        self._program = program
        self._task = task
        self._lasts = driver.passes_properties and len(program.sections) == 1
        self._frames: dict[int, DataFrame] = {}

    def of(self, intent: Intent) -> DataFrame:
        """Collecting it runs the epoch."""
        tasks = len(intent.running)
        if not self._lasts:
            return stage_frame(self._spark, self._program, dataclasses.replace(self._task, epoch=intent.epoch), tasks)
        if tasks not in self._frames:
            self._frames[tasks] = stage_frame(self._spark, self._program, dataclasses.replace(self._task, epoch=None), tasks)
        return self._frames[tasks]

    def properties(self, intent: Intent) -> Mapping[str, str]:
        """What the job has to say to its tasks."""
        return {EPOCH_PROPERTY: str(intent.epoch)} if self._lasts else {}

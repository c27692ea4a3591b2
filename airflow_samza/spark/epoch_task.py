"""Tasks of an epoch in a Spark Python worker: Spark's partition k is the k-th that runs in the epoch, or a group."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from airflow_samza.engine.stage_task import StageTask
from airflow_samza.engine.task_section import TaskSection
from airflow_samza.engine.worker_errors import from_worker
from airflow_samza.private_folder import scratch_folder
from airflow_samza.spark.sealed_bindings import unsealed
from airflow_samza.spark.task_groups import GROUP_SECONDS
from airflow_samza.spark.worker_rows import one_row, task_context

RESULT_SCHEMA = "task bigint, adopted boolean"
"""The row that the last section of a task gives to the driver."""

EPOCH_PROPERTY = "airflow_samza.epoch"
"""The local property of a job that names its epoch, where one DataFrame serves many epochs."""


@dataclass(frozen=True)
class EpochTask:
    """The function that ``mapInArrow`` calls for a task section. ``epoch`` None: each job says which.

    ``groups`` are the places, among those that run, of the tasks of each of Spark's partitions; None: that of its
    number. Only stages of one section have groups.
    """

    stage: StageTask
    epoch: int | None
    section: int = 0
    groups: tuple[tuple[int, ...], ...] | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the section for the tasks that this Spark partition is.

        Of a group that takes long the rest is left out, and no row comes of it.
        """
        context = task_context()
        epoch = self.epoch if self.epoch is not None else int(str(context.getLocalProperty(EPOCH_PROPERTY)))
        number, attempt = context.partitionId(), str(context.taskAttemptId())
        places = (number,) if self.groups is None else self.groups[number]
        task, until = places[0], time.monotonic() + GROUP_SECONDS
        try:
            folder = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or scratch_folder("aside")
            stage = unsealed(self.stage)
            intent = stage.intent(epoch)
            for place in places:
                if place != places[0] and time.monotonic() > until:
                    return
                task = intent.running[place]
                section = TaskSection(stage, intent, place, attempt, self.section, folder)
                adopted = yield from section.run(batches)
                if section.is_last:
                    yield one_row(RESULT_SCHEMA, section.task, adopted)
        except Exception as error:
            raise from_worker(error, self.stage.stage, task) from error

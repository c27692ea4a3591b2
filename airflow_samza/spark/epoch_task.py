"""A task of an epoch in a Spark Python worker: Spark's partition k is the k-th of the tasks that run in the epoch."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_samza.engine.stage_task import StageTask
from airflow_samza.engine.task_section import TaskSection
from airflow_samza.engine.worker_errors import from_worker
from airflow_samza.private_folder import scratch_folder
from airflow_samza.spark.sealed_bindings import unsealed
from airflow_samza.spark.worker_rows import one_row, task_context

if TYPE_CHECKING:
    import pyarrow as pa

RESULT_SCHEMA = "task bigint, adopted boolean"
"""The row that the last section of a task gives to the driver."""

EPOCH_PROPERTY = "airflow_samza.epoch"
"""The local property of a job that names its epoch, where one DataFrame serves many epochs."""


@dataclass(frozen=True)
class EpochTask:
    """The function that ``mapInArrow`` calls for a task section. ``epoch`` None: each job says which."""

    stage: StageTask
    epoch: int | None
    section: int = 0

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the section for the task that this Spark partition is."""
        context = task_context()
        epoch = self.epoch if self.epoch is not None else int(str(context.getLocalProperty(EPOCH_PROPERTY)))
        place, attempt = context.partitionId(), str(context.taskAttemptId())
        try:
            folder = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or scratch_folder("aside")
            section = TaskSection(unsealed(self.stage), epoch, place, attempt, self.section, folder)
            adopted = yield from section.run(batches)
            if section.is_last:
                yield one_row(RESULT_SCHEMA, section.task, adopted)
        except Exception as error:
            raise from_worker(error, self.stage.stage, place) from error

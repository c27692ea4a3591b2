"""Tasks of an epoch in a Spark Python worker: Spark's partition k is the k-th that runs in the epoch, or a group.

A group is run in turn by one task of Spark: starting one costs more than a small task does.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from airflow_samza.engine.stage_task import StageTask
from airflow_samza.engine.task_section import TaskSection
from airflow_samza.engine.worker_errors import from_worker
from airflow_samza.private_folder import scratch_folder
from airflow_samza.spark.sealed_bindings import unsealed
from airflow_samza.spark.worker_rows import one_row, task_context

RESULT_SCHEMA = "task bigint, adopted boolean"
"""The row that the last section of a task gives to the driver."""

EPOCH_PROPERTY = "airflow_samza.epoch"
"""The local property of a job that names its epoch, where one DataFrame serves many epochs."""

GROUP_SECONDS = 2.0  # decision 119
"""A group begins no further task after so many seconds: then tasks are so large that each is worth one of Spark's.

So stages that share Spark's cores wait for one another no longer than for a task, and no task waits behind large ones.
"""

_MOST = 128
"""Tasks of a group."""

_SPREAD = 0.6180339887498949
"""The golden ratio, whose multiples lie evenly between whole numbers: a group gets tasks from everywhere.

Partitions that follow each other are often alike, for instance large.
"""


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


def in_groups(tasks: Sequence[int], cores: int) -> list[tuple[int, ...]]:
    """Return the tasks in groups, of which so many run at a time: the first are large, the last single tasks.

    Each group has half of what a core would get of the tasks that are left, so all cores end at about the same time.

    >>> [len(group) for group in in_groups(range(32), cores=2)]
    [8, 6, 4, 3, 2, 2, 1, 1, 1, 1, 1, 1, 1]
    >>> in_groups(range(4), cores=2)
    [(0,), (1,), (2,), (3,)]
    """
    left = list(tasks)
    if len(left) >= 4 * cores:
        left = [task for _, task in sorted((place * _SPREAD % 1, task) for place, task in enumerate(left))]
    groups = []
    while left:
        size = min(max(len(left) // (2 * cores), 1), _MOST)
        groups.append(tuple(left[:size]))
        del left[:size]
    return groups

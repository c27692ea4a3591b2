"""The DataFrames of a stage's epochs (decision 63): one serves many, as planning one takes as long as running it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from airflow_samza.engine.placement import Placement
from airflow_samza.engine.stage_task import StageTask
from airflow_samza.grouping import grouped
from airflow_samza.runs.records.epoch_records import Intent
from airflow_samza.spark.catalyst import stage_frame
from airflow_samza.spark.epoch_task import EPOCH_PROPERTY, EpochTask, in_groups
from airflow_samza.spark.sessions.driver_session import DriverSession
from airflow_samza.task.program.stage_program import StageProgram

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MOST = 8
"""Frames that are kept: tasks without new data skip the epoch, so the same few sets of tasks come again and again."""


_FEWEST = 4
"""Tasks of which the first group might have more than one, on a single core."""


class EpochFrames:
    """The maker of an epoch's frame, with one partition for each group of the tasks that run in it.

    What Catalyst runs is planned anew for each epoch: it fixes the current time, for one, when it plans. With a
    ``placement`` Spark gets the place of each task: to the executor that ran it before, which has its state in memory.
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
        self._is_one = len(program.sections) == 1
        self._lasts = driver.passes_properties and self._is_one
        self._frames: dict[tuple[object, ...], DataFrame] = {}

    def of(self, intent: Intent, left: Sequence[int] = ()) -> DataFrame:
        """Return the frame; collecting it runs the epoch, but for what groups leave out.

        With ``left``, the places of such tasks among those that run, it runs each of these for itself.
        """
        locations = self._locations(intent.running)
        if left:
            return self._frame(intent.epoch, [(place,) for place in left], locations)
        groups = self._groups(len(intent.running), locations)
        if not self._lasts:
            return self._frame(intent.epoch, groups, locations)
        key = (tuple(groups), *(tuple(preferred) for preferred in locations or ()))
        if key not in self._frames:
            while len(self._frames) >= _MOST:
                del self._frames[next(iter(self._frames))]
            self._frames[key] = self._frame(None, groups, locations)
        return self._frames[key]

    def _groups(self, tasks: int, locations: Sequence[Sequence[str]] | None) -> list[tuple[int, ...]]:
        """Return the places of the tasks of each group, all of which belong to the same location."""
        cores = self._driver.cores if self._is_one and tasks >= _FEWEST else None
        if cores is None:
            return [(place,) for place in range(tasks)]
        together = grouped((tuple(locations[place]) if locations is not None else (), place) for place in range(tasks))
        cores = max(cores // len(together), 1)
        return [group for places in together.values() for group in in_groups(places, cores)]

    def _frame(
        self, epoch: int | None, groups: Sequence[tuple[int, ...]], locations: Sequence[Sequence[str]] | None
    ) -> DataFrame:
        if locations is None:
            source = self._spark.range(0, len(groups), 1, len(groups))
        else:
            source = self._driver.frame_at(self._spark, [locations[group[0]] for group in groups])
        is_plain = all(group == (number,) for number, group in enumerate(groups))
        task = EpochTask(self._task, epoch, groups=None if is_plain else tuple(groups))
        return stage_frame(source, self._program, task)

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

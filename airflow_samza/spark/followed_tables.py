"""What the tables of a stage hold from epoch to epoch: in a continuous run they follow their side inputs, and never hold the main input up.

A few further messages are taken into the next epoch as they are (they cost a task some milliseconds). Many of them, or another version of a
pushed table, are first read into the hosts' folders of stores, by a small job beside the epochs; the epochs go on with what they have until
that is done (SEMANTICS S1, S7). An epoch's intent names what its tables hold, so that every attempt at it sees the same.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_samza.runs import table_versions
from airflow_samza.runs.epoch_records import InputIntent, Intent
from airflow_samza.runs.pinned_tables import CURRENT
from airflow_samza.runs.run_plan import CONTINUOUS
from airflow_samza.runs.table_compactions import holds_all
from airflow_samza.spark.epoch_task import EpochTask
from airflow_samza.spark.side_inputs import planned_side_inputs
from airflow_samza.spark.stage_context import StageContext
from airflow_samza.spark.stage_setup import StageSetup
from airflow_samza.spark.task_side_inputs import MADE, made
from airflow_samza.spark.worker_rows import one_row, own_partition

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger("airflow_samza.runner")

FEW_MESSAGES = 20_000
"""Of a side input that an epoch takes in as they are: some ten milliseconds of work for a task, where they are rows."""

RESULT = "task bigint"


@dataclass(frozen=True)
class PreparingTask:
    """What ``mapInArrow`` calls: fills the tables of the ``tasks`` of a stage as the intents (``wanted``) say, in their hosts' folders."""

    stage: EpochTask
    tasks: int
    wanted: Mapping[str, InputIntent]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields one row."""
        task = own_partition(batches)
        self.prepare(task)
        yield one_row(RESULT, task)

    def prepare(self, task: int) -> None:
        """Does so for one task."""
        intent = Intent(self.stage.stage, "0.0", 0, self.tasks, {}, {}, side_inputs=self.wanted)
        self.stage.tables(intent, task).prepare()


def preparing_frame(spark: SparkSession, task: PreparingTask) -> DataFrame:
    """Collecting it prepares the tables of every task."""
    return spark.range(0, task.tasks, 1, task.tasks).mapInArrow(task, RESULT)


class FollowedTables:
    """The side inputs of one stage, as the next epoch reads them. ``former`` is the last intent, whose tables are not taken back."""

    def __init__(self, context: StageContext, setup: StageSetup, former: Intent | None) -> None:
        self._context = context
        self._setup = setup
        run = context.run
        self._now = planned_side_inputs(run, context.handle.stage_id)
        if former is not None:
            self._now.update({name: read for name, read in former.side_inputs.items() if name in self._now})
        self._bound = {stream_id: run.side_input(stream_id) for stream_id in self._now}
        self._pinned = {found["stream_id"]: dict(found) for found in run.tables.values()}
        self._follows = [stream_id for stream_id in self._now if run.mode == CONTINUOUS and self._goes_on(stream_id)]
        self._tag = f"{context.attempt.group} tables"
        self._thread: threading.Thread | None = None
        self._prepared: dict[str, InputIntent] = {}
        self._first = dict(self._now)

    def look(self) -> dict[str, InputIntent]:
        """What the tables of the next epoch hold; what has to be read beforehand is begun."""
        if self._thread is not None and not self._thread.is_alive():
            self._thread = None
            self._now.update(self._prepared)
        many: dict[str, InputIntent] = {}
        for stream_id in self._follows:
            newer = self._newer(stream_id)
            if newer is None:
                continue
            if self._are_few(self._now[stream_id].slice, newer.slice):
                self._now[stream_id] = newer
            elif self._has_processor(stream_id):
                self._now[stream_id] = InputIntent(newer.stream, _piece(self._now[stream_id].slice, newer.slice))
            else:
                many[stream_id] = newer
        if many and self._thread is None:
            self._prepare(many)
        return dict(self._now)

    def have_moved(self, wanted: Mapping[str, InputIntent], former: Intent | None) -> bool:
        """Whether a pushed table would come in another version than in the epoch before (None: than the plan says)."""
        return _versions(wanted) != _versions(self._first if former is None else former.side_inputs)

    def close(self) -> None:
        """Ends what is being prepared."""
        if self._thread is not None and self._thread.is_alive():
            self._context.driver.cancel(self._tag)
            self._thread.join(timeout=10)

    def _goes_on(self, stream_id: str) -> bool:
        pinned = self._pinned.get(stream_id)
        return "offsets" in self._now[stream_id].slice and (pinned is None or pinned["asked"] == CURRENT)

    def _has_processor(self, stream_id: str) -> bool:
        tables = (self._setup.program.spec.table(table_id) for table_id in self._setup.program.stage.tables)
        return any(table.processor is not None for table in tables if stream_id in table.side_inputs)

    def _newer(self, stream_id: str) -> InputIntent | None:
        """What there is of a side input beyond what the last epoch held."""
        bound, known = self._bound[stream_id], self._now[stream_id]
        system = self._context.systems[bound.system]
        if "sections" in known.slice or stream_id in self._pinned:
            version = table_versions.newest(self._context.files, bound.system, bound.spec.name)
            if version is None or holds_all(known.slice, version.slice):
                return None
            slice_ = {**version.slice, "schema": version.schema, MADE: made(system, bound)}
            return InputIntent(bound.spec.name, slice_)
        since = made(system, bound)
        same = since == known.slice.get(MADE)
        asked = getattr(system, "has_news", None)
        if same and asked is not None and not asked(bound.spec, known.slice):
            return None
        if since is None and asked is not None:
            return None  # deleted: who reads of it says so
        slice_ = {**system.slice(bound.spec), MADE: since}
        if same:  # what has expired since does not make anybody begin anew
            slice_["offsets"] = [[int(was[0]), int(now[1])] for was, now in zip(known.slice["offsets"], slice_["offsets"], strict=True)]
        return InputIntent(bound.spec.name, slice_)

    @staticmethod
    def _are_few(known: Mapping[str, Any], newer: Mapping[str, Any]) -> bool:
        if "sections" in newer or "sections" in known or known.get(MADE) != newer.get(MADE):
            return False
        return all(int(now[1]) - int(was[1]) <= FEW_MESSAGES for was, now in zip(known["offsets"], newer["offsets"], strict=True))

    def _prepare(self, wanted: dict[str, InputIntent]) -> None:
        self._thread = threading.Thread(target=self._round, args=(wanted,), name=self._tag, daemon=True)
        self._thread.start()

    def _round(self, wanted: dict[str, InputIntent]) -> None:
        setup = self._setup
        work = PreparingTask(setup.task, setup.program.stage.task_count, {**self._now, **wanted})
        try:
            with self._context.driver.tagged(setup.spark, self._tag, f"tables of {setup.task.stage}", pool=self._tag):
                preparing_frame(setup.spark, work).collect()
        except Exception as error:  # the tasks then read for themselves, and say what is wrong
            log.warning("%s: the tables were not read beforehand: %s", self._tag, str(error).splitlines()[0] if str(error) else error)
        self._prepared = wanted


def _versions(side_inputs: Mapping[str, InputIntent]) -> dict[str, object]:
    return {stream_id: read.slice["sections"] for stream_id, read in side_inputs.items() if "sections" in read.slice}


def _piece(known: Mapping[str, Any], newer: Mapping[str, Any]) -> dict[str, Any]:
    """A part of what is new, where nothing can be prepared."""
    if known.get(MADE) != newer.get(MADE):
        return dict(newer)
    ends = [min(int(now[1]), int(was[1]) + FEW_MESSAGES) for was, now in zip(known["offsets"], newer["offsets"], strict=True)]
    return {**newer, "offsets": [[int(now[0]), end] for now, end in zip(newer["offsets"], ends, strict=True)]}

"""Hot standby: after an epoch, the hosts that would take over a task's state get what they lack of it (rule S9).

It is done by a small job beside the epochs, on the executors of those hosts, and never waited for. An epoch that comes
while such a job runs, or right behind one, is copied by the next: a stream that falls silent leaves no copy behind.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_samza.config import Config
from airflow_samza.engine.placement import Placement
from airflow_samza.engine.stage_context import StageContext
from airflow_samza.engine.stage_setup import StageSetup
from airflow_samza.engine.stage_task import StageTask, task_host_files
from airflow_samza.runs.records.epoch_records import read_manifest
from airflow_samza.runs.records.folders import StageFolder
from airflow_samza.spark.sealed_bindings import unsealed
from airflow_samza.spark.sessions.driver_session import DriverSession
from airflow_samza.spark.worker_rows import one_row, own_partition
from airflow_samza.storage.snapshots import prefetch
from airflow_samza.systems.filesystems.opening import open_filesystem

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

log = logging.getLogger("airflow_samza.runner")

PAUSE_SECONDS = 1.0
"""Between two rounds.

Epochs may be shorter than a round, and each round costs the hosts a tenth of a second of work.
"""

RESULT = "place bigint, bytes bigint"


@dataclass(frozen=True)
class StandbyTask:
    """The function that ``mapInArrow`` calls on a host to fetch the state of tasks as of the committed ``epoch``.

    ``tasks`` are, for each partition of the frame, pairs of a task and the epoch of its newest manifest.
    """

    stage: StageTask
    epoch: int
    tasks: tuple[tuple[tuple[int, int], ...], ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield one row: the bytes that were copied."""
        place = own_partition(batches)
        work = dataclasses.replace(self, stage=unsealed(self.stage))
        yield one_row(RESULT, place, sum(work.fetch(task, epoch) for task, epoch in self.tasks[place]))

    def fetch(self, task: int, epoch: int) -> int:
        """Copy what this host lacks of a task's state, and read what it lacks of its side inputs; return the bytes."""
        stage = self.stage
        files = open_filesystem(stage.root)
        try:
            filled = stage.tables(stage.intent(self.epoch), task).warm() if stage.side_inputs else 0
            manifest = read_manifest(files, StageFolder(stage.stage_folder), task, epoch)
            return filled + prefetch(
                files, manifest.state, task_host_files(stage.host_dir or "", files.root, stage.stage_folder, task)
            )
        except Exception as error:  # a later round has the newer state, of which this one's may have been deleted
            log.warning(
                "task %d of %s: its state after epoch %d was not copied: %s", task, stage.stage_folder, epoch, error
            )
            return 0


def placement_of(driver: DriverSession, context: StageContext, setup: StageSetup) -> Placement | None:
    """Return the placement of a stage's tasks.

    None where they keep nothing, where executors are not known, or where host affinity is off.
    """
    if not any(compiled.spec.keeps_state for compiled in setup.program.operators.values()):
        return None
    config = Config(setup.program.spec.config)
    copies = config.standby_replication
    if not driver.knows_executors or not config.host_affinity:
        if copies > 1:
            log.info(
                "%s: no standby copies are kept, because %s tells of no executors",
                context.attempt.group,
                driver.place,
            )
        return None
    return Placement(setup.program.stage.task_count, copies)


class Standbys:
    """The copies of one stage's state, none without a placement; ``bytes`` were copied so far."""

    def __init__(
        self,
        driver: DriverSession,
        session: Callable[[], SparkSession],
        task: StageTask,
        placement: Placement | None,
        tag: str,
    ) -> None:
        self._driver = driver
        self._session = session
        self._task = task
        self._placement = placement
        self._tag = f"{tag} standby"
        self._lock = threading.Lock()
        self._owed: tuple[StandbyTask, list[list[str]]] | None = None
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()
        self._last = -PAUSE_SECONDS
        self.bytes = 0

    def after(self, epoch: int, standing: Mapping[int, int]) -> None:
        """Have a committed epoch's state copied: now, or behind the round that is at work and the pause.

        Of epochs that are committed meanwhile only the newest is copied. ``standing``: each task's newest epoch.
        """
        if self._placement is None:
            return
        by_host = {
            host: tuple((task, standing[task]) for task in tasks if task in standing)
            for host, tasks in self._placement.standbys().items()
        }
        places = {host: tasks for host, tasks in by_host.items() if tasks}
        if not places:
            return
        executors = [self._placement.executor_on(host) for host in places]
        work = StandbyTask(self._task, epoch, tuple(places.values()))
        with self._lock:
            self._owed = work, [[executor.location] for executor in executors]
            if self._thread is None:
                self._thread = threading.Thread(target=self._rounds, name=self._tag, daemon=True)
                self._thread.start()

    def close(self) -> None:
        """End the round that is at work."""
        self._closed.set()
        thread = self._thread
        if thread is not None:
            self._driver.cancel(self._tag)
            thread.join(timeout=10)

    def _rounds(self) -> None:
        """Make rounds until none is owed."""
        while not self._closed.wait(max(0.0, self._last + PAUSE_SECONDS - time.monotonic())):
            with self._lock:
                owed, self._owed = self._owed, None
                if owed is None:
                    self._thread = None
                    return
            self._round(*owed)

    def _round(self, work: StandbyTask, locations: list[list[str]]) -> None:
        try:
            spark, description = self._session(), f"copies of the state of {self._task.stage}"
            with self._driver.tagged(spark, self._tag, description, pool=self._tag):
                rows = self._driver.frame_at(spark, locations).mapInArrow(work, RESULT).collect()
            self.bytes += sum(row["bytes"] for row in rows)
        except Exception as error:  # the executor may be gone: the next round knows the living ones
            log.info(
                "%s: a round was not finished: %s",
                self._tag,
                str(error).splitlines()[0] if str(error) else type(error).__name__,
            )
        finally:
            self._last = time.monotonic()

"""A compaction on Spark.

Each task reads the chain of one partition of a pushed table as whole batches, and stages what is left of it.

It comes after a push that has made the chain long, before the push is over; whatever goes wrong is told in the runner's
log, and the next push tries again.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_samza.engine.driver_session import DriverSession
from airflow_samza.engine.stage_context import Attempt
from airflow_samza.engine.worker_errors import from_worker
from airflow_samza.errors import TopicError
from airflow_samza.launch.bindings_json import bindings_to_json
from airflow_samza.records import made
from airflow_samza.runs.failpoints import reach
from airflow_samza.runs.records.folders import write_once
from airflow_samza.runs.tables import versions
from airflow_samza.runs.tables.compacting import CompactionPart, compact, is_due, staged_path
from airflow_samza.runs.tables.compactions import Compaction
from airflow_samza.runs.tables.folder import TableFolder
from airflow_samza.runs.tables.push_request import PushRequest
from airflow_samza.runs.tables.versions import DELETED, TableVersion
from airflow_samza.spark.sealed_bindings import worker_bindings
from airflow_samza.spark.stage_job import refuse_unwanted
from airflow_samza.spark.worker_rows import one_row, own_partition
from airflow_samza.storage.columnar import ColumnarTable
from airflow_samza.systems.bindings import bind_system
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.system import (
    MessageRun,
    OffsetRange,
    StreamSpec,
    System,
    SystemBinding,
    SystemStreamPartition,
)

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("airflow_samza.runner")

RESULT = "task int"


@dataclass(frozen=True)
class CompactionTask:
    """The function that ``mapInArrow`` calls.

    Of partition ``tasks[k]`` of a version's ``slice``, the last row of each key is staged.
    """

    root: str
    bindings: Mapping[str, Any] = field(repr=False)  # they may hold secrets
    system: str
    stream: Mapping[str, Any]
    slice: Mapping[str, Any]
    number: int
    tasks: tuple[int, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields one row."""
        task = self.tasks[own_partition(batches)]
        try:
            self.run(task)
        except Exception as error:
            raise from_worker(error, f"compaction of {self.stream['name']}", task) from error
        yield one_row(RESULT, task)

    def run(self, task: int) -> None:
        """Leaves the record of what one task has staged."""
        files = open_filesystem(self.root)
        system = bind_system(self.system, worker_bindings(self.bindings)[self.system], self.root)
        stream = made(StreamSpec, self.stream)
        rows = self._rows(system, stream, task)
        producer = system.producer(stream, f"compaction-{self.number}-{task}-{uuid.uuid4().hex}")
        try:
            if rows is not None and rows.num_rows:
                producer.write(task, rows)
            staged = producer.finish()
        except BaseException:
            producer.abort()
            raise
        record = CompactionPart(rows.num_rows if rows is not None else 0, staged)
        write_once(files, staged_path(TableFolder(self.system, stream.name), self.number, task), record)
        reach("compaction-task-after-record")

    def _rows(self, system: System, stream: StreamSpec, task: int) -> pa.RecordBatch | None:
        """The last row of each key, without those that delete."""
        import pyarrow as pa
        import pyarrow.compute as pc

        consumer = system.consumer(stream, self.slice)
        place, span = SystemStreamPartition(self.system, stream.name, task), OffsetRange(*self.slice["offsets"][task])
        try:
            batches = [found.batch for found in consumer.read(place, span) if isinstance(found, MessageRun)]
        finally:
            consumer.close()
        if not batches:
            return None
        rows = ColumnarTable.of(pa.Table.from_batches(batches), stream.key).rows
        return rows.filter(pc.invert(rows.column(DELETED).fill_null(False)))


def compaction_task(
    files: Filesystem,
    system: System,
    binding: SystemBinding,
    folder: TableFolder,
    version: TableVersion,
    tasks: list[int],
    told: Callable[[Mapping[str, SystemBinding]], Mapping[str, Any]] = bindings_to_json,
) -> CompactionTask:
    """The work of some tasks of the compaction of a version.

    ``told`` puts bindings into the form in which they travel.
    """
    known = system.admin.metadata([StreamSpec(folder.topic)]).get(folder.topic)
    if known is None:
        raise TopicError(f"The push stream {folder.topic!r} is gone.", hint="Push the table anew.", stream=folder.topic)
    stream = StreamSpec(folder.topic, known.partitions, known.schema, version.key)
    chain = dataclasses.replace(version, compactions=())
    # What it is made of will be deleted, so it cannot be made again after a power failure.
    durable = dataclasses.replace(binding, options={**binding.options, "durable": "true"})
    bindings = told({folder.system: durable})
    return CompactionTask(
        files.root, bindings, folder.system, dataclasses.asdict(stream), chain.slice, version.reads, tuple(tasks)
    )


def compact_here(
    files: Filesystem, binding: SystemBinding, folder: TableFolder, version: TableVersion
) -> tuple[Compaction, bool]:
    """Compacts a version in this process, one partition after the other; whether that was done now."""
    system = bind_system(folder.system, binding, files.root)

    def stage(tasks: list[int]) -> None:
        work = compaction_task(files, system, binding, folder, version, tasks)
        for task in tasks:
            work.run(task)

    return compact(files, system, folder, version, stage)


def compacting(
    driver: DriverSession,
    files: Filesystem,
    binding: SystemBinding,
    system: System,
    request: PushRequest,
    attempt: Attempt,
) -> Callable[[TableVersion], None]:
    """What a push does when its version stands: compacts it when it is time.

    Nothing that happens here fails the push.
    """

    def stage(version: TableVersion, tasks: list[int]) -> None:
        with driver.stage_session(attempt.request.spark_conf, own=True) as spark:
            told = functools.partial(driver.for_workers, spark)
            work = compaction_task(files, system, binding, request.folder, version, tasks, told)
            refuse_unwanted(files, attempt)
            frame = spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(work, RESULT)
            description = f"compaction of table {request.table} after push {request.push_id}"
            with driver.tagged(spark, attempt.group, description, pool=request.table):
                frame.collect()

    def then(version: TableVersion) -> None:
        try:
            if not is_due(version, request.compact_after):
                return
            if version.number < versions.highest_number(files, request.system, request.topic):
                return
            started = time.monotonic()
            found, is_new = compact(files, system, request.folder, version, lambda tasks: stage(version, tasks))
            if is_new:
                seconds = time.monotonic() - started
                said = (
                    f"{len(found.chain)} sections to one of {found.rows:,} rows, {found.bytes:,} bytes, in "
                    f"{seconds:.1f} s"
                )
                log.info("table %s: version %s is compacted: %s", request.table, version.number, said)
        except Exception as error:  # the version stands; a later push compacts what comes of it
            told = str(error).splitlines()[0] if str(error) else type(error).__name__
            log.warning("table %s: version %s was not compacted: %s", request.table, version.number, told)

    return then

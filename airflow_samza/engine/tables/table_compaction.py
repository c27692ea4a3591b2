"""Compaction of a pushed table: each task reads the chain of a partition as whole batches, and stages what is left.

It comes after a push that has made the chain long, before the push is over; a failure is logged by the runner, and the
next push tries again. The stage runner has it run after a push, and the command line for a table at any time.
"""

from __future__ import annotations

import dataclasses
import logging
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_samza.engine.stage_context import PushContext
from airflow_samza.errors import TopicError
from airflow_samza.launch.bindings import bindings_from_json, bindings_to_json, with_root_access
from airflow_samza.records import from_plain
from airflow_samza.runs.failpoints import reach
from airflow_samza.runs.records.folders import write_once
from airflow_samza.runs.tables import versions
from airflow_samza.runs.tables.compacting import CompactionPart, compact, is_due, staged_path
from airflow_samza.runs.tables.folder import TableFolder
from airflow_samza.runs.tables.table_version import DELETED, Compaction, TableVersion
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

log = logging.getLogger("airflow_samza.runner")


@dataclass(frozen=True)
class CompactionTask:
    """A compaction: of each of the partitions ``tasks`` of a version's ``slice`` the last row of each key is staged."""

    root: str
    bindings: Mapping[str, Any] = field(repr=False)  # they may hold secrets
    system: str
    stream: Mapping[str, Any]
    slice: Mapping[str, Any]
    number: int
    tasks: tuple[int, ...]

    def run(self, task: int) -> None:
        """Stage the rows of one partition, and leave the record of them."""
        files = open_filesystem(self.root)
        system = bind_system(self.system, bindings_from_json(self.bindings)[self.system], self.root)
        stream = from_plain(StreamSpec, self.stream)
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
        """Return the last row of each key, without those that delete."""
        place, span = SystemStreamPartition(self.system, stream.name, task), OffsetRange(*self.slice["offsets"][task])
        with closing(system.consumer(stream, self.slice)) as consumer:
            batches = [envelope.batch for envelope in consumer.read(place, span) if isinstance(envelope, MessageRun)]
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
) -> CompactionTask:
    """Return the work of some tasks of the compaction of a version."""
    metadata = system.metadata([StreamSpec(folder.topic)]).get(folder.topic)
    if metadata is None:
        raise TopicError(f"The push stream {folder.topic!r} is gone.", hint="Push the table anew.", stream=folder.topic)
    stream = StreamSpec(folder.topic, metadata.partitions, metadata.schema, version.key)
    chain = dataclasses.replace(version, compactions=())
    # What it is made of will be deleted, so it cannot be made again after a power failure.
    durable = dataclasses.replace(binding, options={**binding.options, "durable": "true"})
    bindings = bindings_to_json(with_root_access({folder.system: durable}, files.root))
    return CompactionTask(
        files.root, bindings, folder.system, dataclasses.asdict(stream), chain.slice, version.reads, tuple(tasks)
    )


def compact_here(
    files: Filesystem, binding: SystemBinding, folder: TableFolder, version: TableVersion
) -> tuple[Compaction, bool]:
    """Compact a version in this process, one partition after the other; return whether that was done now."""
    system = bind_system(folder.system, binding, files.root)

    def stage(tasks: list[int]) -> None:
        work = compaction_task(files, system, binding, folder, version, tasks)
        for task in tasks:
            work.run(task)

    return compact(files, system, folder, version, stage)


def compact_if_due(push: PushContext, run: Callable[[CompactionTask], None], version: TableVersion) -> None:
    """Compact the version of a push when it is time; ``run`` runs its tasks. No failure of that fails the push."""
    files, request = push.files, push.request

    def stage(tasks: list[int]) -> None:
        binding = push.bindings[request.system]
        run(compaction_task(files, push.system, binding, request.folder, version, tasks))

    try:
        if not is_due(version, request.compact_after):
            return
        if version.number < versions.highest_number(files, request.system, request.topic):
            return
        started = time.monotonic()
        compacted, is_new = compact(files, push.system, request.folder, version, stage)
        if is_new:
            seconds = time.monotonic() - started
            said = (
                f"{len(compacted.chain)} sections to one of {compacted.rows:,} rows, {compacted.bytes:,} bytes, in "
                f"{seconds:.1f} s"
            )
            log.info("table %s: version %s is compacted: %s", request.table, version.number, said)
    except Exception as error:  # the version stands; a later push compacts what comes of it
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        log.warning("table %s: version %s was not compacted: %s", request.table, version.number, reason)

"""What Spark's Python workers do between tables and topics: a DataFrame's rows go into segments, and a topic's rows to a writer."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_samza.spark.worker_errors import from_worker
from airflow_samza.spark.worker_rows import one_row, own_partition

if TYPE_CHECKING:
    import pyarrow as pa

PLACE_COLUMN = "_samza_partition"
"""The partition that a row goes to, put beside the columns by the job that reads."""


READ_RESULT = "task int, staged string"


@dataclass(frozen=True)
class ReadTask:
    """Stages the rows of one Spark partition in one segment; its result is the segment's description."""

    root: str
    topic: str
    schema: str
    key: tuple[str, ...]
    partitions: int
    stage: str
    stream: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One row: the number of the Spark partition, and what was staged."""
        from pyspark import TaskContext

        context = TaskContext.get()
        task = context.partitionId()
        try:
            staged = self._stage(batches, f"read-{task}-{context.taskAttemptId()}-{uuid.uuid4().hex}")
        except Exception as error:
            raise from_worker(error, self.stage, task) from error
        yield one_row(READ_RESULT, task, json.dumps(staged))

    def _stage(self, batches: Iterator[pa.RecordBatch], attempt: str) -> dict[str, Any]:
        from airflow_samza.partitioner import split_by_partition
        from airflow_samza.schema import Schema
        from airflow_samza.systems.log_system import LogSystem
        from airflow_samza.systems.system import StreamSpec, SystemBinding
        from airflow_samza.task.conform import Conformer

        log = LogSystem("log", SystemBinding("log"), self.root)
        producer = log.producer(StreamSpec(self.topic, self.partitions, self.schema), attempt)
        conformer = Conformer(Schema.of(self.schema), f"what Spark reads as {self.stream!r}")
        try:
            for batch in batches:
                if not batch.num_rows:
                    continue
                if self.partitions == 1:
                    producer.write(0, conformer.conform(batch))
                elif self.key:
                    producer.write_keyed(conformer.conform(batch), self.key)
                else:
                    places = batch.column(PLACE_COLUMN).to_numpy(zero_copy_only=False)
                    rows = conformer.conform(batch.drop_columns([PLACE_COLUMN]))
                    for partition, part in split_by_partition(rows, places, self.partitions):
                        producer.write(partition, part)
            return dict(producer.finish())
        except BaseException:
            producer.abort()
            raise


@dataclass(frozen=True)
class WriteTask:
    """Gives the rows of a topic to Spark: the k-th of ``parts`` is [partition, from, to)."""

    root: str
    topic: str
    partitions: int
    slice: Mapping[str, Any]
    parts: tuple[tuple[int, int, int], ...]
    stage: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of this Spark partition."""
        number = own_partition(batches)
        try:
            if number < len(self.parts):  # nothing at all is one empty Spark partition
                yield from self._rows(*self.parts[number])
        except Exception as error:
            raise from_worker(error, self.stage, number) from error

    def _rows(self, partition: int, start: int, end: int) -> Iterator[pa.RecordBatch]:
        from airflow_samza.systems.log_system import LogSystem
        from airflow_samza.systems.system import MessageRun, OffsetRange, StreamSpec, SystemBinding, SystemStreamPartition

        log = LogSystem("log", SystemBinding("log"), self.root)
        consumer = log.consumer(StreamSpec(self.topic, self.partitions), self.slice)
        try:
            for envelope in consumer.read(SystemStreamPartition("log", self.topic, partition), OffsetRange(start, end)):
                if isinstance(envelope, MessageRun):
                    yield envelope.batch
        finally:
            consumer.close()

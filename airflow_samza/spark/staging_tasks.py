"""Tasks of Spark's Python workers between tables and topics.

A DataFrame's rows go into segments, and a topic's rows to a writer.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from airflow_samza.engine.worker_errors import from_worker
from airflow_samza.partitioner import split_by_partition
from airflow_samza.schema import Schema
from airflow_samza.spark.sealed_bindings import unsealed
from airflow_samza.spark.worker_rows import one_row, own_partition, task_context
from airflow_samza.systems.bindings import log_under
from airflow_samza.systems.system import MessageRun, OffsetRange, StreamSpec, SystemStreamPartition
from airflow_samza.task.messages.conform import SchemaConformer

PLACE_COLUMN = "_samza_partition"
"""The partition that a row goes to, put beside the columns by the job that reads."""


VALUE_COLUMN = "value"
"""Column in which a table holds the bytes of messages with a serde, as tables of Spark's Kafka and text sources do."""

READ_RESULT = "task int, staged string"


@dataclass(frozen=True)
class ReadTask:
    """A task that stages the rows of one Spark partition in one segment; its result is the segment's description.

    With a ``serde`` a row is the bytes of a message, in the column ``value``.
    """

    root: str
    topic: str
    schema: str
    key: tuple[str, ...]
    partitions: int
    stage: str
    stream: str
    serde: str | None = None
    bindings: Mapping[str, Any] = field(default_factory=dict, repr=False)  # the root's access, when it has one

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield one row: the number of the Spark partition, and what was staged."""
        context = task_context()
        task = context.partitionId()
        try:
            staged = self._stage(batches, f"read-{task}-{context.taskAttemptId()}-{uuid.uuid4().hex}")
        except Exception as error:
            raise from_worker(error, self.stage, task) from error
        yield one_row(READ_RESULT, task, json.dumps(staged))

    def _stage(self, batches: Iterator[pa.RecordBatch], attempt: str) -> dict[str, Any]:
        log = log_under(unsealed(self).root)
        producer = log.producer(StreamSpec(self.topic, self.partitions, self.schema), attempt)
        conformer = SchemaConformer(Schema.of(self.schema), f"what Spark reads as {self.stream!r}")
        messages = self._decoder()
        try:
            for batch in batches:
                if not batch.num_rows:
                    continue
                rows = conformer.conform(messages(batch))
                if self.partitions == 1:
                    producer.write(0, rows)
                elif self.key:
                    producer.write_keyed(rows, self.key)
                else:
                    places = batch.column(PLACE_COLUMN).to_numpy(zero_copy_only=False)
                    for partition, part in split_by_partition(rows, places, self.partitions):
                        producer.write(partition, part)
            return dict(producer.finish())
        except BaseException:
            producer.abort()
            raise

    def _decoder(self) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
        """Return the function that makes messages of what Spark read."""
        if self.serde is None:
            return lambda batch: batch.drop_columns([PLACE_COLUMN]) if PLACE_COLUMN in batch.schema.names else batch
        from airflow_samza.systems.serdes.binding import bind_serde
        from airflow_samza.systems.serdes.serde import BadMessage, cannot_read

        serde = bind_serde(self.serde, Schema.of(self.schema).to_arrow(), self.stream)

        def decoded(batch: pa.RecordBatch) -> pa.RecordBatch:
            try:
                return serde.decode(batch.column(VALUE_COLUMN))
            except BadMessage as bad:
                raise cannot_read(bad, stream=self.stream) from bad

        return decoded


@dataclass(frozen=True)
class WriteTask:
    """A task that gives the rows of a topic to Spark: the k-th of ``parts`` is [partition, from, to).

    With a ``serde`` a row is the bytes of a message, in the column ``value``.
    """

    root: str
    topic: str
    partitions: int
    slice: Mapping[str, Any]
    parts: tuple[tuple[int, int, int], ...]
    stage: str
    stream: str = ""
    serde: str | None = None
    bindings: Mapping[str, Any] = field(default_factory=dict, repr=False)  # the root's access, when it has one

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of this Spark partition."""
        number = own_partition(batches)
        try:
            if number < len(self.parts):  # nothing at all is one empty Spark partition
                yield from self._rows(*self.parts[number])
        except Exception as error:
            raise from_worker(error, self.stage, number) from error

    def _rows(self, partition: int, start: int, end: int) -> Iterator[pa.RecordBatch]:
        log = log_under(unsealed(self).root)
        place = SystemStreamPartition("log", self.topic, partition)
        with closing(log.consumer(StreamSpec(self.topic, self.partitions), self.slice)) as consumer:
            for envelope in consumer.read(place, OffsetRange(start, end)):
                if isinstance(envelope, MessageRun):
                    yield self._sent(envelope.batch)

    def _sent(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self.serde is None:
            return batch
        from airflow_samza.systems.serdes.binding import bind_serde
        from airflow_samza.systems.serdes.wire import user_bytes

        values = user_bytes(batch, bind_serde(self.serde, batch.schema, self.stream), stream=self.stream, in_band=False)
        return pa.RecordBatch.from_arrays([values], [VALUE_COLUMN])

"""Writing of a topic in memory: rows of one task attempt, kept until they are published."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_samza.partitioner import partition_array, split_by_partition
from airflow_samza.schema import Schema
from airflow_samza.systems.memory.topic import MemoryTopic, Staged
from airflow_samza.systems.memory.wire import kept
from airflow_samza.systems.topic_rows import arrow_schema, plain_schema, to_schema

if TYPE_CHECKING:
    import pyarrow as pa


class MemoryProducer:
    """Producer that keeps the rows of one task attempt until they are published."""

    def __init__(self, topic: MemoryTopic, attempt: str, schema: str | None = None) -> None:
        self._topic = topic
        self._attempt = attempt
        self._schema = topic.schema or arrow_schema(schema)
        self._batches: Staged = {}

    def write(self, partition: int, batch: pa.RecordBatch) -> None:
        """Append user messages to a partition."""
        self._topic.check(partition)
        batch = self._fit(batch)
        if batch.num_rows:
            self._keep(partition, batch)

    def write_bytes(self, partition: int, values: pa.Array) -> None:
        """Append user messages as their bytes, whatever they hold, to a topic with a serde."""
        self._topic.check(partition)
        self._batches.setdefault(partition, []).append(kept(values))

    def write_unreadable(self, partition: int, batch: pa.RecordBatch) -> None:
        """Append messages that nobody can read (``unreadable_batch``), as a test has them."""
        self._topic.check(partition)
        self._batches.setdefault(partition, []).append(batch)

    def write_keyed(self, batch: pa.RecordBatch, key_columns: Sequence[str]) -> None:
        """Append user messages, each to the partition of its key."""
        batch = self._fit(batch)
        partitions = partition_array(batch, key_columns, self._topic.partitions)
        for partition, piece in split_by_partition(batch, partitions, self._topic.partitions):
            self._keep(partition, piece)

    def _keep(self, partition: int, batch: pa.RecordBatch) -> None:
        wire = self._topic.wire
        self._batches.setdefault(partition, []).append(batch if wire is None else wire.kept(batch))

    def _fit(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self._schema is None:
            self._schema = self._topic.schema = self._topic.schema or plain_schema(batch.schema)
        return to_schema(batch, self._schema, self._topic.name)

    def finish(self) -> dict[str, Any]:
        """Stage the rows; the description names the attempt and the totals."""
        self._topic.staged[self._attempt] = self._batches
        batches = [batch for pieces in self._batches.values() for batch in pieces]
        return {
            "attempt": self._attempt,
            "total_rows": sum(batch.num_rows for batch in batches),
            "bytes": sum(batch.nbytes for batch in batches),
            "schema": None if self._schema is None else Schema.of(self._schema).ddl(),
        }

    def abort(self) -> None:
        """Throw the rows away."""
        self._batches.clear()
        self._topic.staged.pop(self._attempt, None)

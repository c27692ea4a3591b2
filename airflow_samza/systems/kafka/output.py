"""Output of topics of Kafka: task attempts stage encoded messages under the root, and publishing sends them.

Staged messages are segments of a topic of the run's under the root, which is never committed: the run's own commit
decides, and what is published is deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from airflow_samza.schema import Schema
from airflow_samza.systems.kafka.output_columns import BY_KEY, MessageEncoder, largest_of
from airflow_samza.systems.kafka.write_failures import too_large
from airflow_samza.systems.log.producer import LogProducer
from airflow_samza.systems.system import StreamSpec

if TYPE_CHECKING:
    from airflow_samza.systems.log.topic import Topic

_SMALL = 16 * 2**10
"""A message up to this size fits every topic: the brokers are not asked."""

OVERHEAD = 512
"""Bytes that a message and the batch that it is alone in have beside key and value, headers not counted."""


class KafkaProducer:
    """Producer that stages the messages of one task attempt.

    ``encoder`` makes what turns batches of a schema into messages; ``bound`` returns how large a message the topic
    takes, and is called for a large one only.
    """

    def __init__(
        self,
        topic: Topic,
        stream: StreamSpec,
        attempt: str,
        encoder: Callable[[pa.Schema], MessageEncoder],
        bound: Callable[[], int],
    ) -> None:
        self._staging = LogProducer(topic, attempt, durable=True)
        self._stream = stream
        self._bound = bound
        self._schema = Schema.of(stream.schema).to_arrow() if stream.schema else None
        self._encoder_of = encoder
        self._encoder = encoder(self._schema) if self._schema is not None else None
        self._rows = 0

    def write(self, partition: int, batch: pa.RecordBatch) -> None:
        """Append messages for a partition."""
        self._write(batch, partition)

    def write_keyed(self, batch: pa.RecordBatch, key_columns: Sequence[str]) -> None:
        """Append messages, each for the partition of its key's bytes: as Kafka's own producer, by murmur2."""
        self._write(batch, BY_KEY)

    def finish(self) -> dict[str, Any]:
        """Close the segment, and describe it."""
        described = self._staging.finish()
        return {**described, "total_rows": self._rows, "schema": self._ddl()}

    def abort(self) -> None:
        """Delete what was staged."""
        self._staging.abort()

    def _write(self, batch: pa.RecordBatch, partition: int) -> None:
        if not batch.num_rows:
            return
        if self._encoder is None:
            self._schema = batch.schema.remove_metadata()
            self._encoder = self._encoder_of(self._schema)
        messages = self._encoder.encode(batch, partition)
        self._reject_large(messages)
        self._staging.write(0, messages)
        self._rows += batch.num_rows

    def _reject_large(self, messages: pa.RecordBatch) -> None:
        row, size = largest_of(messages)
        if size > _SMALL and size + OVERHEAD > (bound := self._bound()):
            raise too_large(self._stream.name, messages.column(0)[row].as_py(), size, bound)

    def _ddl(self) -> str | None:
        return Schema.of(self._schema).ddl() if self._schema is not None and self._schema.names else None

"""Writing to a stream: each row to the partition of its key, in the columns that the stream declares.

Operators that send write by it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import pyarrow as pa

from airflow_samza.application.bad_records import DEAD_LETTERS
from airflow_samza.application.descriptors import ErrorPolicy
from airflow_samza.application.operator_spec import OperatorSpec
from airflow_samza.partitioner import partition_array, split_by_partition
from airflow_samza.schema import Schema
from airflow_samza.systems.capabilities import TakesDictionaries, WritesByKey, has
from airflow_samza.systems.dictionaries import decoded
from airflow_samza.task.messages.conform import SchemaConformer
from airflow_samza.task.messages.expectations import Expectations


class Writer(Protocol):
    """The part of a SystemProducer that a task uses to write one stream."""

    def write(self, partition: int, batch: pa.RecordBatch) -> None:
        """Appends user messages to a partition."""


class OutputWriter:
    """Sends batches to one stream, each row to the partition of its key; without a key all to ``partition``.

    A producer may split the rows itself (``WritesByKey``), and take dictionaries (``TakesDictionaries``).
    """

    def __init__(self, stream_id: str, writer: Writer, key: tuple[str, ...], partitions: int, partition: int) -> None:
        self.stream_id = stream_id
        self.messages = 0
        self.bytes = 0
        self.expectations: Expectations | None = None
        """The expectations of the rows, where the stream declares some and an operator has set them."""
        self._writer = writer
        self._key = key
        self._partitions = partitions
        self._partition = partition % max(partitions, 1)
        self._write_keyed = writer.write_keyed if has(writer, WritesByKey) else None
        self._takes_dictionaries = has(writer, TakesDictionaries) and writer.takes_dictionaries

    def write(self, batch: pa.RecordBatch) -> None:
        """Send all rows of a batch, but for those that an expectation drops."""
        if self.expectations is not None:
            batch = self.expectations.kept(batch)
        if not batch.num_rows:
            return
        if not self._takes_dictionaries:
            batch = decoded(batch)
        self.messages += batch.num_rows
        self.bytes += batch.nbytes
        if not self._key or self._partitions <= 1:
            self._writer.write(0 if self._key else self._partition, batch)
        elif self._write_keyed is not None:
            self._write_keyed(batch, self._key)
        else:
            places = partition_array(batch, self._key, self._partitions)
            for partition, part in split_by_partition(batch, places, self._partitions):
                self._writer.write(partition, part)


class Sender:
    """Sends batches to a stream in its declared schema, missing columns that may be null filled in.

    ``what`` names them in errors.
    """

    def __init__(self, writer: OutputWriter, declared: Schema, what: str) -> None:
        self._writer = writer
        self._conformer = SchemaConformer(
            declared, f"what {what} sends to {writer.stream_id!r}", dictionaries=True, fills=True
        )

    def send(self, batch: pa.RecordBatch) -> None:
        """Send all rows."""
        self._writer.write(self._conformer.conform(batch))


def without_late(
    batch: pa.RecordBatch, times: Any, late: Any, late_to: Sender | None
) -> tuple[pa.RecordBatch, Any, int]:
    """Return the messages that are not late, their times, and how many are late: these go to ``late_to``, if any.

    ``times`` and the mask ``late`` are numpy's.
    """
    if not late.any():
        return batch, times, 0
    if late_to is not None:
        late_to.send(batch.filter(pa.array(late)))
    return batch.filter(pa.array(~late)), times[~late], int(late.sum())


def dead_letter_sender(
    spec: OperatorSpec, policy: ErrorPolicy, writers: Mapping[str, OutputWriter]
) -> Callable[[pa.RecordBatch], None] | None:
    """Return what sends the dead letters of an operator; None where its policy drops them."""
    stream = policy.stream
    if stream is None:
        return None
    return Sender(writers[stream.stream_id], stream.schema or DEAD_LETTERS, spec.title).send

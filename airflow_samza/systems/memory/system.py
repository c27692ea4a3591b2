"""Topics in the memory of one process, for the test driver and tests: the log over a root and segments in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from airflow_samza.control.messages import encode
from airflow_samza.systems.filesystems.memory import MemoryFilesystem
from airflow_samza.systems.log.consumer import LogConsumer
from airflow_samza.systems.log.index import Control, LogIndex, Run
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.log.topic import Topic
from airflow_samza.systems.memory.segments import MemorySegments, MemorySegmentWriter
from airflow_samza.systems.memory.wire import WireForm
from airflow_samza.systems.system import (
    Envelope,
    MessageRun,
    StreamSpec,
    SystemBinding,
    SystemStreamPartition,
    UnreadableRun,
    is_unreadable,
    run_of,
)
from airflow_samza.systems.topic_rejections import no_column
from airflow_samza.systems.topic_rows import arrow_schema


class MemorySystem(LogSystem):
    """System of topics that live as long as this object."""

    kind = "memory"
    store: MemorySegments

    def __init__(self, name: str = "memory", binding: SystemBinding | None = None, root: str | None = None) -> None:
        super().__init__(name, binding or SystemBinding("memory"), filesystem=MemoryFilesystem())
        self.store = MemorySegments()

    def make(
        self,
        name: str,
        partitions: int,
        schema: str | None = None,
        owner: Sequence[str] = (),
        form: WireForm | None = None,
    ) -> Topic:
        """Make a topic, or return the one that is there; one with a form keeps the bytes of its messages."""
        topic = super().make(name, partitions, schema, owner)
        if form is not None:
            self.store.forms[name] = form
        return topic

    def consumer(self, stream: StreamSpec, slice: Mapping[str, Any] | None = None) -> MemoryConsumer:
        """Return a consumer that reads the topic as of the slice, or as it is now."""
        return MemoryConsumer(self._topic_of(stream), slice, self.store)

    def producer(self, stream: StreamSpec, writer: str) -> MemorySegmentWriter:
        """Return a producer that keeps its rows until they are published."""
        producer = super().producer(stream, writer)
        assert isinstance(producer, MemorySegmentWriter)
        return producer

    def sent_bytes(self, name: str) -> list[bytes] | None:
        """Return all that a topic keeps, in the wire form, partition by partition; None when it keeps columns."""
        index = LogIndex(self.topic(name))
        if self.store.wire(name, arrow_schema(index.schema)) is None:
            return None
        reader = self.store.readers(index.topic)
        sent: list[bytes] = []
        for partition in range(index.topic.partitions):
            for entry in index.entries(partition):
                if isinstance(entry, Control):
                    message = entry.message(index.topic, partition)
                    sent.append(encode(message))
                elif not is_unreadable(batch := reader.read(entry.segment, entry.batch)):
                    sent += batch.column(0).to_pylist()
        return sent


class MemoryConsumer(LogConsumer):
    """Consumer of a topic in memory, in which bytes and messages that cannot be read may lie."""

    def __init__(self, topic: Topic, slice: Mapping[str, Any] | None, store: MemorySegments) -> None:
        super().__init__(topic, slice)
        self._wire = store.wire(topic.name, self.schema)

    def _runs(
        self, ssp: SystemStreamPartition, entry: Run, start: int, end: int, columns: Sequence[str] | None
    ) -> Iterable[Envelope]:
        offset, batch = self._rows(entry, start, end, columns)
        if self._wire is None or is_unreadable(batch):
            runs: Iterable[Envelope] = (run_of(ssp, offset, batch),)
        else:
            runs = self._wire.envelopes(ssp, offset, batch)
        for run in runs:
            if columns is not None and isinstance(run, MessageRun) and not isinstance(run, UnreadableRun):
                run = replace(run, batch=_select(run.batch, columns, self.topic.name))
            yield run


def _select(batch: pa.RecordBatch, columns: Sequence[str], topic: str) -> pa.RecordBatch:
    missing = [name for name in columns if name not in batch.schema.names]
    if missing:
        raise no_column(topic, missing[0], batch.schema.names)
    return batch.select(list(columns))

"""Topics in the memory of one process, for the test driver and tests: the log over a root and segments in memory.

Segments are record batches, or the bytes of messages in the wire form, in which another system would send them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from airflow_samza.application.descriptors import StreamDescriptor
from airflow_samza.control.messages import encode
from airflow_samza.systems.dictionaries import decoded
from airflow_samza.systems.filesystems.memory import MemoryFilesystem
from airflow_samza.systems.log.consumer import LogConsumer
from airflow_samza.systems.log.index import Control, LogIndex, Run
from airflow_samza.systems.log.records import Segment
from airflow_samza.systems.log.segment_store import SegmentStore
from airflow_samza.systems.log.segments import SegmentReader, SegmentWriter
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.log.topic import Topic
from airflow_samza.systems.serdes.binding import bind_serde, with_schema_file
from airflow_samza.systems.serdes.wire import envelopes, user_bytes
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
from airflow_samza.systems.topic_rejections import places_of
from airflow_samza.systems.topic_rows import arrow_schema

_Segments = dict[str, list[pa.RecordBatch]]


@dataclass(frozen=True)
class WireForm:
    """Form of a topic's messages as bytes: its ``serde``, and whether a type byte precedes each (``in_band``).

    ``tolerant``: messages that cannot be read come as :class:`~airflow_samza.systems.system.UnreadableRun`.
    """

    serde: str
    in_band: bool = False
    tolerant: bool = False

    @classmethod
    def of(cls, stream: StreamDescriptor) -> WireForm | None:
        """Return the form that a stream's serde gives its messages; None where none is declared."""
        if stream.serde is None:
            return None
        module = stream.location.file if stream.location is not None else None
        return cls(with_schema_file(stream.serde, stream.stream_id, module), tolerant=stream.on_error is not None)


class Wire:
    """The wire form of one topic of these columns."""

    def __init__(self, form: WireForm, schema: pa.Schema, topic: str) -> None:
        self._form = form
        self._topic = topic
        self._serde = bind_serde(form.serde, schema, topic)

    def encoded(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch of messages as their bytes."""
        values = user_bytes(batch, self._serde, stream=self._topic, in_band=self._form.in_band)
        return pa.RecordBatch.from_arrays([values.cast(pa.binary())], ["value"])

    def envelopes(self, ssp: SystemStreamPartition, offset: int, batch: pa.RecordBatch) -> Iterator[Envelope]:
        """Yield the messages that a batch of bytes holds, from an offset on."""
        form = self._form
        yield from envelopes(ssp, offset, batch.column(0), self._serde, in_band=form.in_band, tolerant=form.tolerant)


class MemorySegments(SegmentStore):
    """Store of the topics of one system; those that have a form (``forms``, by topic) keep bytes."""

    def __init__(self) -> None:
        self.forms: dict[str, WireForm] = {}
        self._topics: dict[str, _Segments] = {}

    def wire(self, topic: str, schema: pa.Schema | None) -> Wire | None:
        """Return the wire form of a topic of these columns; None when it keeps columns."""
        form = self.forms.get(topic)
        return Wire(form, schema, topic) if form is not None and schema is not None else None

    def delete(self, topic: Topic) -> None:
        """Give the memory of a topic back."""
        self._topics.pop(topic.name, None)

    def writer(self, topic: Topic, name: str, schema: pa.Schema | None, *, durable: bool) -> MemorySegmentWriter:
        """Return a writer of one segment."""
        return MemorySegmentWriter(topic, name, schema, self)

    def readers(self, topic: Topic) -> MemorySegmentReader:
        """Return a reader of a topic's segments."""
        return MemorySegmentReader(self._segments(topic.name))

    def discard(self, topic: Topic, segment: str) -> None:
        """Forget a segment."""
        self._segments(topic.name).pop(segment, None)

    def keep(self, topic: str, segment: str, batches: list[pa.RecordBatch]) -> None:
        """Keep the batches of a segment."""
        self._segments(topic)[segment] = batches

    def _size(self, topic: Topic, segment: str) -> int:
        batches = self._segments(topic.name).get(segment)
        return -1 if batches is None else _bytes(batches)

    def _segments(self, topic: str) -> _Segments:
        return self._topics.setdefault(topic, {})


class MemorySegmentWriter(SegmentWriter):
    """Writer of one segment, whose batches are kept when it is finished."""

    takes_dictionaries = False

    def __init__(self, topic: Topic, name: str, schema: pa.Schema | None, store: MemorySegments) -> None:
        super().__init__(topic, name, schema)
        self._bound = 0  # nothing is gathered: a test pipes the batches that its application gets
        self._store = store
        self._batches: list[pa.RecordBatch] = []

    def write_as_it_is(self, partition: int, batch: pa.RecordBatch) -> None:
        """Append messages as a test has them: as bytes, or such that nobody can read them (``unreadable_batch``)."""
        self._split_block()
        self._flush()  # what came before stays before
        self._keep(partition, batch)

    def _write_batch(self, partition: int, batch: pa.RecordBatch) -> None:
        batch = decoded(self._encoded(batch))
        wire = self._store.wire(self._stream, self.schema)
        self._keep(partition, batch if wire is None else wire.encoded(batch))

    def _keep(self, partition: int, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)
        self._partitions.append(partition)
        self._rows.append(batch.num_rows)

    def _closed(self) -> Segment | None:
        if not self._batches:
            return None
        self._store.keep(self._stream, self._name, self._batches)
        none = (0,) * (len(self._batches) + 1)
        return Segment(self._name, _bytes(self._batches), tuple(self._partitions), tuple(self._rows), none, none)

    def _discard(self) -> None:
        self._batches = []


class MemorySegmentReader(SegmentReader):
    """Reader of the segments of a topic, whose batches come whole: bytes have no columns."""

    def __init__(self, segments: _Segments) -> None:
        self._segments = segments

    def read(self, segment: Segment, batch: int, columns: Sequence[str] | None = None) -> pa.RecordBatch:
        """Return one record batch."""
        return self._segments[segment.name][batch]


def _bytes(batches: Sequence[pa.RecordBatch]) -> int:
    return sum(batch.nbytes for batch in batches)


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
                places_of(run.batch.schema, columns, self.topic.name)  # one that is not there is an error
                run = replace(run, batch=run.batch.select(list(columns)))
            yield run

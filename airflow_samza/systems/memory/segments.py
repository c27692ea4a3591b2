"""Store of the segments of topics in memory: their record batches, or the bytes of their messages."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from airflow_samza.systems.dictionaries import decoded
from airflow_samza.systems.log.records import Segment
from airflow_samza.systems.log.segment_store import SegmentStore
from airflow_samza.systems.log.segments import SegmentReader, SegmentWriter
from airflow_samza.systems.log.topic import Topic
from airflow_samza.systems.memory.wire import Wire, WireForm

_Segments = dict[str, list["pa.RecordBatch"]]


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

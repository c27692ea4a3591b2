"""Stores of segments: where the messages of a topic lie, whose commits lie under the root.

A topic of the log has its segments beside its commits. Another system can have the log's bookkeeping (commits, offsets,
sections, generations) for messages that lie with itself: it brings a store, and the topic's record says so
(:attr:`Topic.messages`). The log, topics in memory and runs' own topics on Kafka bring one each.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_samza.control.messages import ControlMessage
from airflow_samza.errors import TopicError
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.log.records import Segment
from airflow_samza.systems.log.topic import Topic

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_samza.systems.log.segments import SegmentReader, SegmentWriter

CLEAR_ITS_WRITER = "Clear the stage that wrote it: nothing of this epoch has been published."


class SegmentStore:
    """Place of the segments of topics: the log's own, files beside the commits, which go with the topic's folder.

    A store of another place says so in each of its methods.
    """

    def holds(self, topic: Topic) -> bool:
        """Return whether the messages of a topic lie here."""
        return topic.messages is None

    def check(self) -> None:
        """Reject, soon, a place that cannot be asked at all; who has read the record can read the folder."""

    def make(self, name: str, partitions: int) -> Mapping[str, Any] | None:
        """Make the place of a topic's messages, before its record; return what the record keeps of it.

        A folder is made with its first file.
        """
        return None

    def is_there(self, topic: Topic) -> bool:
        """Return whether the place of a topic's messages is still the one that was made: the folder has the record."""
        return True

    def delete(self, topic: Topic) -> None:
        """Delete the place of a topic's messages, whose record is gone, and the folder with it."""

    def sweep(self, filesystem: Filesystem, before: float, *, dry: bool) -> Iterable[str]:
        """Delete places that were made before a time (s since 1970) and have no record; yield the topics' names."""
        return ()

    def writer(self, topic: Topic, name: str, schema: pa.Schema | None, *, durable: bool) -> SegmentWriter:
        """Return a writer of one segment."""
        from airflow_samza.systems.log.segments import SegmentWriter

        return SegmentWriter(topic, name, schema, durable=durable)

    def readers(self, topic: Topic) -> SegmentReader:
        """Return a reader of a topic's segments."""
        from airflow_samza.systems.log.segments import SegmentReaders

        return SegmentReaders(topic)

    def discard(self, topic: Topic, segment: str) -> None:
        """Delete a segment that was staged and will never be committed, where it can be deleted."""
        topic.filesystem.delete(topic.segment_path(segment))

    def as_committed(self, segments: Sequence[Segment]) -> list[Segment]:
        """Return what tasks have staged as a commit names it, in the order of messages: one task after the other."""
        return list(segments)

    def before_commit(self, topic: Topic, segments: Sequence[Segment], control: Sequence[ControlMessage]) -> None:
        """Reject segments that are missing, or have another size than was written, before a commit names them."""
        # A commit must never name what is not there: readers would find out only later.
        for segment in segments:
            path = topic.segment_path(segment.name)
            size = self._size(topic, segment.name)
            if size != segment.bytes:
                raise TopicError(
                    f"The staged segment {topic.filesystem.location(path)} "
                    + ("is missing." if size < 0 else f"has {size} bytes, not the {segment.bytes} that were written."),
                    hint=CLEAR_ITS_WRITER,
                    stream=topic.name,
                    path=topic.filesystem.location(path),
                )

    def _size(self, topic: Topic, segment: str) -> int:
        """Return the bytes of a segment; -1 when it is missing."""
        try:
            return topic.filesystem.size(topic.segment_path(segment))
        except FileNotFoundError:
            return -1


FILES = SegmentStore()


def store_of(topic: Topic) -> SegmentStore:
    """Return the store of a topic's segments; reject a topic whose messages lie in another one."""
    store: SegmentStore = topic.store if topic.store is not None else FILES
    if not store.holds(topic):
        raise elsewhere(topic)
    return store


def with_store(topic: Topic, store: SegmentStore) -> Topic:
    """Return the topic with the store of its segments."""
    return dataclasses.replace(topic, store=store)


def elsewhere(topic: Topic) -> TopicError:
    """Return the error of a topic whose messages do not lie where they are looked for."""
    if topic.messages is None:
        where, hint = "lie under the root", "Leave --of out, or name the log that has the topic."
    else:
        where = f"lie in the topic {topic.messages.get('topic')!r} of the system {topic.messages.get('system')!r}"
        hint = f"Ask that system: --of {topic.messages.get('system')}"
    return TopicError(
        f"The messages of {topic.name!r} {where}, not in the system {topic.system!r}.", hint=hint, stream=topic.name
    )

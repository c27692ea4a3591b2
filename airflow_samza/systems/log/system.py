"""The log: topics as folders of immutable segment files and commit records, the embedded default.

A producing task writes one segment per epoch, and nobody sees it until the epoch is published as one commit record.
Roots have it as their default system; memory, Kafka and Spark build on it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_samza.errors import ConfigError, TopicError
from airflow_samza.systems.capabilities import Superseded, Written, rows_missing
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.log.commits import load_tail, publish_segments, stage
from airflow_samza.systems.log.consumer import LogConsumer
from airflow_samza.systems.log.index import Control, LogIndex, superseded_since, written_ends
from airflow_samza.systems.log.maintenance import ExpiringLogTopic, finish_in_place
from airflow_samza.systems.log.records import Segment
from airflow_samza.systems.log.segment_store import FILES, SegmentStore, store_of, with_store
from airflow_samza.systems.log.topic import (
    Topic,
    cached_topic,
    check_owner,
    create_topic,
    find_topic,
    list_topics,
    open_topic,
    reject_other,
    topic_directory,
)
from airflow_samza.systems.output_slots import OutputSlot, SlotWriter
from airflow_samza.systems.producers_seen import ProducersSeen
from airflow_samza.systems.sections import Section, is_section
from airflow_samza.systems.system import Publication, StreamMetadata, StreamSpec, SystemBinding
from airflow_samza.systems.topic_rejections import first_expired

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_samza.systems.log.segments import SegmentWriter


_OWN_OPTIONS = frozenset({"root", "durable"})
"""Options of the log; the others are its filesystem's."""

TOPIC = "topic"
"""Under what a slice names the identity of the topic that it is of."""


class LogSystem:
    """A log under one root. ``filesystem`` is given by tests; else the binding's option ``root`` names it.

    The option ``durable`` (default false) lets the segments of producers survive a power failure at the cost of waiting
    for the disk; commit records and ``append`` always do. The other options are the identity towards the
    root's storage (:func:`~airflow_samza.systems.filesystems.opening.open_filesystem`).
    """

    kind = "log"
    store: SegmentStore = FILES

    def __init__(
        self, name: str, binding: SystemBinding, root: str | None = None, filesystem: Filesystem | None = None
    ) -> None:
        self.name = name
        self.binding = binding
        if filesystem is None:
            where = binding.options.get("root") or root
            if not where:
                raise ConfigError(
                    f"The system {name!r} of kind log has no root.",
                    hint="Set the option root of the system, or the root of the samza connection.",
                    key=f"systems.{name}.root",
                    value="",
                )
            options = {name: value for name, value in binding.options.items() if name not in _OWN_OPTIONS}
            filesystem = open_filesystem(str(where), options)
        self.filesystem = filesystem
        # What a run stages can be made again from its input: by default only commit records wait for the disk
        # (decision 9).
        self.durable = str(binding.options.get("durable", "false")).lower() == "true"

    def topic(self, name: str) -> Topic:
        """Return the topic of this name; one that is missing is a TopicError."""
        return with_store(open_topic(self.filesystem, self.name, name), self.store)

    def make(self, name: str, partitions: int, schema: str | None = None, owner: Sequence[str] = ()) -> Topic:
        """Make a topic, or return the one that is there; another partition count, schema or owner is rejected."""
        topic = create_topic(self.filesystem, self.name, name, partitions, schema, owner, self.store.make)
        return with_store(topic, self.store)

    def _topic_of(self, stream: StreamSpec) -> Topic:
        topic = cached_topic(self.filesystem, self.name, stream.name)
        check_owner(topic.name, topic.owner, stream.owner)
        return with_store(topic, self.store)

    def topics(self) -> list[str]:
        """Return the names of all topics."""
        return list(list_topics(self.filesystem))

    def creation_time(self, name: str) -> int | None:
        """Return when the topic was made (ms since 1970): a topic that was deleted and made anew has another time.

        None: there is none.
        """
        topic = find_topic(self.filesystem, self.name, name)
        return topic.created if topic is not None else None

    def location(self, stream: StreamSpec) -> str:
        """Return the place of the topic: the same text for all names under which this log is bound."""
        return self.filesystem.location(topic_directory(stream.name))

    def written_ends(self, stream: StreamSpec) -> dict[str, tuple[int, ...]]:
        """Return by producer where its last rows end in each partition, of rows that readers still see."""
        topic = find_topic(self.filesystem, self.name, stream.name)
        return written_ends(topic) if topic is not None else {}

    def expiring(self, name: str) -> ExpiringLogTopic | None:
        """Return the topic of this name, to be marked or deleted; None when there is none."""
        topic = find_topic(self.filesystem, self.name, name)
        if topic is None and not self.filesystem.renames_folders:
            finish_in_place(Topic(self.filesystem, self.name, name, 1, None))
        return ExpiringLogTopic(with_store(topic, self.store)) if topic is not None else None

    def discard(self, stream: StreamSpec, staged: Mapping[str, Any]) -> None:
        """Delete a segment that was staged and will never be published."""
        if staged.get("segment"):
            topic = self.topic(stream.name)
            store_of(topic).discard(topic, staged["segment"])

    def gone(self, stream: StreamSpec, slice: Mapping[str, Any]) -> str | None:
        """Return the first messages of a range that have expired, or were replaced."""
        index, offsets = LogIndex(self._topic_of(stream)), slice.get("offsets") or ()
        return first_expired(offsets, [index.oldest(partition) for partition in range(len(offsets))])

    def written_rows(self, stream: StreamSpec, written: Written) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a segment that a task has staged, and that may be published since."""
        from airflow_samza.systems.dictionaries import decoded

        if not written.described.get("segment"):
            return
        topic = self.topic(stream.name)
        segment = Segment.from_json(written.described)
        reader = store_of(topic).readers(topic)
        try:
            for place in range(len(segment.rows)):
                yield decoded(reader.read(segment, place))
        except FileNotFoundError:
            raise rows_missing(stream.name, self.filesystem.location(topic.segment_path(segment.name))) from None
        finally:
            reader.close()

    def metadata(self, streams: Sequence[StreamSpec]) -> dict[str, StreamMetadata]:
        """Return partition count, oldest and latest offset per partition, and schema; missing topics are left out."""
        metadata = {}
        for stream in streams:
            topic = find_topic(self.filesystem, self.name, stream.name)
            if topic is not None:
                index = LogIndex(topic)
                oldest = tuple(index.oldest(partition) for partition in range(topic.partitions))
                metadata[stream.name] = StreamMetadata(topic.partitions, oldest, index.head, index.schema)
        return metadata

    def create(self, streams: Sequence[StreamSpec]) -> None:
        """Make the topics that are missing; one with another partition count, schema or owner is rejected."""
        for stream in streams:
            if stream.partitions is None:
                raise TopicError(
                    f"The topic {stream.name!r} cannot be made without a partition count.",
                    hint="Declare partitions= on the stream.",
                    stream=stream.name,
                )
            self.make(stream.name, stream.partitions, stream.schema, stream.owner)

    def slice(self, stream: StreamSpec) -> dict[str, Any]:
        """Return the input range of a run, with the identity of the topic (``topic``), where it has one.

        ``offsets`` are [from, to) per partition as of ``commit``, the number of commits taken into account.
        """
        index = LogIndex(self._topic_of(stream))
        partitions = index.topic.partitions
        offsets = [[index.oldest(partition), index.head[partition]] for partition in range(partitions)]
        range_ = {"kind": self.kind, "partitions": partitions, "offsets": offsets, "commit": index.number}
        return {**range_, TOPIC: index.topic.identity} if index.topic.identity else range_

    def has_news(self, stream: StreamSpec, slice: Mapping[str, Any]) -> bool:
        """Return whether anything was committed after what a slice covers; asks for one file.

        A topic that was made anew is rejected.
        """
        topic = self._topic_of(stream)
        reject_other(topic, slice.get(TOPIC))
        return self.filesystem.exists(topic.commit_path(int(slice["commit"])))

    def identity(self, stream: StreamSpec) -> str | None:
        """Return what tells a topic from others that had its name; None when there is no topic."""
        topic = find_topic(self.filesystem, self.name, stream.name)
        return topic.identity if topic is not None and self.store.is_there(topic) else None

    def standing(self, stream: StreamSpec, producer: str) -> str | None:
        """Return the newest generation of a producer that has published to a topic; None when it never has."""
        return self._seen(stream).generations().get(producer)

    def lost(self, stream: StreamSpec, producer: str, generation: str) -> str | None:
        """Return which segment of a generation of a topic is missing; None: all that have not expired are there."""
        topic = find_topic(self.filesystem, self.name, stream.name)
        if topic is None or self._seen(stream).generations().get(producer) != generation:
            return "the topic has no commit of it"
        if self.store is not FILES:
            return None
        present = set(self.filesystem.list(f"{topic.directory}/segments"))
        mine = (producer, generation)
        commits = (one for one in LogIndex(topic).live_commits() if (one.producer, one.generation) == mine)
        paths = (topic.segment_path(segment.name) for one in commits for segment in one.segments)
        path = next((path for path in paths if path.rpartition("/")[2] not in present), None)
        return None if path is None else f"the file {self.filesystem.location(path)} is missing"

    def superseded(
        self, stream: StreamSpec, slice: Mapping[str, Any], first: Sequence[int], read: Sequence[int]
    ) -> list[Superseded]:
        """Return what was read up to the offsets ``read``, as of a slice, and was superseded since.

        ``first`` is where the reading began.
        """
        topic = self._topic_of(stream)
        reject_other(topic, slice.get(TOPIC))
        return superseded_since(topic, int(slice["commit"]), first, read)

    def sections(self, stream: StreamSpec, slice: Mapping[str, Any] | None = None) -> list[Section]:
        """Return what each run has written of a topic that applications share, as of a slice or now, oldest first."""
        index = LogIndex(self._topic_of(stream), None if slice is None else int(slice["commit"]) - 1)
        sections: dict[tuple[str, str], Section] = {}
        for partition in range(index.topic.partitions):
            for owner, entries in index.owned_slice(partition, 0, index.head[partition]):
                if owner is None or not is_section(owner[0]) or not entries:
                    continue
                control = [entry.message(index.topic, partition) for entry in entries if isinstance(entry, Control)]
                sections.setdefault(owner, Section(*owner)).take(partition, entries[0].offset, entries[-1].end, control)
        for section in sections.values():
            section.replaced = index.seen.runs_replaced_by(section.run)
        return list(sections.values())

    def consumer(self, stream: StreamSpec, slice: Mapping[str, Any] | None = None) -> LogConsumer:
        """Return a consumer that reads the topic as of the slice, or as it is now."""
        return LogConsumer(self._topic_of(stream), slice)

    def producer(self, stream: StreamSpec, writer: str) -> SegmentWriter:
        """Return a producer that stages the output of one try at a task in one segment."""
        return stage(self._topic_of(stream), writer, stream.schema, durable=self.durable)

    def check_writable(self, stream: StreamSpec) -> None:
        """Write a small file beside the topic and delete it again."""
        topic = self._topic_of(stream)
        probe = f"{topic.directory}/segments/.probe-{uuid.uuid4().hex}"
        self.filesystem.put(probe, b"")
        self.filesystem.delete(probe)

    def publish(self, stream: StreamSpec, publication: Publication) -> dict[str, Any]:
        """Add the staged segments as one commit.

        Publishing the same again changes nothing and returns the same facts.
        """
        topic = self._topic_of(stream)
        return publish_segments(
            topic,
            publication.producer,
            publication.generation,
            publication.epoch,
            [publication.staged[task] for task in sorted(publication.staged)],
            publication.control,
            slot=publication.slot,
            root=publication.root,
        )

    def reject_namesake(self, stream: StreamSpec, producer: str, root: str) -> None:
        """Reject a producer if one of its name, under another root, has published to a topic."""
        self._seen(stream).reject_namesake(stream.name, producer, root)

    def slot_writers(self, stream: StreamSpec, slot: OutputSlot) -> list[SlotWriter]:
        """Return who has written the slots that meet one, of what readers see."""
        return self._seen(stream).writers(slot)

    def outside_slots(self, stream: StreamSpec, producers: Iterable[str]) -> list[str]:
        """Return those of some producers whose messages readers see, and who wrote them as no slot."""
        outside = self._seen(stream).turns.outside()
        return [producer for producer in producers if producer in outside] if outside else []

    def successor(self, stream: StreamSpec, producer: str) -> str | None:
        """Return the producer of the run that has replaced what a producer wrote; None: it stands, or never wrote."""
        successor = self._seen(stream).turns.successor(producer)
        return successor[1].producer if successor is not None else None

    def _seen(self, stream: StreamSpec) -> ProducersSeen:
        """Return the producers of a topic; none of one that is not there."""
        topic = find_topic(self.filesystem, self.name, stream.name)
        return load_tail(topic).seen if topic is not None else ProducersSeen()

    def append(
        self,
        name: str,
        rows: pa.Table | pa.RecordBatch | Iterable[pa.RecordBatch],
        *,
        key: Sequence[str] = (),
        partitions: int | None = None,
        schema: str | None = None,
    ) -> dict[str, Any]:
        """Append rows to a topic, all or nothing; make the topic when it is missing and ``partitions`` is given.

        With ``key`` each row goes to its key's partition; without, all go to partition 0 of a topic that has just one.
        For notebooks, the command line and ``write.format("samza")``: a run's own output goes through a producer and
        ``publish``.
        """
        exists = find_topic(self.filesystem, self.name, name) is not None
        topic = self.topic(name) if exists or partitions is None else self.make(name, partitions, schema)
        if not key and topic.partitions > 1:
            raise TopicError(
                f"Rows for {name!r}, which has {topic.partitions} partitions, need a key.",
                hint="Give the key columns (key=), by which the rows find their partition.",
                stream=name,
            )
        unique = f"append-{uuid.uuid4().hex}"
        producer = stage(topic, unique, schema, durable=True)
        try:
            for batch in _batches(rows):
                if key:
                    producer.write_keyed(batch, key)
                else:
                    producer.write(0, batch)
            staged = producer.finish()
        except BaseException:
            producer.abort()
            raise
        return publish_segments(topic, unique, "1", 0, [staged], (), once=True)


def _batches(rows: pa.Table | pa.RecordBatch | Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    import pyarrow as pa

    if isinstance(rows, pa.Table):
        return list(rows.to_batches()) or [pa.RecordBatch.from_pylist([], schema=rows.schema)]
    return [rows] if isinstance(rows, pa.RecordBatch) else rows

"""Topics in the memory of one process, with the rules of the log, for the test driver and tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_samza.errors import TopicError
from airflow_samza.schema import Schema
from airflow_samza.systems.memory.consumer import MemoryConsumer
from airflow_samza.systems.memory.producer import MemoryProducer
from airflow_samza.systems.memory.topic import MemoryTopic
from airflow_samza.systems.memory.wire import WireForm
from airflow_samza.systems.output_slots import OutputSlot, SlotWriter
from airflow_samza.systems.producers_seen import ProducersSeen
from airflow_samza.systems.sections import Section, is_section
from airflow_samza.systems.system import (
    Publication,
    StreamMetadata,
    StreamSpec,
    SystemBinding,
)
from airflow_samza.systems.topic_rejections import (
    check_count,
    check_keyed,
    check_owner,
    check_same_topic,
    declared_partitions,
)
from airflow_samza.systems.topic_rows import arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa


class MemorySystem:
    """System of topics that live as long as this object."""

    kind = "memory"

    def __init__(self, name: str = "memory", binding: SystemBinding | None = None, root: str | None = None) -> None:
        self.name = name
        self.binding = binding or SystemBinding("memory")
        self._topics: dict[str, MemoryTopic] = {}
        self.admin = MemoryAdmin(self)

    def topics(self) -> list[str]:
        """Return the names of all topics."""
        return sorted(self._topics)

    def find(self, name: str) -> MemoryTopic | None:
        """Return the topic of this name, or None."""
        return self._topics.get(name)

    def topic(self, name: str) -> MemoryTopic:
        """Return the topic of this name; one that is missing is a TopicError."""
        if name not in self._topics:
            raise TopicError(
                f"There is no topic {name!r} in system {self.name!r}.",
                hint=f"It has {', '.join(self.topics()) or 'no topics yet'}.",
                stream=name,
                system=self.name,
            )
        return self._topics[name]

    def _topic_of(self, stream: StreamSpec) -> MemoryTopic:
        topic = self.topic(stream.name)
        check_owner(topic.name, topic.owner, stream.owner)
        return topic

    def create(
        self,
        name: str,
        partitions: int,
        schema: str | None = None,
        owner: tuple[str, ...] = (),
        serde: WireForm | None = None,
    ) -> None:
        """Make a topic when it is missing; one with another partition count, schema or owner is an error.

        With a serde it keeps bytes.
        """
        check_count(name, partitions)
        there = self._topics.get(name)
        if there is None:
            self._topics[name] = MemoryTopic(
                name, partitions, arrow_schema(schema), [0] * partitions, owner=owner, serde=serde
            )
        else:
            check_owner(name, there.owner, owner)
            check_same_topic(
                self.name,
                name,
                partitions=there.partitions,
                schema=None if there.schema is None else Schema.of(there.schema).ddl(),
                wanted_partitions=partitions,
                wanted_schema=None if schema is None else Schema.of(schema).ddl(),
            )

    def slice(self, stream: StreamSpec) -> dict[str, Any]:
        """Return the input range of a run.

        ``offsets`` [from, to) per partition as of ``commit``, the number of commits taken into account.
        """
        topic = self._topic_of(stream)
        metadata = self.admin.metadata([stream])[stream.name]
        offsets = [list(pair) for pair in zip(metadata.oldest, metadata.head, strict=True)]
        return {"kind": self.kind, "partitions": topic.partitions, "offsets": offsets, "commit": len(topic.commits)}

    def sections(self, stream: StreamSpec) -> list[Section]:
        """Return what each run has written of a topic that applications share, oldest first."""
        topic = self._topic_of(stream)
        found: dict[tuple[str, str], Section] = {}
        for commit in topic.live():
            if not commit.once and is_section(commit.producer):
                section = found.setdefault(
                    (commit.producer, commit.generation), Section(commit.producer, commit.generation)
                )
                for partition in range(topic.partitions):
                    section.take(partition, commit.base[partition], commit.end(partition), commit.control)
        for section in found.values():
            section.replaced = topic.seen.runs_replaced_by(section.run)
        return list(found.values())

    def consumer(self, stream: StreamSpec, slice: Mapping[str, Any] | None = None) -> MemoryConsumer:
        """Return a consumer that reads the topic as of the slice, or as it is now."""
        return MemoryConsumer(self._topic_of(stream), slice)

    def producer(self, stream: StreamSpec, attempt: str) -> MemoryProducer:
        """Return a producer that keeps its rows until they are published."""
        return MemoryProducer(self._topic_of(stream), attempt, stream.schema)

    def check_writable(self, stream: StreamSpec) -> None:
        """Reject a topic that is missing; memory can always be written."""
        self._topic_of(stream)

    def publish(self, stream: StreamSpec, publication: Publication) -> dict[str, Any]:
        """Make staged rows visible, with the rules of the log."""
        topic = self._topic_of(stream)
        producer, generation, epoch = publication[:3]
        staged = [publication.staged[task] for task in sorted(publication.staged)]
        return topic.commit(producer, generation, epoch, staged, publication.control, slot=publication.slot)

    def slot_writers(self, stream: StreamSpec, slot: OutputSlot) -> list[SlotWriter]:
        """Return who has written the slots that meet one, of what readers see."""
        return self._seen(stream).writers(slot)

    def outside_slots(self, stream: StreamSpec, producers: Iterable[str]) -> list[str]:
        """Return those of some producers whose messages readers see, and who wrote them as no slot."""
        return self._seen(stream).outside_slots(producers)

    def successor(self, stream: StreamSpec, producer: str) -> str | None:
        """Return the producer of the run that has replaced what a producer wrote; None: it stands, or never wrote."""
        seen = self._seen(stream)
        found = seen.successor(producer, seen.generations().get(producer, ""))
        return found[0] if found is not None else None

    def _seen(self, stream: StreamSpec) -> ProducersSeen:
        topic = self.find(stream.name)
        return topic.seen if topic is not None else ProducersSeen()

    def append(
        self,
        name: str,
        rows: pa.Table | pa.RecordBatch | Iterable[pa.RecordBatch],
        *,
        key: Sequence[str] = (),
        partitions: int | None = None,
        schema: str | None = None,
    ) -> dict[str, Any]:
        """Append rows, each to its key's partition; make the topic when ``partitions`` says how many."""
        import pyarrow as pa

        if name not in self._topics and partitions is not None:
            self.create(name, partitions, schema)
        topic = self.topic(name)
        check_keyed(name, topic.partitions, bool(key))
        producer = MemoryProducer(topic, f"append-{len(topic.commits)}-{id(rows)}", schema)
        for batch in (
            rows.to_batches() if isinstance(rows, pa.Table) else [rows] if isinstance(rows, pa.RecordBatch) else rows
        ):
            if key:
                producer.write_keyed(batch, key)
            else:
                producer.write(0, batch)
        return topic.commit("append", "1", len(topic.commits), [producer.finish()], (), once=True)


class MemoryAdmin:
    """Admin of topics."""

    def __init__(self, system: MemorySystem) -> None:
        self._system = system

    def metadata(self, streams: Sequence[StreamSpec]) -> dict[str, StreamMetadata]:
        """Return partition count, oldest and latest offset per partition, and schema; missing topics are left out."""
        found = {}
        for stream in streams:
            topic = self._system.find(stream.name)
            if topic is None:
                continue
            live = topic.live()
            oldest = [
                next((c.base[partition] for c in live if c.end(partition) > c.base[partition]), topic.next[partition])
                for partition in range(topic.partitions)
            ]
            schema = None if topic.schema is None else Schema.of(topic.schema).ddl()
            found[stream.name] = StreamMetadata(topic.partitions, tuple(oldest), tuple(topic.next), schema)
        return found

    def create(self, streams: Sequence[StreamSpec]) -> None:
        """Make the topics that are missing; one with another partition count, schema or owner is rejected."""
        for stream in streams:
            self._system.create(stream.name, declared_partitions(stream), stream.schema, stream.owner)

"""The system ``kafka``: topics of brokers, read by input ranges, and published to when a commit has decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from airflow_samza.systems.capabilities import Compaction, Delivery, ExpiringTopic
from airflow_samza.systems.kafka.access import access_of
from airflow_samza.systems.kafka.access_check import (
    PATIENCE as CHECK_PATIENCE,
    check_brokers,
    check_group,
    check_readable,
)
from airflow_samza.systems.kafka.brokers import Brokers
from airflow_samza.systems.kafka.column_reader import ColumnReader
from airflow_samza.systems.kafka.columns import RAW, MessageColumns, browsed, group_of
from airflow_samza.systems.kafka.failures import recreated
from airflow_samza.systems.kafka.group_offsets import GroupCommitter
from airflow_samza.systems.kafka.input_range import fix_range, missing_messages, without_expired
from airflow_samza.systems.kafka.output import KafkaProducer, OutputOptions
from airflow_samza.systems.kafka.outputs import KafkaOutputs
from airflow_samza.systems.kafka.own_topics.store import OwnTopics, is_own
from airflow_samza.systems.kafka.reading import KafkaConsumer
from airflow_samza.systems.log.segments import SegmentWriter
from airflow_samza.systems.serdes.serde import Serde
from airflow_samza.systems.system import (
    Publication,
    StreamMetadata,
    StreamSpec,
    SystemBinding,
    SystemConsumer,
)

PATIENCE_SECONDS = 180.0
"""Time for which brokers may be away, or silent, before a plan or a task gives up."""


class KafkaSystem(KafkaOutputs):
    """System of topics of Kafka. The options of its binding are settings of librdkafka (``bootstrap.servers``, …)."""

    kind = "kafka"

    def __init__(self, name: str, binding: SystemBinding, root: str | None = None) -> None:
        self.name = name
        self.binding = binding
        super().__init__(Brokers(access_of(name, binding), PATIENCE_SECONDS), binding.options, root)
        self._groups = GroupCommitter(self.brokers)

    @cached_property
    def own_topics(self) -> OwnTopics:
        """The topics between stages."""
        return OwnTopics(self.brokers, self._root)

    def wait_at_most(self, seconds: float) -> None:
        """Give up brokers that do not answer a question for so long."""
        self.brokers.patience = seconds

    def browsed(self, stream: StreamSpec) -> StreamSpec:
        """Return a stream of a run, read or written, as an input with all its messages."""
        return stream if is_own(stream) else browsed(stream)

    def value_serde(self, stream: StreamSpec) -> Serde:
        """Return the serde of a stream's values, for the columns inside of them."""
        if stream.written:
            return super().value_serde(stream)
        return MessageColumns.of(stream).value_serde(self.name, self.binding.options)

    def metadata(self, streams: Sequence[StreamSpec]) -> dict[str, StreamMetadata]:
        """Return partition counts, offsets, and Kafka's own columns where none are declared.

        Missing topics are left out. Brokers that let nobody in, and topics that may not be read, are rejected.
        """
        own = [stream for stream in streams if is_own(stream)]
        if own:
            others = [stream for stream in streams if not is_own(stream)]
            return {**self.own_topics.metadata(own), **(self.metadata(others) if others else {})}
        patience = min(CHECK_PATIENCE, self.brokers.patience)
        check_brokers(self.brokers.access, patience)
        check_readable(self.brokers.access, [stream.name for stream in streams if not stream.written], patience)
        topics = self.brokers.find_all([stream.name for stream in streams])
        metadata = {}
        for stream in streams:
            topic = topics.get(stream.name)
            if topic is not None:
                oldest, head = self.brokers.oldest(topic), self.brokers.latest_stable(topic)
                metadata[stream.name] = StreamMetadata(
                    topic.partitions, tuple(oldest), tuple(head), stream.schema if stream.schema is not None else RAW
                )
        return metadata

    def slice(self, stream: StreamSpec) -> dict[str, Any]:
        """Return the input range of a run: ``offsets`` [from, to) per partition of the ``topic`` with this identity.

        ``times`` are the bounds of the data interval, where the range is one of time.
        """
        if is_own(stream):
            return self.own_topics.slice(stream)
        columns = MessageColumns.of(stream)
        ColumnReader.of(columns, None, self.name, self.binding.options)  # its types and serde fit
        if stream.interval is not None:
            columns.check_sliced(stream.timestamp, self.name)
        return fix_range(self.brokers, stream)

    def unexpired(self, stream: StreamSpec, slice: Mapping[str, Any]) -> dict[str, Any]:
        """Return a range without what retention has deleted, which ``on_expired="skip"`` allows; else reject it."""
        return without_expired(self.brokers, stream, slice)

    def gone(self, stream: StreamSpec, slice: Mapping[str, Any]) -> str | None:
        """Return the first messages of a range that retention has deleted, also where ``on_expired`` is ``skip``."""
        return self.own_topics.gone(stream, slice) if is_own(stream) else missing_messages(self.brokers, stream, slice)

    def describe_reading(self, stream: StreamSpec) -> str | None:
        """Return the group to which offsets are committed, for the plan; reject one that may not be written."""
        group = group_of(stream)
        if group is None:
            return None
        check_group(self.brokers.access, group)
        return f"what is read is committed to the consumer group {group!r}, for others to see"

    def tell_read(self, stream: StreamSpec, offsets: Mapping[int, int]) -> None:
        """Commit offsets to the stream's group, where it names one; a failure is a warning in the log."""
        group = group_of(stream)
        if group is not None:
            self._groups.tell(group, stream.name, offsets)

    def has_news(self, stream: StreamSpec, slice: Mapping[str, Any]) -> bool:
        """Return whether messages came behind a range; a topic that was created again is rejected."""
        if is_own(stream):
            return self.own_topics.has_news(stream, slice)
        topic = self.brokers.topic(stream.name)
        if slice.get("topic") and topic.identity != slice["topic"]:
            raise recreated(stream.name, self.name)
        if topic.partitions != int(slice["partitions"]):
            return True  # the next range says so
        ends = [int(end) for _, end in slice["offsets"]]
        return any(now > end for now, end in zip(self.brokers.latest_stable(topic), ends, strict=True))

    def location(self, stream: StreamSpec) -> str:
        """Return the place of a topic: the addresses of its brokers, sorted, and its name."""
        addresses = sorted(address.strip() for address in self.brokers.access.addresses.split(","))
        return f"{','.join(addresses)}/{stream.name}"

    def identity(self, stream: StreamSpec) -> str | None:
        """Return what tells a topic from others that had its name; None when there is no topic."""
        if is_own(stream):
            return self.own_topics.identity(stream)
        if stream.through is not None:
            return self.staging_identity(stream)
        topic = self.brokers.find(stream.name)
        return topic.identity if topic is not None else None

    def compaction(self, stream: StreamSpec) -> Compaction | None:
        """Return how the topic of a stream is compacted; None: it is not."""
        return self.brokers.compaction(stream.name)

    def consumer(self, stream: StreamSpec, slice: Mapping[str, Any] | None = None) -> SystemConsumer:
        """Return a consumer of an input range; without one, of what there is now."""
        if is_own(stream):
            return self.own_topics.consumer(stream, slice)
        range_ = slice if slice is not None else self.slice(stream)
        return KafkaConsumer(self.brokers, stream, range_, self.binding.options)

    def create(self, streams: Sequence[StreamSpec]) -> None:
        """Make the topics between stages and of outputs that are missing, and where messages wait for the commit."""
        self.own_topics.create([stream for stream in streams if is_own(stream)])
        super().create([stream for stream in streams if not is_own(stream)])

    def producer(self, stream: StreamSpec, writer: str) -> SegmentWriter | KafkaProducer:
        """Return a producer: of messages between stages, or one that stages an output's under the root."""
        return self.own_topics.producer(stream, writer) if is_own(stream) else super().producer(stream, writer)

    def check_writable(self, stream: StreamSpec) -> None:
        """Reject columns that cannot be messages, and a user who may not publish."""
        if not is_own(stream):
            super().check_writable(stream)

    def delivery(self, stream: StreamSpec) -> Delivery:
        """Return the delivery of an output, as its option says."""
        return OutputOptions.of(stream).delivery

    def publish(self, stream: StreamSpec, publication: Publication) -> dict[str, Any]:
        """Publish what an epoch has staged: each message once, whoever died on the way."""
        return self.own_topics.publish(stream, publication) if is_own(stream) else super().publish(stream, publication)

    def lost(self, stream: StreamSpec, producer: str, generation: str) -> str | None:
        """Return that the topic or the record of its publications is missing; how long messages stay is the topic's."""
        if is_own(stream):
            return self.own_topics.lost(stream, producer, generation)
        if self.brokers.find(stream.name) is None:
            return "the topic is deleted"
        return None if self.standing(stream, producer) is not None else "nobody has published it"

    def discard(self, stream: StreamSpec, staged: Mapping[str, Any]) -> None:
        """Delete what a producer staged and nobody will publish."""
        discard = self.own_topics.discard if is_own(stream) else super().discard
        discard(stream, staged)

    def expiring(self, name: str) -> ExpiringTopic | None:
        """Return a topic of a run: one between stages, or one under the root, in which messages wait."""
        own = self.own_topics.expiring(name)
        return own if own is not None else self.log.expiring(name)

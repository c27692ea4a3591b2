"""Topics of a real Kafka for tests: made, filled and emptied by the client itself."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import (
    AclOperation,
    AdminClient,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from airflow_samza.systems.kafka.system import KafkaSystem
from airflow_samza.systems.system import (
    ControlEnvelope,
    Envelope,
    MessageRun,
    StreamSpec,
    SystemBinding,
    SystemStreamPartition,
)
from tests.support.kafka_users import permit
from tests.support.waiting import until

_SECONDS = 300.0
READ_COMMITTED, READ_UNCOMMITTED = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED


@dataclass(frozen=True)
class Sent:
    """A message as a test sends it; ``at`` is its time (ms since 1970)."""

    value: bytes | str | None = b"{}"
    key: bytes | str | None = None
    at: int | None = None
    partition: int = 0
    headers: Sequence[tuple[str, bytes | None]] | None = None

    def to(self, producer: Producer, topic: str) -> None:
        more: dict[str, Any] = {"timestamp": self.at} if self.at is not None else {}
        if self.headers is not None:
            more["headers"] = list(self.headers)
        producer.produce(topic, self.value, self.key, partition=self.partition, **more)


def numbered(numbers: Iterable[int], partition: int = 0) -> list[Sent]:
    """Messages with an ``id``, keyed by it."""
    return [Sent(f'{{"id":{number}}}', str(number), partition=partition) for number in numbers]


@dataclass
class Topics:
    """The topics of a test at a broker; their names are its own."""

    address: str
    unique: str = field(default_factory=lambda: uuid.uuid4().hex[:8])

    def __post_init__(self) -> None:
        self.admin = AdminClient({"bootstrap.servers": self.address})

    def name(self, name: str) -> str:
        return f"{name}-{self.unique}"

    def make(self, name: str = "views", partitions: int = 1, **settings: str) -> str:
        """Makes a topic; returns its name."""
        made = NewTopic(
            self.name(name), partitions, 1, config={key.replace("_", "."): value for key, value in settings.items()}
        )
        for done in self.admin.create_topics([made]).values():
            done.result(_SECONDS)
        until(lambda: self._is_led(made.topic, partitions))
        return made.topic

    def _is_led(self, topic: str, partitions: int) -> bool:
        """True when the broker, too, knows the topic that the controller has made."""
        found = self.admin.list_topics(topic, timeout=_SECONDS).topics[topic]
        return found.error is None and len(found.partitions) == partitions

    def delete(self, topic: str) -> None:
        for done in self.admin.delete_topics([topic]).values():
            done.result(_SECONDS)

    def widen(self, topic: str, partitions: int) -> None:
        for done in self.admin.create_partitions([NewPartitions(topic, partitions)]).values():
            done.result(_SECONDS)

    def set(self, topic: str, **settings: str) -> None:
        from confluent_kafka.admin import AlterConfigOpType, ConfigEntry

        entries = [
            ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
            for name, value in settings.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        for done in self.admin.incremental_alter_configs([resource]).values():
            done.result(_SECONDS)

    def expire(self, topic: str, before: int, partition: int = 0) -> None:
        """Deletes the messages before an offset, as retention does."""
        for done in self.admin.delete_records([TopicPartition(topic, partition, before)]).values():
            done.result(_SECONDS)

    def permit_reading(self, topic: str, user: str) -> None:
        permit(self.admin, user, AclOperation.READ, topic)

    def send(self, topic: str, messages: Iterable[Sent]) -> None:
        producer = Producer({"bootstrap.servers": self.address, "enable.idempotence": True})
        for message in messages:
            message.to(producer, topic)
        assert producer.flush(_SECONDS) == 0

    def transaction(self, topic: str, messages: Iterable[Sent], *, end: str = "commit") -> Producer:
        """Sends messages in a transaction, and commits, aborts or leaves it open.

        Its markers are written a moment after it has ended; until then it counts as open.
        """
        producer = Producer({"bootstrap.servers": self.address, "transactional.id": uuid.uuid4().hex})
        producer.init_transactions(_SECONDS)
        producer.begin_transaction()
        for message in messages:
            message.to(producer, topic)
        assert producer.flush(_SECONDS) == 0
        if end == "commit":
            producer.commit_transaction(_SECONDS)
        elif end == "abort":
            producer.abort_transaction(_SECONDS)
        if end != "leave open":
            self.await_markers(topic)
        return producer

    def await_markers(self, topic: str) -> None:
        """Waits until no transaction of a topic is open."""
        until(lambda: self._ends(topic, READ_COMMITTED) == self._ends(topic, READ_UNCOMMITTED), _SECONDS)

    def _ends(self, topic: str, level: IsolationLevel) -> list[int]:
        partitions = self.system.brokers.topic(topic).partitions
        asked = {TopicPartition(topic, partition): OffsetSpec.latest() for partition in range(partitions)}
        answers = self.admin.list_offsets(asked, isolation_level=level)
        return [int(answer.result(_SECONDS).offset) for answer in answers.values()]

    @property
    def system(self) -> KafkaSystem:
        return KafkaSystem("events", SystemBinding("kafka", {"bootstrap.servers": self.address}))


def read(
    system: KafkaSystem,
    stream: StreamSpec,
    slice: dict[str, Any] | None = None,
    partition: int = 0,
    columns: Sequence[str] | None = None,
) -> list[Envelope]:
    """All envelopes of a partition of a range."""
    place = SystemStreamPartition("events", stream.name, partition)
    return list(system.consumer(stream, slice).read(place, None, columns))


def rows(envelopes: Iterable[Envelope]) -> list[dict[str, Any]]:
    """The messages of envelopes."""
    return [row for run in envelopes if isinstance(run, MessageRun) for row in run.batch.to_pylist()]


def offsets(envelopes: Iterable[Envelope]) -> list[int]:
    """The offsets of the messages of envelopes."""
    return [run.offset + n for run in envelopes if isinstance(run, MessageRun) for n in range(run.messages)]


def end(envelopes: Sequence[Envelope]) -> int:
    """The offset of the end-of-stream, which comes last."""
    last = envelopes[-1]
    assert isinstance(last, ControlEnvelope)
    return last.offset

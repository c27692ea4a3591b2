"""Questions to the brokers of a system: which topics there are, and their offsets.

Inputs, outputs and runs' own topics ask it, and triggers and sensors in Airflow.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import ConfigResource, NewTopic, OffsetSpec, ResourceType

from airflow_samza.systems.capabilities import Compaction
from airflow_samza.systems.kafka.access import KafkaAccess
from airflow_samza.systems.kafka.broker_answers import ANSWER_SECONDS, Waiting, answer_to, passes
from airflow_samza.systems.kafka.clients import admin, renew_admin
from airflow_samza.systems.kafka.connection_failures import DELETE, TOPIC, missing_right
from airflow_samza.systems.kafka.failures import (
    UNKNOWN_TOPIC,
    cannot_create,
    error_of,
    failed,
    missing,
    other_count,
    recreated,
)

_TIMESTAMP_TYPE = "message.timestamp.type"
_ON_APPEND = "LogAppendTime"

_USUAL_LARGEST = 1_000_000
"""Bytes of a message that brokers take by default, and a little less."""

_CLEANUP, _KEEPS, _DELETES = "cleanup.policy", "min.compaction.lag.ms", "delete.retention.ms"

T = TypeVar("T")


@dataclass(frozen=True)
class Topic:
    """A topic as the brokers know it: ``identity`` differs from that of any other topic, of whatever name."""

    name: str
    identity: str
    partitions: int


class Brokers:
    """The brokers of a system; each answer, and each message, may be ``patience`` seconds in coming."""

    def __init__(self, access: KafkaAccess, patience: float) -> None:
        self.access = access
        self.patience = patience

    @property
    def system(self) -> str:
        """The name of the system."""
        return self.access.system

    def waiting(self, what: str) -> Waiting:
        """Return a wait for something of these brokers, which names them in the log."""
        return Waiting(f"{what} of the brokers {self.access.addresses} (system {self.system!r}) have", self.patience)

    def find(self, name: str) -> Topic | None:
        """Return the topic of this name, or None."""
        return self.find_all([name]).get(name)

    def find_all(self, names: Sequence[str]) -> dict[str, Topic]:
        """Return those topics that exist, by name."""
        collection = TopicCollection(sorted(set(names)))

        def ask() -> dict[str, Topic]:
            topics = {}
            for name, answer in (
                admin(self.access)
                .describe_topics(collection, request_timeout=min(ANSWER_SECONDS, self.patience))
                .items()
            ):
                try:
                    described = answer.result()
                except KafkaException as error:
                    if error_of(error).code() in UNKNOWN_TOPIC:
                        continue
                    raise
                topics[name] = Topic(name, str(described.topic_id), len(described.partitions))
            return topics

        return self._answered(ask, ", ".join(sorted(set(names))))

    def topic(self, name: str) -> Topic:
        """Return the topic of this name; one that is missing is a TopicError."""
        topic = self.find(name)
        if topic is None:
            raise missing(name, self.system)
        return topic

    def check_same(self, name: str, identity: str | None) -> None:
        """Reject a topic that is another one than that with this identity."""
        if identity and self.topic(name).identity != identity:
            raise recreated(name, self.system)

    def check_count(self, topic: Topic, planned: int | None) -> None:
        """Reject a topic that has another partition count than it was planned or declared with (None: any)."""
        if planned is not None and planned != topic.partitions:
            raise other_count(topic.name, self.system, topic.partitions, planned)

    def oldest(self, topic: Topic) -> list[int]:
        """Return the first offset that each partition still has."""
        return self._offsets(topic, OffsetSpec.earliest())

    def latest_stable(self, topic: Topic) -> list[int]:
        """Return by partition the offset behind the last message whose transaction, if any, has ended."""
        return self._offsets(topic, OffsetSpec.latest())

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """Return the first offset that a partition still has, and its end, behind open transactions, too."""
        place = TopicPartition(topic, partition)

        def ask(spec: OffsetSpec) -> int:
            return self._ask_offsets({place: spec}, IsolationLevel.READ_UNCOMMITTED)[partition]

        return self._answered(lambda: (ask(OffsetSpec.earliest()), ask(OffsetSpec.latest())), topic)

    def first_at(self, topic: Topic, millis: int) -> list[int | None]:
        """Return by partition the offset of the first message, or transaction marker, of this time or a later one.

        None where there is none.
        """
        return [None if offset < 0 else offset for offset in self._offsets(topic, OffsetSpec.for_timestamp(millis))]

    def stamps_on_append(self, topic: Topic) -> bool:
        """Return whether brokers give messages the time at which they come; False where that may not be asked."""
        # Where there is no answer soon, to read on costs time only.
        return self.settings(topic.name, min(ANSWER_SECONDS, self.patience)).get(_TIMESTAMP_TYPE) == _ON_APPEND

    def largest_message(self, topic: str) -> int:
        """Return how many bytes a message of a topic may have; the usual bound where that may not be asked."""
        return int(self.settings(topic, self.patience).get("max.message.bytes", _USUAL_LARGEST))

    def settings(self, topic: str, seconds: float) -> dict[str, str]:
        """Return the settings of a topic; none where they may not be asked, or no answer comes for so long."""
        answers = admin(self.access).describe_configs(
            [ConfigResource(ResourceType.TOPIC, topic)], request_timeout=seconds
        )
        (answer,) = answers.values()
        try:
            return {name: str(entry.value) for name, entry in answer.result().items()}
        except KafkaException:
            return {}

    def compaction(self, topic: str) -> Compaction | None:
        """Return how a topic is compacted; where its settings may not be asked, as brokers do it without any."""
        settings = self.settings(topic, min(ANSWER_SECONDS, self.patience))
        if settings and "compact" not in settings[_CLEANUP]:
            return None
        return Compaction(int(settings.get(_KEEPS, "0")), int(settings.get(_DELETES, "86400000")))

    def create(self, name: str, partitions: int, config: Mapping[str, str] | None = None) -> Topic:
        """Make a topic, unless another process was quicker, and return it."""
        new_topic = NewTopic(name, partitions, config=dict(config or {}))

        def ask() -> None:
            answers = admin(self.access).create_topics([new_topic], request_timeout=min(ANSWER_SECONDS, self.patience))
            (answer,) = answers.values()
            try:
                answer.result()
            except KafkaException as error:
                if error_of(error).code() == KafkaError.TOPIC_ALREADY_EXISTS:
                    return
                if passes(error):
                    raise
                raise cannot_create(error_of(error), name, partitions, self.system) from error

        self._answered(ask, name)
        waiting = self.waiting(f"The topic {name!r}, just made,")
        while (topic := self.find(name)) is None:  # those who answer hear of it a moment later
            if waiting.is_over:
                raise missing(name, self.system)
            waiting.still("no broker knows it yet")
            time.sleep(0.02)
        return topic

    def delete(self, name: str) -> None:
        """Delete a topic; one that is not there is deleted already. Brokers that are away are waited for shortly."""
        seconds = min(ANSWER_SECONDS, self.patience)

        def ask() -> None:
            (answer,) = admin(self.access).delete_topics([name], request_timeout=seconds).values()
            answer.result()

        try:
            answer_to(ask, seconds)
        except KafkaException as error:
            if error_of(error).code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                raise missing_right(self.access, TOPIC, name, DELETE) from error
            if error_of(error).code() not in UNKNOWN_TOPIC:
                raise failed(self.access, error_of(error), name, seconds) from error

    def _offsets(self, topic: Topic, spec: OffsetSpec) -> list[int]:
        places = {TopicPartition(topic.name, partition): spec for partition in range(topic.partitions)}
        offsets = self._answered(lambda: self._ask_offsets(places, IsolationLevel.READ_COMMITTED), topic.name)
        return [offsets[partition] for partition in range(topic.partitions)]

    def _ask_offsets(self, places: dict[TopicPartition, OffsetSpec], isolation: IsolationLevel) -> dict[int, int]:
        answers = admin(self.access).list_offsets(
            places, isolation_level=isolation, request_timeout=min(ANSWER_SECONDS, self.patience)
        )
        return {place.partition: int(answer.result().offset) for place, answer in answers.items()}

    def _answered(self, ask: Callable[[], T], topic: str) -> T:
        """Return the answer to a question about a topic; one that is missing is a TopicError.

        It is asked again while the brokers are away, or change their roles.
        """
        try:
            return answer_to(ask, self.patience, self.waiting("Answers"), lambda: renew_admin(self.access))
        except KafkaException as error:
            if error_of(error).code() in UNKNOWN_TOPIC:
                raise missing(topic, self.system) from error
            raise failed(self.access, error_of(error), topic, self.patience) from error

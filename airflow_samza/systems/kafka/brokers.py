"""Questions to the brokers of a system: which topics there are, and their offsets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import tenacity
from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import ConfigResource, NewTopic, OffsetSpec, ResourceType

from airflow_samza.errors import TopicError
from airflow_samza.systems.kafka.access import KafkaAccess
from airflow_samza.systems.kafka.clients import admin
from airflow_samza.systems.kafka.failures import NOT_THERE, cannot_create, error_of, failed, made_anew, missing

_TIMESTAMP_TYPE = "message.timestamp.type"
_ON_APPEND = "LogAppendTime"

_ANSWER_SECONDS = 10.0
"""Time in which one request has to be answered before it is sent again."""

_AWAY = frozenset(
    {
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TRANSPORT,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
    }
)

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

    def find(self, name: str) -> Topic | None:
        """Return the topic of this name, or None."""
        return self.find_all([name]).get(name)

    def find_all(self, names: Sequence[str]) -> dict[str, Topic]:
        """Return those topics that exist, by name."""
        wanted = TopicCollection(sorted(set(names)))

        def ask() -> dict[str, Topic]:
            found = {}
            for name, answer in (
                admin(self.access).describe_topics(wanted, request_timeout=min(_ANSWER_SECONDS, self.patience)).items()
            ):
                try:
                    described = answer.result()
                except KafkaException as error:
                    if error_of(error).code() in NOT_THERE:
                        continue
                    raise
                found[name] = Topic(name, str(described.topic_id), len(described.partitions))
            return found

        return self._answered(ask, ", ".join(sorted(set(names))))

    def topic(self, name: str) -> Topic:
        """Return the topic of this name; one that is missing is a TopicError."""
        found = self.find(name)
        if found is None:
            raise missing(name, self.system)
        return found

    def await_topic(self, name: str) -> Topic:
        """Return a topic that was created a moment ago: brokers know of it one after the other."""
        asking: tenacity.Retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(TopicError),
            stop=tenacity.stop_after_delay(self.patience),
            wait=tenacity.wait_exponential(0.01, max=1.0),
            reraise=True,
        )
        return asking(self.topic, name)

    def check_same(self, name: str, identity: str | None) -> None:
        """Reject a topic that is another one than that with this identity."""
        if identity and self.topic(name).identity != identity:
            raise made_anew(name, self.system)

    def oldest(self, topic: Topic) -> list[int]:
        """Return the first offset that each partition still has."""
        return self._offsets(topic, OffsetSpec.earliest())

    def latest_stable(self, topic: Topic) -> list[int]:
        """Return by partition the offset behind the last message whose transaction, if any, has ended."""
        return self._offsets(topic, OffsetSpec.latest())

    def first_at(self, topic: Topic, millis: int) -> list[int | None]:
        """Return by partition the offset of the first message, or transaction marker, of this time or a later one.

        None where there is none.
        """
        return [None if offset < 0 else offset for offset in self._offsets(topic, OffsetSpec.for_timestamp(millis))]

    def stamps_on_append(self, topic: Topic) -> bool:
        """Return whether brokers give messages the time at which they come; False where that may not be asked."""
        # Where there is no answer soon, to read on costs time only.
        return self.setting(topic.name, _TIMESTAMP_TYPE, min(_ANSWER_SECONDS, self.patience)) == _ON_APPEND

    def setting(self, topic: str, name: str, seconds: float) -> str | None:
        """Return a setting of a topic; None where it may not be asked, or no answer comes for so long."""
        asked = admin(self.access).describe_configs(
            [ConfigResource(ResourceType.TOPIC, topic)], request_timeout=seconds
        )
        (answer,) = asked.values()
        try:
            return str(answer.result()[name].value)
        except KafkaException:
            return None

    def create(self, name: str, partitions: int, config: Mapping[str, str] | None = None) -> None:
        """Make a topic, unless another process was quicker."""
        made = NewTopic(name, partitions, config=dict(config or {}))
        (answer,) = admin(self.access).create_topics([made], request_timeout=self.patience).values()
        try:
            answer.result()
        except KafkaException as error:
            if error_of(error).code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise cannot_create(error_of(error), name, partitions, self.system) from error

    def delete(self, name: str) -> None:
        """Delete a topic; one that is not there is deleted already."""
        (answer,) = admin(self.access).delete_topics([name], request_timeout=self.patience).values()
        try:
            answer.result()
        except KafkaException as error:
            if error_of(error).code() not in NOT_THERE:
                raise failed(self.access, error_of(error), name, self.patience) from error

    def _offsets(self, topic: Topic, spec: OffsetSpec) -> list[int]:
        places = {TopicPartition(topic.name, partition): spec for partition in range(topic.partitions)}

        def ask() -> list[int]:
            found = [0] * topic.partitions
            answers = admin(self.access).list_offsets(
                places,
                isolation_level=IsolationLevel.READ_COMMITTED,
                request_timeout=min(_ANSWER_SECONDS, self.patience),
            )
            for place, answer in answers.items():
                found[place.partition] = int(answer.result().offset)
            return found

        try:
            return self._answered(ask, topic.name)
        except _NotThere as error:
            raise missing(topic.name, self.system) from error

    def _answered(self, ask: Callable[[], T], topic: str) -> T:
        """Return the answer to a question, which is asked again while the brokers are away, or change their roles."""
        asking = tenacity.Retrying(
            retry=tenacity.retry_if_exception(_passes),
            stop=tenacity.stop_after_delay(self.patience),
            wait=tenacity.wait_exponential(0.05, 1.0),
            reraise=True,
        )
        try:
            return asking(ask)
        except KafkaException as error:
            if error_of(error).code() in NOT_THERE:
                raise _NotThere from error
            raise failed(self.access, error_of(error), topic, self.patience) from error


class _NotThere(Exception):
    """The brokers know no such topic."""


def _passes(error: BaseException) -> bool:
    return isinstance(error, KafkaException) and (error_of(error).retriable() or error_of(error).code() in _AWAY)

"""Questions to the brokers of a system: which topics there are, and their offsets.

They are asked again while an answer may still come; a line in the log says what is waited for. Inputs, outputs and
runs' own topics ask it, and triggers and sensors in Airflow.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TypeVar

import tenacity
from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import ConfigResource, NewTopic, OffsetSpec, ResourceType

from airflow_samza.systems.capabilities import Compaction
from airflow_samza.systems.kafka.access import KafkaAccess
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

log = logging.getLogger("airflow_samza.kafka")

_LOGGED_AFTER_SECONDS = 5.0
"""Shorter absences are ordinary: a broker hands its partitions over, a connection is made anew."""


class Waiting:
    """One wait for brokers that are away, for at most ``seconds``; the log says until when, and that it is over.

    ``what`` names what is to come, with the verb: ``Answers of … have``.
    """

    def __init__(self, what: str, seconds: float) -> None:
        self._what = what
        self._seconds = seconds
        self._since = time.monotonic()
        self._logged = False

    @property
    def seconds(self) -> float:
        """The seconds since it began."""
        return time.monotonic() - self._since

    @property
    def is_over(self) -> bool:
        """Return whether nobody waits any longer."""
        return self.seconds > self._seconds

    def still(self, why: str) -> None:
        """Note that it has not come; ``why`` is the newest cause that is known."""
        left = self._seconds - self.seconds
        if self._logged or self.seconds < min(_LOGGED_AFTER_SECONDS, self._seconds / 2):
            return
        self._logged = True
        until = datetime.now(timezone.utc) + timedelta(seconds=left)
        log.warning(
            "%s not come for %.0f s (%s): waiting until %s UTC, then this try fails",
            self._what,
            self.seconds,
            why,
            f"{until:%H:%M:%S}",
        )

    def over(self) -> None:
        """Note that it has come."""
        if self._logged:
            log.warning("%s come, after %.0f s", self._what, self.seconds)


ANSWER_SECONDS = 10.0
"""Time in which one request has to be answered before it is sent again: a connection may be dead without a sign."""

_PASSING = frozenset(
    {
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TRANSPORT,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._NOENT,  # of a partition that has no leader yet
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
    }
)
"""Codes of brokers that are away, have just started, or change their roles."""

T = TypeVar("T")


_FORMER_LEADERS = frozenset({KafkaError.FENCED_LEADER_EPOCH, KafkaError.UNKNOWN_LEADER_EPOCH})
"""Codes of a client that asks a former leader, as it does for minutes after a broker has started again."""


def passes(error: BaseException) -> bool:
    """Return whether an error is one of brokers that will answer a later time."""
    if not isinstance(error, KafkaException):
        return False
    kafka_error = error_of(error)
    return bool(kafka_error.retriable()) or kafka_error.code() in _PASSING | _FORMER_LEADERS


def answer_to(
    ask: Callable[[], T], seconds: float, waiting: Waiting | None = None, renew: Callable[[], None] = lambda: None
) -> T:
    """Return the answer to a question, which is asked again for so many seconds; ``waiting`` notes that in the log.

    ``renew`` lets go of a client that asks a former leader.
    """

    def log_retry(state: tenacity.RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome is not None else None
        if isinstance(error, KafkaException) and error_of(error).code() in _FORMER_LEADERS:
            renew()
        if waiting is not None:
            waiting.still(error_of(error).str() if isinstance(error, KafkaException) else str(error))

    asking = tenacity.Retrying(
        retry=tenacity.retry_if_exception(passes),
        stop=tenacity.stop_after_delay(seconds),
        wait=tenacity.wait_exponential(0.05, 1.0),
        before_sleep=log_retry,
        reraise=True,
    )
    answer = asking(ask)
    if waiting is not None:
        waiting.over()
    return answer


_TIMESTAMP_TYPE = "message.timestamp.type"
_ON_APPEND = "LogAppendTime"

_USUAL_LARGEST = 1_000_000
"""Bytes of a message that brokers take by default, and a little less."""

_CLEANUP, _KEEPS, _DELETES = "cleanup.policy", "min.compaction.lag.ms", "delete.retention.ms"


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

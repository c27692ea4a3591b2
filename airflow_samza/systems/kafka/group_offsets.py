"""Offsets that a consumer group has committed: how far it lags behind, and how a run says there what it has read.

Runs never read their positions from there. No member joins a group: its offsets are asked for and set from outside. The
Kafka system writes them; the sensor and the trigger of lags read them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition

from airflow_samza.errors import SamzaError, TopicError
from airflow_samza.systems.kafka.brokers import Brokers, answer_to
from airflow_samza.systems.kafka.clients import WarmConsumer, admin
from airflow_samza.systems.kafka.connection_failures import GROUP, READ, connection_failure, missing_right
from airflow_samza.systems.kafka.failures import error_of

_log = logging.getLogger("airflow_samza.kafka")

COMMIT_SECONDS = 5.0
"""Time within which a commit to a group has to be answered."""

AWAY_SECONDS = 60.0
"""Time for which a group is left alone to which nothing could be committed."""


class GroupCommitter:
    """Consumer groups that people look at: runs commit to them what they have read, and go by none of it.

    A group only moves forward: where it stands further than what a run has read (a rerun, a backfill), it stays.
    """

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = Brokers(brokers.access, COMMIT_SECONDS)
        self._committed: dict[tuple[str, str], dict[int, int]] = {}
        self._away_until: dict[str, float] = {}

    def tell(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Commit offsets (those of the next messages) by partition; a failure is a warning."""
        if time.monotonic() < self._away_until.get(group, 0.0):
            return
        try:
            self._commit(group, topic, offsets)
        except SamzaError as error:
            self._away_until[group] = time.monotonic() + AWAY_SECONDS
            self._committed.pop((group, topic), None)
            _log.warning("What was read of %r was not committed to the group %r: %s", topic, group, error)

    def _commit(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        committed = self._committed.get((group, topic))
        if committed is None:
            committed = committed_offsets(self._brokers, group, topic, offsets)
            ahead = [partition for partition, offset in offsets.items() if committed.get(partition, 0) > offset]
            if ahead:
                _log.warning(
                    "The group %r has committed more of %r than this run has read (partitions %s): there it stays.",
                    group,
                    topic,
                    ", ".join(map(str, sorted(ahead))),
                )
        moved = {partition: offset for partition, offset in offsets.items() if offset > committed.get(partition, -1)}
        if moved:
            commit_offsets(self._brokers, group, topic, moved)
        self._committed[group, topic] = {**committed, **moved}


@dataclass(frozen=True)
class GroupLag:
    """Offsets that a consumer group has not read, per partition of each topic (up to the last committed message)."""

    group: str
    topics: Mapping[str, tuple[int, ...]]

    @property
    def offsets(self) -> int:
        """The number of all of them."""
        return sum(sum(partitions) for partitions in self.topics.values())

    def __str__(self) -> str:
        each = ", ".join(f"{sum(lags):,} of {topic!r}" for topic, lags in sorted(self.topics.items()))
        return f"The group {self.group!r} has {self.offsets:,} offsets left to read: {each}."


def group_lag(brokers: Brokers, group: str, names: Iterable[str]) -> GroupLag:
    """Return the lag of a group; of partitions for which it has committed nothing, all offsets count."""
    lags = {}
    for name in sorted(set(names)):
        topic = brokers.topic(name)
        read = committed_offsets(brokers, group, name, range(topic.partitions))
        bounds = zip(brokers.oldest(topic), brokers.latest_stable(topic), strict=True)
        lags[name] = tuple(
            max(end - max(read.get(partition, 0), first), 0) for partition, (first, end) in enumerate(bounds)
        )
    return GroupLag(group, lags)


def committed_offsets(brokers: Brokers, group: str, topic: str, partitions: Iterable[int]) -> dict[int, int]:
    """Return the offsets that a group has committed, by partition; none where it has not."""
    places = [TopicPartition(topic, partition) for partition in partitions]
    # The admin client of librdkafka 2.16 ends the process by a segmentation fault while the group's broker starts.
    consumer = WarmConsumer(brokers.access.of_group(group))
    try:
        positions = _answer(brokers, group, lambda: consumer.client.committed(places, timeout=brokers.patience))
    finally:
        consumer.close()
    failed = next((place.error for place in positions if place.error is not None), None)
    if failed is not None:
        raise _failed(brokers, group, failed)
    return {place.partition: place.offset for place in positions if place.offset >= 0}


def commit_offsets(brokers: Brokers, group: str, topic: str, offsets: Mapping[int, int]) -> None:
    """Commit offsets (those of the next messages) by partition for a group."""
    places = [TopicPartition(topic, partition, offset) for partition, offset in sorted(offsets.items())]
    client = admin(brokers.access)

    def commit() -> list[TopicPartition]:
        request = ConsumerGroupTopicPartitions(group, places)
        answer: Any = client.alter_consumer_group_offsets([request], request_timeout=brokers.patience)[group]
        return list(answer.result().topic_partitions)

    for place in _answer(brokers, group, commit):
        if place.error is not None:
            raise _failed(brokers, group, place.error)


def _answer(brokers: Brokers, group: str, ask: Callable[[], list[TopicPartition]]) -> list[TopicPartition]:
    """Return the partitions of an answer about a group; none of a group that is not there."""
    try:
        return answer_to(ask, brokers.patience)
    except KafkaException as error:
        if error_of(error).code() == KafkaError.GROUP_ID_NOT_FOUND:
            return []
        raise _failed(brokers, group, error_of(error)) from error


def _failed(brokers: Brokers, group: str, error: KafkaError) -> SamzaError:
    if error.code() in (KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED):
        return missing_right(brokers.access, GROUP, group, READ)
    if error.code() == KafkaError.UNKNOWN_MEMBER_ID:
        return TopicError(
            f"The group {group!r} has members of its own, and only they may commit to it.",
            hint="Name a group that nobody joins.",
            system=brokers.system,
            group=group,
        )
    return connection_failure(brokers.access, error, brokers.patience)

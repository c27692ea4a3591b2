"""Sentences for what goes wrong at the brokers, in reading and in writing, and for messages that are no longer there.

Inputs, outputs and runs' own topics raise by it.
"""

from __future__ import annotations

from typing import Any

from confluent_kafka import KafkaError, KafkaException

from airflow_samza.errors import SamzaError, StorageUnavailable, TopicError
from airflow_samza.systems.capabilities import Delivery, after_a_retry
from airflow_samza.systems.kafka.access import KafkaAccess
from airflow_samza.systems.kafka.connection_failures import (
    CREATE,
    READ,
    TOPIC,
    TRANSACTION,
    WRITE,
    connection_failure,
    missing_right,
)
from airflow_samza.systems.producers_seen import TAKE_THE_NEWER

UNKNOWN_TOPIC = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION})
"""Codes of a topic that does not exist."""


def error_of(raised: KafkaException) -> KafkaError:
    """Return the client's error in an exception."""
    error = raised.args[0]
    assert isinstance(error, KafkaError)
    return error


def cause_of(error: KafkaException | SystemError) -> KafkaError:
    """Return the client's error; a fatal one is raised while callbacks run, and is then another's cause, or lost."""
    cause = error if isinstance(error, KafkaException) else error.__cause__
    return error_of(cause) if isinstance(cause, KafkaException) else KafkaError(KafkaError._FATAL, str(error))


def failed(access: KafkaAccess, error: KafkaError, topic: str, seconds: float) -> SamzaError:
    """Return the error of a request about a topic that was not answered for so long, or answered with an error."""
    if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        return missing_right(access, TOPIC, topic, READ)
    return connection_failure(access, error, seconds)


def silent(
    *, system: str, brokers: str, stream: str, partition: int, position: int, seconds: float, why: str
) -> SamzaError:
    """Return the error of a partition from which nothing came for too long."""
    return StorageUnavailable(
        f"Partition {partition} of the topic {stream!r} gave no message from offset {position} for {seconds:.0f} s: "
        f"{why}.",
        hint=f"Check that the brokers {brokers} of the system {system!r} run; the next try continues where this one "
        "has stopped.",
        stream=stream,
        system=system,
        partition=partition,
    )


def missing(stream: str, system: str) -> TopicError:
    """Return the error of a topic that does not exist."""
    return TopicError(
        f"There is no topic {stream!r} in the system {system!r}.",
        hint="Correct its name, create it, or bind the system to the brokers that have it.",
        stream=stream,
        system=system,
    )


def recreated(stream: str, system: str) -> TopicError:
    """Return the error of a topic that was deleted and created again since an input range of it was fixed."""
    return TopicError(
        f"The topic {stream!r} of the system {system!r} was created again since the run was planned: the offsets of "
        "the input range are those of the former topic.",
        hint="Clear the plan task, so that the run gets an input range of the present topic.",
        stream=stream,
        system=system,
    )


def other_count(stream: str, system: str, actual: int, planned: int) -> TopicError:
    """Return the error of a topic that has another partition count than the one it was planned or declared with."""
    return TopicError(
        f"The topic {stream!r} of the system {system!r} has {actual} partitions, and the run was planned with "
        f"{planned}.",
        hint="Clear the plan task, or start the run anew, so that it is planned for the count that the topic has; "
        "leave partitions= out where it is declared: the topic's own count is known.",
        stream=stream,
        system=system,
        partitions=actual,
    )


def cannot_create(error: KafkaError, topic: str, partitions: int, system: str) -> TopicError:
    """Return the error of a topic that is missing and could not be made."""
    denied = error.code() in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED)
    return TopicError(
        f"The system {system!r} has no topic {topic!r}, and it could not be created: {error.str()}.",
        hint=f"Create it with {partitions} partitions, or give the user of the system's connection the right to.",
        stream=topic,
        system=system,
        partitions=partitions,
        **({"denied": CREATE} if denied else {}),
    )


def expired(stream: str, partition: int, first: int, end: int) -> TopicError:
    """Return the error of offsets that retention has deleted before they were read."""
    return TopicError(
        f"Up to {end - first:,} messages of the input range of {stream!r} are gone: partition {partition} no longer "
        f"has the offsets from {first} up to {end}.",
        hint="Clear the plan task: the new input range is what is left. If the run continues the one before, also "
        'declare options={"on_expired": "skip"} on the stream. Raise retention.ms of the topic to the longest delay '
        "of a run.",
        stream=stream,
        partition=partition,
        messages=end - first,
    )


TRANSACTIONAL_IDS = "airflow-samza"
"""Beginning of all transactional ids, for the rights of a user."""

FENCED = frozenset(
    {
        KafkaError._FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.INVALID_PRODUCER_ID_MAPPING,
        KafkaError.TRANSACTION_COORDINATOR_FENCED,
    }
)
"""Codes with which brokers turn away a publisher whose place another has taken."""

_NO_RIGHTS = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED})
_DELETED_TOPIC = UNKNOWN_TOPIC | {KafkaError.UNKNOWN_TOPIC_ID}
_TOO_FEW = frozenset({KafkaError.NOT_ENOUGH_REPLICAS, KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND})


def write_failed(
    error: KafkaError, *, topic: str, access: KafkaAccess, delivery: Delivery, key: bytes | None = None
) -> SamzaError:
    """Return the error of messages that the brokers did not take."""
    about: dict[str, Any] = {"stream": topic, "system": access.system}
    if error.code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
        return missing_right(access, TRANSACTION, TRANSACTIONAL_IDS, WRITE)
    if error.code() in _NO_RIGHTS:
        return missing_right(access, TOPIC, topic, WRITE)
    if error.code() in _DELETED_TOPIC:
        return TopicError(
            f"The topic {topic!r} of the system {access.system!r} is gone, or has fewer partitions than when the run "
            "was planned.",
            hint="Create it again with the planned partition count; the next try publishes what is left.",
            **about,
        )
    if error.code() in _TOO_FEW:
        return StorageUnavailable(
            f"Too few replicas of {topic!r} in the system {access.system!r} are in sync to take messages.",
            hint="Look for brokers that are away (min.insync.replicas of the topic). The next try continues where this "
            f"one has stopped: {_kept(topic, delivery)}.",
            **about,
        )
    if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
        return TopicError(
            f"The brokers of the system {access.system!r} did not take a message for {topic!r} with the key "
            f"{shown_key(key)}: it is larger than they permit.",
            hint="Raise max.message.bytes of the topic and try again; the next try publishes what is left.",
            **about,
        )
    return StorageUnavailable(
        f"The brokers {access.addresses} of the system {access.system!r} did not take the messages for "
        f"{topic!r}: {error.str()}.",
        hint="Check that they run, can be reached from here, and have enough replicas of the topic in sync. The next "
        f"try continues where this one has stopped: {_kept(topic, delivery)}.",
        **about,
    )


def too_large(topic: str, key: bytes | None, size: int, bound: int) -> TopicError:
    """Return the error of a message that no broker will take; it is raised before anything is committed."""
    return TopicError(
        f"A message for {topic!r} with the key {shown_key(key)} has {size:,} bytes, and the topic takes {bound:,}.",
        hint="Raise max.message.bytes of the topic, or send less in one message.",
        stream=topic,
        bytes=size,
        bound=bound,
    )


def superseded(topic: str, generation: str, newest: str) -> TopicError:
    """Return the error of a publisher whose stage was cleared meanwhile; its facts name the ``winner``."""
    return TopicError(
        f"Generation {generation} may no longer publish to {topic!r}: {newest} has taken over.",
        hint=TAKE_THE_NEWER,
        stream=topic,
        generation=generation,
        winner=newest,
    )


def contended(topic: str, generation: str, delivery: Delivery) -> StorageUnavailable:
    """Return the error of two publishers of one generation that fence each other again and again."""
    return StorageUnavailable(
        f"Another process publishes generation {generation} to {topic!r} at the same time, "
        "and the two fence each other.",
        hint=f"One of them will be ended as the stage's lost runner. The next try continues: {_kept(topic, delivery)}.",
        stream=topic,
        generation=generation,
    )


def published_before(topic: str, messages: int, who: str) -> TopicError:
    """Return the rejection of a rerun over messages that others may have read."""
    return TopicError(
        f"{messages:,} messages are published to {topic!r} already, by {who}: messages cannot be taken back, and a "
        "rerun would publish them a second time.",
        hint='Declare options={"on_rerun": "append"} on the output if its readers can take that; else publish to '
        "another topic. Where a publication died half-way, publish the rest of it: airflow-samza runs finish.",
        stream=topic,
        messages=messages,
    )


def markers_missing(name: str, system: str, topic: str) -> TopicError:
    """Return the error of a run whose marker has vanished: nobody knows what it has published."""
    return TopicError(
        f"The topic of markers {name!r} of the system {system!r} does not have the marker of this run's output "
        f"{topic!r}: it was deleted, or created again.",
        hint="Check what the output contains, then clear the plan task with its downstream: the run starts anew.",
        stream=topic,
        system=system,
    )


def _kept(topic: str, delivery: Delivery) -> str:
    return after_a_retry({f"the output {topic!r}": delivery})


def shown_key(key: bytes | None) -> str:
    """Return a message's key for people."""
    if key is None:
        return "null"
    text = repr(key.decode(errors="replace"))
    return text if len(text) <= 60 else text[:57] + "…'"

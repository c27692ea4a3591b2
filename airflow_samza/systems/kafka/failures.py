"""Sentences for what goes wrong at the brokers, and for messages that are no longer there.

Inputs, outputs and runs' own topics raise by it.
"""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException

from airflow_samza.errors import SamzaError, StorageUnavailable, TopicError
from airflow_samza.systems.kafka.access import KafkaAccess
from airflow_samza.systems.kafka.connection_failures import CREATE, READ, TOPIC, connection_failure, missing_right

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

"""Rejections that systems share, in the same words.

The log, Kafka, files and tables raise them.
"""

from __future__ import annotations

from collections.abc import Sequence

from airflow_samza.application.rejections import did_you_mean
from airflow_samza.config import MAX_PARTITIONS
from airflow_samza.errors import ConfigError, TopicError
from airflow_samza.systems.system import StreamSpec

CLEAR_STAGE = "Clear the stage: its next generation writes its output again."


def unknown_value(stream: str, option: str, value: str, hint: str) -> ConfigError:
    """Return the error for an option of a stream whose value is none of those that it may have."""
    return ConfigError(
        f"Option {option!r} of stream {stream!r} is {value!r}, which is not known.", hint=hint, key=option, value=value
    )


FROM_ZERO = "Partitions count from 0."


def no_column(topic: str, column: str, columns: Sequence[str]) -> TopicError:
    """Return the error for a column that a reader asks for, and that the topic does not have."""
    return TopicError(
        f"The topic {topic!r} has no column {column!r}.",
        hint=f"{did_you_mean(column, columns)}Its columns are {', '.join(columns)}.",
        stream=topic,
        column=column,
    )


def check_partition(topic: str, partitions: int, partition: int, hint: str = FROM_ZERO) -> None:
    """Reject a partition that a topic does not have."""
    if not 0 <= partition < partitions:
        raise TopicError(
            f"The topic {topic!r} has no partition {partition}; it has {partitions}.",
            hint=hint,
            stream=topic,
            partition=partition,
        )


def check_keyed(topic: str, partitions: int, keyed: bool) -> None:
    """Reject rows without a key where there are several partitions to which they could go."""
    if not keyed and partitions > 1:
        raise TopicError(
            f"Rows for {topic!r}, which has {partitions} partitions, need a key.",
            hint="Give the key columns (key=), by which the rows find their partition.",
            stream=topic,
        )


def check_count(topic: str, partitions: int) -> None:
    """Reject a topic without partitions, or with more than a stream may have."""
    if not 1 <= partitions <= MAX_PARTITIONS:
        raise TopicError(
            f"The topic {topic!r} cannot have {partitions} partitions.",
            hint=f"Declare 1 to {MAX_PARTITIONS:,}.",
            stream=topic,
        )


def check_same_topic(
    system: str,
    topic: str,
    *,
    partitions: int,
    schema: str | None,
    declared_count: int,
    declared_schema: str | None,
) -> None:
    """Reject a topic that is there with another partition count, or another schema (both in DDL)."""
    if partitions != declared_count:
        raise TopicError(
            f"The topic {topic!r} of system {system!r} has {partitions} partitions, not {declared_count}.",
            hint="Use the count it has, or another name: a topic's count never changes.",
            stream=topic,
            partitions=partitions,
            wanted=declared_count,
        )
    if schema is not None and declared_schema is not None and schema != declared_schema:
        raise TopicError(
            f"The topic {topic!r} of system {system!r} has the schema ({schema}), not ({declared_schema}).",
            hint="Declare the schema it has, or use another name.",
            stream=topic,
            schema=schema,
            wanted=declared_schema,
        )


def check_owner(topic: str, owner: Sequence[str], caller: Sequence[str]) -> None:
    """Reject a run's own topic to anybody else.

    Topics without an owner, and callers that name none, are not checked.
    """
    if owner and caller and tuple(owner) != tuple(caller):
        raise TopicError(
            f"The topic {topic!r} belongs to {_owner_text(owner)}, not to {_owner_text(caller)}.",
            hint="Give one of the two another name, id (app_id=) or run id, so that their topics have different names.",
            stream=topic,
            owner=_owner_text(owner),
        )


def _owner_text(owner: Sequence[str]) -> str:
    parts = zip(("application", "with the id", "stream", "run"), owner, strict=False)
    return ", ".join(f"{word} {part!r}" for word, part in parts).replace(", with", " with")


def declared_partitions(stream: StreamSpec) -> int:
    """Return the partition count of a stream that shall be made."""
    if stream.partitions is None:
        raise TopicError(
            f"The topic {stream.name!r} cannot be made without a partition count.",
            hint="Declare partitions= on the stream.",
            stream=stream.name,
        )
    return stream.partitions


def first_expired(offsets: Sequence[Sequence[int]], oldest: Sequence[int]) -> str | None:
    """Return the first messages of a range that are older than the oldest of their partition, as a part of a sentence.

    ``offsets`` are the first one and the end of each partition, ``oldest`` what is left there. None: all are there.
    """
    for partition, (first, end) in enumerate(offsets):
        expired_until = min(oldest[partition], int(end))
        if int(first) < expired_until:
            return (
                f"its messages from offset {first} to {expired_until} of partition {partition} are not there any more"
            )
    return None

"""Rejections that systems share, in the same words.

The log, Kafka, files and tables raise them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow_samza.application.rejections import did_you_mean
from airflow_samza.errors import ConfigError, TopicError

if TYPE_CHECKING:
    import pyarrow as pa

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


def places_of(schema: pa.Schema, columns: Sequence[str], topic: str) -> list[int]:
    """Return the places of the columns that a reader asks for; one that the topic does not have is a TopicError."""
    places = [schema.get_field_index(name) for name in columns]
    if -1 in places:
        raise no_column(topic, columns[places.index(-1)], schema.names)
    # No column at all would mean every column to Arrow: the first one carries the row count.
    return sorted(set(places)) or [0]


def check_partition(topic: str, partitions: int, partition: int, hint: str = FROM_ZERO) -> None:
    """Reject a partition that a topic does not have."""
    if not 0 <= partition < partitions:
        raise TopicError(
            f"The topic {topic!r} has no partition {partition}; it has {partitions}.",
            hint=hint,
            stream=topic,
            partition=partition,
        )


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

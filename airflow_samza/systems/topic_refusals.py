"""What every system of topics refuses, in the same words."""

from __future__ import annotations

from airflow_samza.errors import TopicError
from airflow_samza.systems.system import StreamSpec


def check_partition(topic: str, partitions: int, partition: int, hint: str = "Partitions count from 0.") -> None:
    """Refuses a partition that a topic does not have."""
    if not 0 <= partition < partitions:
        raise TopicError(
            f"The topic {topic!r} has no partition {partition}; it has {partitions}.", hint=hint, stream=topic, partition=partition
        )


def check_keyed(topic: str, partitions: int, keyed: bool) -> None:
    """Refuses rows without a key where there are several partitions to which they could go."""
    if not keyed and partitions > 1:
        raise TopicError(
            f"Rows for {topic!r}, which has {partitions} partitions, need a key.",
            hint="Give the key columns (key=), by which the rows find their partition.",
            stream=topic,
        )


def declared_partitions(stream: StreamSpec) -> int:
    """The partition count of a stream that shall be made."""
    if stream.partitions is None:
        raise TopicError(
            f"The topic {stream.name!r} cannot be made without a partition count.",
            hint="Declare partitions= on the stream.",
            stream=stream.name,
        )
    return stream.partitions

"""What lies in a topic: all its messages, partition after partition."""

from __future__ import annotations

from typing import Any

from airflow_samza.systems.log_system import LogSystem
from airflow_samza.systems.system import MessageRun, OffsetRange, StreamSpec, SystemStreamPartition


def topic_rows(log: LogSystem, topic: str) -> list[dict[str, Any]]:
    """The messages as dicts; none where there is no such topic."""
    known = log.admin.metadata([StreamSpec(topic)]).get(topic)
    rows: list[dict[str, Any]] = []
    if known is None:
        return rows
    consumer = log.consumer(StreamSpec(topic))
    for partition in range(known.partitions):
        place = SystemStreamPartition("log", topic, partition)
        for envelope in consumer.read(place, OffsetRange(known.oldest[partition], known.head[partition])):
            rows += envelope.batch.to_pylist() if isinstance(envelope, MessageRun) else []
    consumer.close()
    return rows

"""Contents of a topic: all its messages, partition after partition."""

from __future__ import annotations

from typing import Any

from airflow_samza.runs.tables.table_version import DELETED, TableVersion
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import MessageRun, OffsetRange, StreamSpec, SystemStreamPartition
from tests.support.scalar_partitioner import partition_of


def topic_rows(log: LogSystem, topic: str) -> list[dict[str, Any]]:
    """The messages as dicts; none where there is no such topic."""
    known = log.metadata([StreamSpec(topic)]).get(topic)
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


def version_rows(log: LogSystem, topic: str, version: TableVersion, key: str) -> dict[Any, dict[str, Any]]:
    """Return the rows of a version as a reader sees them, by the key (a whole number), each in the partition of its key."""
    partitions = len(version.offsets)
    consumer = log.consumer(StreamSpec(topic, partitions), version.slice)
    found: dict[Any, dict[str, Any]] = {}
    for partition in range(partitions):
        for envelope in consumer.read(SystemStreamPartition("log", topic, partition)):
            for row in envelope.batch.to_pylist() if isinstance(envelope, MessageRun) else ():
                assert partition_of((row[key],), ("bigint",), partitions) == partition
                found.pop(row[key], None)
                if not row[DELETED]:
                    found[row[key]] = row
    consumer.close()
    return found

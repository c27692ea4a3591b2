"""Outputs on a real broker: what tests stage and publish, and what readers of committed messages see."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from airflow_samza.systems.kafka.access import access_of
from airflow_samza.systems.kafka.brokers import Brokers
from airflow_samza.systems.kafka.outputs import KafkaOutputs
from airflow_samza.systems.system import Publication, StreamSpec, SystemBinding
from tests.support.waiting import until

PRODUCER = "app/run/stage"
COLUMNS = "id bigint, name string"

_ENDS_SECONDS = 2.0
"""The time that brokers may take to write the ends of a transaction."""


class Seen(NamedTuple):
    """A message as a reader sees it."""

    partition: int
    key: bytes | None
    value: bytes | None


def stream(topic: str, through: str = "app/out/run/1.1", **options: str) -> StreamSpec:
    """An output of three partitions, keyed by name."""
    return StreamSpec(
        topic,
        partitions=3,
        schema=COLUMNS,
        key=("name",),
        written=True,
        through=through,
        options=tuple(sorted(options.items())),
    )


def new_topic() -> str:
    return f"out-{uuid.uuid4().hex[:12]}"


def outputs(address: str, root: object, patience: float = 30.0, **settings: Any) -> KafkaOutputs:
    binding = SystemBinding("kafka", {"bootstrap.servers": address, **settings})
    return KafkaOutputs(Brokers(access_of("events", binding), patience), binding.options, str(root))


def rows(first: int, count: int) -> pa.RecordBatch:
    ids = range(first, first + count)
    return pa.record_batch({"id": pa.array(ids, pa.int64()), "name": [f"n{number % 7}" for number in ids]})


def stage(found: KafkaOutputs, spec: StreamSpec, tasks: Sequence[pa.RecordBatch]) -> dict[int, dict[str, Any]]:
    """Return what the tasks, one for each batch, have staged."""
    staged = {}
    for task, batch in enumerate(tasks):
        producer = found.producer(spec, f"task-{task}")
        for first in range(0, batch.num_rows, 25):
            producer.write_keyed(batch.slice(first, 25), spec.key)
        staged[task] = producer.finish()
    return staged


def publication(
    staged: Mapping[int, Mapping[str, Any]], epoch: int = 0, generation: str = "1.1", *, final: bool = False
) -> Publication:
    return Publication(PRODUCER, generation, epoch, staged, final=final)


def read_all(address: str, topic: str, isolation: str = "read_committed") -> list[Seen]:
    """All messages of a topic, partition by partition, as a reader sees them now.

    Those behind an open transaction are not there.
    """
    settings = {
        "bootstrap.servers": address,
        "group.id": "tests",
        "isolation.level": isolation,
        "enable.partition.eof": True,
        "enable.auto.commit": False,
    }
    consumer = Consumer(settings)
    try:
        partitions = consumer.list_topics(topic, 30).topics[topic].partitions
        _wait_for_ends(consumer, address, topic, partitions)
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        seen: list[Seen] = []
        ended: set[int] = set()
        while len(ended) < len(partitions):
            for message in consumer.consume(1000, 1.0):
                _take(message, seen, ended)
        return sorted(seen, key=lambda message: message.partition)  # each partition in the order of its offsets
    finally:
        consumer.close()


def _wait_for_ends(consumer: Consumer, address: str, topic: str, partitions: Iterable[int]) -> None:
    """Return when a reader of committed messages sees the last one; with an open transaction, after some seconds.

    Brokers write the end of a transaction to each partition after they have answered the commit.
    """
    of_all = Consumer({"bootstrap.servers": address, "group.id": "tests", "isolation.level": "read_uncommitted"})
    try:
        places = [TopicPartition(topic, partition) for partition in partitions]
        with suppress(AssertionError):
            until(lambda: all(_end(consumer, at) == _end(of_all, at) for at in places), _ENDS_SECONDS)
    finally:
        of_all.close()


def _end(consumer: Consumer, at: TopicPartition) -> int:
    return consumer.get_watermark_offsets(at, 30)[1]


def _take(message: Message, seen: list[Seen], ended: set[int]) -> None:
    error, partition = message.error(), int(message.partition() or 0)
    if error is None:
        seen.append(Seen(partition, message.key(), message.value()))
    elif error.code() == KafkaError._PARTITION_EOF:
        ended.add(partition)
    else:
        raise AssertionError(error)


def ids_of(seen: Sequence[Seen]) -> list[int]:
    """The ids in the order of the topic's partitions."""
    import json

    return [int(json.loads(message.value or b"")["id"]) for message in seen]

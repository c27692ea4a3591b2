"""Topics of the Kafka benchmark: the same page views as JSON and as Avro, keyed by page.

``python -m benchmarks.kafka_topics ADDRESS TOPIC FORMAT MESSAGES`` fills one. A pool of views is encoded once and sent
over and over, so that the sender does not take longer than those who are measured.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from airflow_samza.systems.serdes.avro import avro_serde
from airflow_samza.systems.serdes.json import JsonSerde
from benchmarks.gen_data import page_views

FORMATS = ("json", "avro")
PARTITIONS = 4
POOL = 250_000
"""Views of the pool; a topic has a multiple of them."""

SLOW_MS = 1000
"""Views that last longer are counted."""

RECORD: dict[str, Any] = json.loads(Path(__file__).with_name("views.avsc").read_text())

PerPage = dict[int, tuple[int, int]]
"""Views and milliseconds by page."""


def pool() -> pa.RecordBatch:
    """The views of the pool."""
    return page_views(POOL).combine_chunks().to_batches()[0]


def expected(messages: int) -> PerPage:
    """Return the result that every contender has to find in a topic of so many messages."""
    views = pool()
    slow = pa.Table.from_batches([views.filter(pc.greater(views.column("dwell_ms"), SLOW_MS))])
    found = slow.group_by("page_id").aggregate([("dwell_ms", "count"), ("dwell_ms", "sum")])
    times = messages // POOL
    pages, views_, millis = (found.column(name).to_pylist() for name in ("page_id", "dwell_ms_count", "dwell_ms_sum"))
    return {page: (n * times, total * times) for page, n, total in zip(pages, views_, millis, strict=True)}


def encoded(format_: str) -> tuple[list[bytes], list[bytes]]:
    """The keys (as Kafka's own serializer of integers has them) and values of the pool."""
    views = pool()
    serde = JsonSerde(views.schema) if format_ == "json" else avro_serde(views.schema, RECORD, "views")
    keys = [page.to_bytes(4, "big") for page in views.column("page_id").to_pylist()]
    return keys, serde.encode(views).to_pylist()


def create(address: str, topics: list[str], partitions: int = PARTITIONS) -> None:
    """Make topics; those that are there stay."""
    admin = AdminClient({"bootstrap.servers": address})
    for done in admin.create_topics([NewTopic(name, partitions) for name in topics]).values():
        done.result(60)


def messages_in(address: str, topic: str) -> int:
    """Return the messages of a topic that nothing has deleted, with the markers of transactions."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "bench"})
    try:
        partitions = consumer.list_topics(topic, 30).topics[topic].partitions
        ends = [consumer.get_watermark_offsets(TopicPartition(topic, number), 30)[1] for number in partitions]
    finally:
        consumer.close()
    return sum(ends)


def fill(address: str, topic: str, format_: str, messages: int) -> None:
    """Send the pool until a topic has so many messages."""
    keys, values = encoded(format_)
    producer = Producer(
        {
            "bootstrap.servers": address,
            "enable.idempotence": True,
            "compression.type": "lz4",
            "partitioner": "murmur2_random",
            "linger.ms": 20,
            "batch.size": 1_000_000,
            "batch.num.messages": 100_000,
            "queue.buffering.max.messages": 1_000_000,
            "delivery.report.only.error": True,
        }
    )
    for _ in range(messages // POOL):
        for key, value in zip(keys, values, strict=True):
            while True:
                try:
                    producer.produce(topic, value, key)
                    break
                except BufferError:
                    producer.poll(0.05)
        producer.poll(0)
    if producer.flush(120):
        raise KafkaException("messages have not arrived")


if __name__ == "__main__":
    fill(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))

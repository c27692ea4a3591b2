"""Columns of an output as a reader of Kafka's own client sees them: key, partition, timestamp, headers and value."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Message, TopicPartition

from airflow_samza.errors import ConfigError, SchemaError
from airflow_samza.systems.system import StreamSpec
from tests.support.kafka_outputs import new_topic, outputs, publication, read_all

if TYPE_CHECKING:
    from demo.kafka import Kafka

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

MURMUR2 = {"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536, "abc": 479470107}
"""Hashes that the tests of Kafka's own clients expect."""


def published(kafka: Kafka, root: Path, spec: StreamSpec, batch: pa.RecordBatch) -> None:
    found = outputs(kafka.address, root)
    found.create([spec])
    found.check_writable(spec)
    producer = found.producer(spec, "task-0")
    producer.write_keyed(batch, spec.key) if spec.key else producer.write(1, batch)
    found.publish(spec, publication({0: producer.finish()}, final=True))


def first(kafka: Kafka, topic: str) -> Message:
    consumer = Consumer({"bootstrap.servers": kafka.address, "group.id": "tests", "auto.offset.reset": "earliest"})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        (message,) = consumer.consume(1, 30)
        return message
    finally:
        consumer.close()


def test_keys_lie_in_the_partitions_of_kafkas_own_producer(kafka: Kafka, tmp_path: Path) -> None:
    spec = StreamSpec(new_topic(), partitions=7, schema="word string", key=("word",), written=True)
    published(kafka, tmp_path, spec, pa.record_batch({"word": pa.array([*MURMUR2, None])}))
    expected: dict[bytes | None, int] = {word.encode(): (hashed & 0x7FFFFFFF) % 7 for word, hashed in MURMUR2.items()}
    assert {seen.key: seen.partition for seen in read_all(kafka.address, spec.name)} == {**expected, None: 0}


def test_rows_without_a_key_column_lie_in_the_partition_of_their_task(kafka: Kafka, tmp_path: Path) -> None:
    spec = StreamSpec(new_topic(), partitions=3, schema="n bigint", written=True)
    published(kafka, tmp_path, spec, pa.record_batch({"n": pa.array([1, 2])}))
    assert [(seen.partition, seen.key) for seen in read_all(kafka.address, spec.name)] == [(1, None)] * 2


def test_key_timestamp_and_headers_are_columns_on_request(kafka: Kafka, tmp_path: Path) -> None:
    options = (("headers_column", "notes"), ("key_column", "id"), ("timestamp_column", "at"))
    schema = "id bigint, at timestamp, notes array<struct<key: string, value: binary>>, n int"
    spec = StreamSpec(new_topic(), partitions=1, schema=schema, written=True, options=options, key=("id",))
    notes = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    batch = pa.record_batch(
        {
            "id": pa.array([258]),
            "at": pa.array([datetime(2024, 1, 2, tzinfo=timezone.utc)], pa.timestamp("us", "UTC")),
            "notes": pa.array([[{"key": "trace", "value": b"\x01"}, {"key": "trace", "value": None}]], notes),
            "n": pa.array([5], pa.int32()),
        }
    )
    published(kafka, tmp_path, spec, batch)
    message = first(kafka, spec.name)
    assert message.key() == (258).to_bytes(8, "big")
    assert message.timestamp()[1] == 1_704_153_600_000
    assert message.headers() == [("trace", b"\x01"), ("trace", None)]
    assert json.loads(message.value() or b"") == {"n": 5}


def test_several_key_columns_are_a_json_object(kafka: Kafka, tmp_path: Path) -> None:
    spec = StreamSpec(new_topic(), partitions=1, schema="a string, b int", key=("a", "b"), written=True)
    published(kafka, tmp_path, spec, pa.record_batch({"a": ["x"], "b": pa.array([1], pa.int32())}))
    assert json.loads(first(kafka, spec.name).key() or b"") == {"a": "x", "b": 1}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"delivry": "at_least_once"}, "has the option 'delivry', which its system of kind kafka does not know"),
        ({"delivery": "once"}, "has delivery='once', which is not known"),
        ({"on_rerun": "replace"}, "has on_rerun='replace', which is not known"),
        ({"key_column": "ident"}, "names the column 'ident', which is not sent"),
    ],
)
def test_rejects_options_that_cannot_be(kafka: Kafka, tmp_path: Path, options: dict[str, str], sentence: str) -> None:
    spec = StreamSpec(new_topic(), partitions=1, schema="id bigint", written=True, options=tuple(options.items()))
    with pytest.raises(ConfigError, match=sentence):
        outputs(kafka.address, tmp_path).check_writable(spec)


def test_rejects_a_timestamp_column_that_holds_no_time(kafka: Kafka, tmp_path: Path) -> None:
    spec = StreamSpec(
        new_topic(), partitions=1, schema="id string", written=True, options=(("timestamp_column", "id"),)
    )
    with pytest.raises(SchemaError, match=r"Column 'id' of the output .* has the timestamp of its messages"):
        outputs(kafka.address, tmp_path).check_writable(spec)

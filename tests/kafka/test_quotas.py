"""Brokers that hold clients up by quotas: everything comes, later, and once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_samza.systems.kafka.own_topics.store import OwnTopics
from airflow_samza.systems.kafka.system import KafkaSystem
from airflow_samza.systems.system import MessageRun, Publication, StreamSpec, SystemBinding
from tests.kafka.test_own_topics import noise
from tests.support.kafka_outputs import ids_of, new_topic, publication, read_all, rows, stage, stream
from tests.support.kafka_quotas import set_quotas
from tests.support.kafka_topics import Sent, Topics, offsets, read
from tests.support.topic_contract import STREAM, ssp

if TYPE_CHECKING:
    from demo.kafka import Kafka

pytestmark = [pytest.mark.extended, pytest.mark.kafka, pytest.mark.timeout(300)]

SLOW = 200_000
"""Bytes per second: what the tests send and read takes a few seconds."""


@pytest.fixture
def system(kafka: Kafka, tmp_path: Path) -> KafkaSystem:
    """A system whose clients, and no others, are held up; requests are given up after a second without an answer."""
    name = new_topic().replace("out", "slow")
    set_quotas(kafka.address, f"airflow-samza-{name}", producer_byte_rate=SLOW, consumer_byte_rate=SLOW)
    settings = {"bootstrap.servers": kafka.address, "socket.timeout.ms": 1000, "request.timeout.ms": 1000}
    return KafkaSystem(name, SystemBinding("kafka", settings), str(tmp_path))


def test_a_publication_that_is_held_up_publishes_each_message_once(kafka: Kafka, system: KafkaSystem) -> None:
    spec = stream(new_topic())
    system.create([spec])
    for epoch in range(3):
        staged = stage(system, spec, [rows(10_000 * epoch, 10_000)])
        system.publish(spec, publication(staged, epoch, final=epoch == 2))
    assert sorted(ids_of(read_all(kafka.address, spec.name))) == list(range(30_000))


def test_reading_that_is_held_up_reads_all(system: KafkaSystem, topics: Topics) -> None:
    topic = topics.make()
    topics.send(topic, [Sent(f'{{"id":{number},"padding":"{"x" * 1000}"}}') for number in range(2000)])
    assert offsets(read(system, StreamSpec(topic, schema="id bigint, padding string"))) == list(range(2000))


def test_topics_between_stages_that_are_held_up_hold_all(system: KafkaSystem) -> None:
    between: OwnTopics = system.own_topics
    between.create([STREAM])
    writer, sent = between.producer(STREAM, "task-0"), noise(10, 100_000)
    for number in range(10):
        writer.write(0, sent.slice(number, 1))
    between.publish(STREAM, Publication("app/run/stage", "1.1", 0, {0: writer.finish()}))
    runs = [run for run in between.consumer(STREAM).read(ssp(0), None) if isinstance(run, MessageRun)]
    assert [number for run in runs for number in run.batch.column("id").to_pylist()] == list(range(10))

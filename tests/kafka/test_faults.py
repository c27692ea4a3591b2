"""A broker that is killed, and a proxy that loses requests and answers: Kafka's own client stays right."""

from __future__ import annotations

import uuid

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from demo.kafka import Kafka
from tests.support.budgets import nightly_but
from tests.support.kafka_proxy import CLOSE_AFTER, CLOSE_BEFORE, DROP_ANSWER, END_TXN, PRODUCE, KafkaProxy, first

pytestmark = [pytest.mark.extended, pytest.mark.kafka]


@pytest.fixture
def topic(broker: Kafka) -> str:
    name = f"proxied-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(30)
    return name


def stored(broker: Kafka, topic: str) -> list[bytes | None]:
    """All messages that a reader of committed ones sees, without the proxy."""
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "test", "enable.partition.eof": True})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found = []
        while (message := consumer.poll(30)) is not None and message.error() is None:
            found.append(message.value())
        return found
    finally:
        consumer.close()


@pytest.mark.parametrize("fault", nightly_but([CLOSE_AFTER, DROP_ANSWER], [CLOSE_AFTER, CLOSE_BEFORE, DROP_ANSWER]))
def test_a_message_comes_once_when_the_answer_to_it_is_lost(
    broker: Kafka, proxy: KafkaProxy, topic: str, fault: str
) -> None:
    proxy.fault = first(PRODUCE, fault)
    producer = Producer(
        {
            "bootstrap.servers": proxy.address,
            "enable.idempotence": True,
            "socket.timeout.ms": 1000,
            "request.timeout.ms": 1000,
        }
    )
    producer.produce(topic, b"a", partition=0)
    assert producer.flush(60) == 0
    assert proxy.happened.is_set()
    assert stored(broker, topic) == [b"a"]


@pytest.mark.parametrize("fault", [CLOSE_AFTER, CLOSE_BEFORE])
def test_a_transaction_is_committed_once_when_the_answer_to_its_commit_is_lost(
    broker: Kafka, proxy: KafkaProxy, topic: str, fault: str
) -> None:
    proxy.fault = first(END_TXN, fault)
    producer = Producer({"bootstrap.servers": proxy.address, "transactional.id": topic})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, b"a", partition=0)
    producer.commit_transaction(60)
    assert [asked.kind for asked in proxy.faults] == [END_TXN]
    assert stored(broker, topic) == [b"a"]


def test_nothing_passes_while_it_is_unplugged_and_all_after(broker: Kafka, proxy: KafkaProxy, topic: str) -> None:
    proxy.unplug()
    producer = Producer({"bootstrap.servers": proxy.address, "reconnect.backoff.max.ms": 200})
    producer.produce(topic, b"a", partition=0)
    assert producer.flush(1) == 1
    assert stored(broker, topic) == []
    proxy.plug()
    assert producer.flush(60) == 0
    assert stored(broker, topic) == [b"a"]


@pytest.mark.nightly
def test_messages_outlive_a_broker_that_was_killed(broker: Kafka, topic: str) -> None:
    producer = Producer({"bootstrap.servers": broker.address})
    producer.produce(topic, b"a", partition=0)
    assert producer.flush(60) == 0
    broker.kill()
    broker.restart()
    assert stored(broker, topic) == [b"a"]


def test_another_process_finds_the_broker_by_its_folder(broker: Kafka) -> None:
    found = Kafka(broker.folder, proxied=True)
    assert (found.address, found.proxy_port) == (broker.address, broker.proxy_port)

"""Topics between stages while brokers die, answers are lost and quotas hold writers up: each message that counts is read once."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from airflow_samza.errors import StorageUnavailable
from airflow_samza.systems.kafka.access import access_of
from airflow_samza.systems.kafka.brokers import Brokers
from airflow_samza.systems.kafka.own_topics.store import OwnTopics
from airflow_samza.systems.kafka.own_topics.writing import Sender
from airflow_samza.systems.system import MessageRun, Publication, SystemBinding
from demo.kafka import Kafka
from tests.kafka.test_own_topics import noise
from tests.support.budgets import nightly_but
from tests.support.kafka_outputs import read_all
from tests.support.kafka_proxy import DROP_ANSWER, PASS, PRODUCE, Asked, KafkaProxy
from tests.support.topic_contract import STREAM, batch, ssp

pytestmark = [pytest.mark.extended, pytest.mark.kafka, pytest.mark.timeout(300)]

BATCHES = 40


def own_topics(address: str, root: Path, patience: float = 120.0, **settings: int) -> OwnTopics:
    binding = SystemBinding("kafka", {"bootstrap.servers": address, **settings})
    found = OwnTopics(Brokers(access_of("events", binding), patience), str(root))
    found.create([STREAM])
    return found


def publish(found: OwnTopics, staged: dict[int, dict[str, Any]]) -> None:
    found.publish(STREAM, Publication("app/run/stage", "1.1", 0, staged))


def ids(found: OwnTopics) -> list[int]:
    runs = [run for run in found.consumer(STREAM).read(ssp(0), None) if isinstance(run, MessageRun)]
    return [number for run in runs for number in run.batch.column("id").to_pylist()]


@pytest.mark.parametrize("end", nightly_but(["kill"], ["kill", "stop"]))
def test_a_writer_outlives_a_broker_that_goes_in_the_midst_of_it(broker: Kafka, tmp_path: Path, end: str) -> None:
    found, sent = own_topics(broker.address, tmp_path), noise(BATCHES, 500_000)  # two rows are a message
    writer = found.producer(STREAM, "task-0")
    for number in range(BATCHES):
        writer.write(0, sent.slice(number, 1))
        if number == BATCHES // 2:
            getattr(broker, end)()
            back = threading.Thread(target=broker.restart)
            back.start()
    staged = {0: writer.finish()}
    back.join()
    publish(found, staged)
    assert ids(found) == list(range(BATCHES))


def test_a_broker_that_stays_away_ends_the_try_and_the_next_one_writes_anew(broker: Kafka, tmp_path: Path) -> None:
    found = own_topics(broker.address, tmp_path, patience=3.0)
    writer = found.producer(STREAM, "task-0")
    writer.write(0, batch(0, 5))
    broker.freeze()
    try:
        with pytest.raises(StorageUnavailable, match="did not take the messages for 'samza"):
            writer.finish()
        writer.abort()
    finally:
        broker.thaw()
    again = own_topics(broker.address, tmp_path)
    writer = again.producer(STREAM, "task-0-again")
    writer.write(0, batch(0, 5))
    publish(again, {0: writer.finish()})
    assert ids(again) == [0, 1, 2, 3, 4]


@pytest.mark.nightly
@pytest.mark.parametrize("end", ["kill", "stop"])
def test_a_writer_that_cannot_know_where_its_messages_lie_says_that_it_failed(
    broker: Kafka, proxy: KafkaProxy, tmp_path: Path, end: str
) -> None:
    """Answers are lost and the broker starts again: it has messages, and may have forgotten whose and where."""
    found = own_topics(proxy.address, tmp_path, **{"socket.timeout.ms": 1000, "request.timeout.ms": 1000})
    messages = found.topic(STREAM.name).messages
    assert messages is not None
    topic = str(messages["topic"])
    lost: list[Asked] = []

    def fault(asked: Asked) -> str:
        if asked.kind == PRODUCE and len(lost) < 5:
            lost.append(asked)
            return DROP_ANSWER
        return PASS

    first = Sender(found.store.brokers, topic, 1_000_000)
    first.send(0, b"one that lies at offset 0")
    first.finish()
    proxy.fault = fault
    sender = Sender(found.store.brokers, topic, 1_000_000)
    for number in range(5):  # each in a request of its own
        sender.send(0, str(number).encode())
        while len(lost) <= number:
            assert sender._lent is not None
            sender._lent.client.poll(0.01)
    getattr(broker, end)()
    broker.restart()
    try:
        sender.finish()
    except StorageUnavailable:  # the next try writes anew
        return
    lies = {message.value: offset for offset, message in enumerate(read_all(broker.address, topic))}
    assert [lies[str(number).encode()] for number in range(5)] == sender.offsets

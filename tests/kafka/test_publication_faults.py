"""Publications while the broker dies, and while the network loses answers, connections and silence: each message once."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from airflow_samza.systems.kafka import publication as publishing, writing
from demo.kafka import Kafka
from tests.support.kafka_outputs import ids_of, new_topic, outputs, publication, read_all, rows, stage, stream
from tests.support.kafka_proxy import (
    ADD_PARTITIONS,
    CLOSE_AFTER,
    CLOSE_BEFORE,
    DROP_ANSWER,
    END_TXN,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    PASS,
    PRODUCE,
    SILENCE,
    Asked,
    KafkaProxy,
    first,
)
from tests.support.publication_steps import CHUNK, STEPS, watched_producer

pytestmark = [pytest.mark.extended, pytest.mark.kafka, pytest.mark.timeout(300)]

ROWS = 100
KINDS = (FIND_COORDINATOR, INIT_PRODUCER_ID, LIST_OFFSETS, ADD_PARTITIONS, PRODUCE, END_TXN)
FAULTS = (DROP_ANSWER, CLOSE_AFTER, CLOSE_BEFORE, SILENCE)

SOON = {"socket.timeout.ms": 1000, "request.timeout.ms": 1000}
"""Settings of clients that give a request up soon."""


@pytest.fixture(autouse=True)
def small_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "CHUNK_ROWS", CHUNK)


def publish_one(broker: Kafka, address: str, root: Path, **settings: int) -> None:
    """Publishes an epoch in several transactions, by way of an address; each message has to be there once."""
    found, spec = outputs(address, root, **settings), stream(new_topic())
    found.create([spec])
    staged = stage(found, spec, [rows(0, ROWS)])
    found.publish(spec, publication(staged, final=True))
    assert sorted(ids_of(read_all(broker.address, spec.name))) == list(range(ROWS))


@pytest.mark.nightly
@pytest.mark.parametrize(("step", "times"), [(step, times) for step, numbers in STEPS.items() for times in numbers])
def test_a_broker_that_dies_at_any_step_and_comes_back_has_each_message_once(
    broker: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, times: int
) -> None:
    died = threading.Event()

    def reach(found: str, count: int) -> None:
        if (found, count) == (step, times):
            broker.kill()
            died.set()
            threading.Thread(target=broker.restart).start()

    monkeypatch.setattr(writing, "Producer", watched_producer(reach))
    found, spec = outputs(broker.address, tmp_path, patience=120.0), stream(new_topic())
    found.create([spec])
    for epoch in range(3):
        staged = stage(found, spec, [rows(ROWS * epoch, ROWS)])
        found.publish(spec, publication(staged, epoch, final=epoch == 2))
    assert died.is_set()
    assert sorted(ids_of(read_all(broker.address, spec.name))) == list(range(3 * ROWS))


@pytest.mark.parametrize("fault", FAULTS)
def test_a_publication_outlives_the_loss_of_the_answers_to_its_first_messages_and_its_first_commit(
    broker: Kafka, proxy: KafkaProxy, tmp_path: Path, fault: str
) -> None:
    proxy.fault = lambda asked: fault if asked.kind in (PRODUCE, END_TXN) and not asked.earlier else PASS
    publish_one(broker, proxy.address, tmp_path, **SOON)
    assert {asked.kind for asked in proxy.faults} == {PRODUCE, END_TXN}


@pytest.mark.nightly
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("earlier", [0, 1])
def test_a_publication_outlives_the_loss_of_any_answer(
    broker: Kafka, proxy: KafkaProxy, tmp_path: Path, fault: str, kind: int, earlier: int
) -> None:
    def lost(asked: Asked) -> str:
        return fault if (asked.kind, asked.earlier) == (kind, earlier) else PASS

    proxy.fault = lost
    publish_one(broker, proxy.address, tmp_path, **SOON)


def test_a_publication_goes_on_when_all_its_connections_fall_silent(
    broker: Kafka, proxy: KafkaProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    silenced = []

    def reach(step: str, count: int) -> None:
        if (step, count) == ("commit", 2):
            silenced.append(proxy.silence())

    monkeypatch.setattr(writing, "Producer", watched_producer(reach))
    publish_one(broker, proxy.address, tmp_path, **SOON)
    assert silenced
    assert silenced[0]


def test_a_plan_asks_again_over_a_new_connection(broker: Kafka, proxy: KafkaProxy, tmp_path: Path) -> None:
    found, spec = outputs(proxy.address, tmp_path, **SOON), stream(new_topic())
    found.create([spec])
    found.check_writable(spec)
    assert proxy.silence()
    proxy.fault = first(FIND_COORDINATOR, DROP_ANSWER)
    found.check_writable(spec)

"""Reading from a broker that goes away: it goes on when the broker is back, and ends with one sentence when not."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_samza.errors import StorageUnavailable
from airflow_samza.systems.kafka import reading as reading_module
from airflow_samza.systems.kafka.brokers import Brokers
from airflow_samza.systems.system import StreamSpec, SystemStreamPartition
from demo.kafka import Kafka
from tests.support.kafka_side_inputs import Profiles
from tests.support.kafka_topics import Sent, Topics, numbered, offsets, read
from tests.support.waiting import until

pytestmark = [pytest.mark.extended, pytest.mark.kafka]

# More than a client holds in memory, so that it has to ask again.
MESSAGES = 600
PADDING = "x" * 100_000


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    found = Kafka(tmp_path_factory.mktemp("away") / "broker")
    try:
        found.start()
        yield found
    finally:
        found.kill()


@pytest.fixture
def stream(own: Kafka) -> StreamSpec:
    topics = Topics(own.address)
    topic = topics.make()
    topics.send(topic, [Sent(f'{{"id":{number},"padding":"{PADDING}"}}') for number in range(MESSAGES)])
    return StreamSpec(topic, schema="id bigint, padding string")


def test_reading_goes_on_where_it_was_when_a_killed_broker_is_back(
    own: Kafka, stream: StreamSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    for bound in ("_AT_A_TIME", "_BATCH"):
        monkeypatch.setattr(reading_module, bound, 10)
    reading = Topics(own.address).system.consumer(stream).read(SystemStreamPartition("events", stream.name, 0), None)
    seen = offsets([next(reading)])
    own.kill()
    rest = threading.Thread(target=lambda: seen.extend(offsets(reading)))
    rest.start()
    own.restart()
    rest.join(120)
    assert seen == list(range(MESSAGES))


@pytest.mark.nightly
def test_a_client_that_asked_a_former_leader_asks_the_new_one(own: Kafka) -> None:
    topics = Topics(own.address)
    topic, brokers = topics.make(), Brokers(topics.system.brokers.access, 30.0)
    topics.send(topic, numbered([1]))
    assert brokers.bounds(topic, 0) == (0, 1)
    own.kill()
    own.restart()
    assert brokers.bounds(topic, 0) == (0, 1)


@pytest.mark.nightly
def test_a_stage_fills_its_tables_when_a_killed_broker_is_back(own: Kafka, tmp_path: Path) -> None:
    profiles = Profiles(tmp_path, Topics(own.address))
    profiles.change([(1, "gold"), (2, "silver"), (2, None)])
    profiles.view([1, 2])
    plan = profiles.plan()
    own.kill()
    stage = threading.Thread(target=profiles.here.stages, args=[plan])
    stage.start()
    own.restart()
    stage.join(120)
    assert profiles.tiers() == {1: "gold", 2: None}


@pytest.mark.nightly
def test_a_broker_that_stays_away_is_one_sentence(
    own: Kafka, stream: StreamSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    for bound in ("_AT_A_TIME", "_BATCH"):
        monkeypatch.setattr(reading_module, bound, 10)
    system = Topics(own.address).system
    system.brokers = Brokers(system.brokers.access, 2.0)
    reading = system.consumer(stream).read(SystemStreamPartition("events", stream.name, 0), None)
    next(reading)
    own.freeze()
    try:
        with pytest.raises(StorageUnavailable, match=r"gave no message from offset \d+ for \d+ s"):
            list(reading)
    finally:
        own.thaw()
    until(lambda: len(offsets(read(Topics(own.address).system, stream))) == MESSAGES, 120)


def test_brokers_that_are_not_there_are_one_sentence(own: Kafka) -> None:
    from demo.java_servers import free_ports

    system = Topics(f"127.0.0.1:{free_ports(1)[0]}").system
    system.brokers = Brokers(system.brokers.access, 1.0)
    with pytest.raises(StorageUnavailable, match="cannot be asked"):
        system.slice(StreamSpec("views", schema="id bigint"))

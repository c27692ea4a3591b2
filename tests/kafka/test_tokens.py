"""Tokens that expire in the midst of a run: new ones are fetched, and where none are to be had it is one sentence."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_samza.errors import StorageUnavailable
from airflow_samza.systems.kafka import reading as reading_module
from airflow_samza.systems.kafka.system import KafkaSystem
from airflow_samza.systems.system import StreamSpec, SystemBinding, SystemStreamPartition
from demo.kafka import ADMIN
from tests.support.kafka_outputs import ids_of, new_topic, publication, read_all, rows, stage, stream
from tests.support.kafka_topics import Sent, Topics, offsets
from tests.support.token_endpoint import TokenEndpoint
from tests.support.waiting import until

if TYPE_CHECKING:
    from demo.kafka import Kafka

pytestmark = [pytest.mark.extended, pytest.mark.kafka, pytest.mark.timeout(300)]

SECONDS = 4
"""Life of a token: the client fetches a new one when four fifths of it are over."""

MESSAGES = 600
PADDING = "x" * 100_000
"""More than a client holds in memory, so that it has to ask again."""


@pytest.fixture
def endpoint() -> Iterator[TokenEndpoint]:
    with TokenEndpoint(ADMIN, SECONDS) as found:
        yield found


@pytest.fixture
def system(kafka: Kafka, endpoint: TokenEndpoint, tmp_path: Path) -> KafkaSystem:
    known = {"bootstrap.servers": kafka.sasl_address, "ssl.ca.location": str(kafka.certificates.authority)}
    return KafkaSystem("events", SystemBinding("kafka", {**known, **endpoint.settings}), str(tmp_path))


@pytest.fixture
def views(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> StreamSpec:
    for bound in ("_AT_A_TIME", "_BATCH"):
        monkeypatch.setattr(reading_module, bound, 10)
    topic = topics.make()
    topics.send(topic, [Sent(f'{{"id":{number},"padding":"{PADDING}"}}') for number in range(MESSAGES)])
    return StreamSpec(topic, schema="id bigint, padding string")


def test_reading_goes_on_with_new_tokens(system: KafkaSystem, endpoint: TokenEndpoint, views: StreamSpec) -> None:
    reading = system.consumer(views).read(SystemStreamPartition("events", views.name, 0), None)
    seen = offsets([next(reading)])
    given = endpoint.given
    until(lambda: endpoint.given >= given + 3, 120)  # the session of the first token is over
    assert [*seen, *offsets(reading)] == list(range(MESSAGES))


@pytest.mark.nightly
def test_publishing_goes_on_with_new_tokens(kafka: Kafka, system: KafkaSystem, endpoint: TokenEndpoint) -> None:
    spec = stream(new_topic())
    system.create([spec])
    for epoch in range(3):
        staged = stage(system, spec, [rows(100 * epoch, 100)])
        system.publish(spec, publication(staged, epoch, final=epoch == 2))
        given = endpoint.given
        until(lambda: endpoint.given >= given + 3, 120)  # noqa: B023
    assert sorted(ids_of(read_all(kafka.address, spec.name))) == list(range(300))


@pytest.mark.nightly
def test_reading_ends_with_one_sentence_when_there_are_no_tokens_any_more(
    system: KafkaSystem, endpoint: TokenEndpoint, views: StreamSpec
) -> None:
    reading = system.consumer(views).read(SystemStreamPartition("events", views.name, 0), None)
    next(reading)
    endpoint.is_open = False
    until(lambda: time.time() > endpoint.over)  # else a quick reader is done before its session ends
    system.brokers.patience = 2 * SECONDS
    with pytest.raises(StorageUnavailable, match=r"gave no message from offset \d+ for \d+ s: .*token"):
        list(reading)

"""Consumers keep the error that says the most of why no messages come; their log has no line of one trouble twice."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, Producer

from airflow_samza.errors import SamzaError
from airflow_samza.systems.kafka import access_check, clients
from airflow_samza.systems.kafka.access import KafkaAccess
from airflow_samza.systems.kafka.clients import Sparing, WarmConsumer

LOGIN, CLOSED, NOBODY = KafkaError._AUTHENTICATION, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN


@pytest.fixture
def consumer() -> Iterator[WarmConsumer]:
    found = WarmConsumer(KafkaAccess("events", (("bootstrap.servers", "127.0.0.1:1"),)))
    yield found
    found.close()


@pytest.mark.parametrize(
    ("codes", "told"),
    [
        ([LOGIN, CLOSED, NOBODY], LOGIN),
        ([CLOSED, LOGIN], LOGIN),
        ([CLOSED, NOBODY], CLOSED),
        ([NOBODY, CLOSED], CLOSED),
        ([NOBODY], NOBODY),
    ],
)
def test_a_rejected_login_says_more_than_a_closed_connection(
    consumer: WarmConsumer, codes: list[int], told: int
) -> None:
    for code in codes:
        consumer.note(KafkaError(code))
    assert consumer.trouble is not None
    assert consumer.trouble.code() == told


def test_messages_that_were_in_memory_end_no_trouble(consumer: WarmConsumer) -> None:
    consumer.note(KafkaError(LOGIN))
    consumer.came()
    consumer.note(KafkaError(CLOSED))
    assert consumer.trouble is not None
    assert consumer.trouble.code() == LOGIN


def test_trouble_that_would_have_been_reported_again_is_over(
    consumer: WarmConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer.note(KafkaError(LOGIN))
    monkeypatch.setattr(clients, "_REPEATED_SECONDS", -1.0)
    consumer.note(KafkaError(CLOSED))
    assert consumer.trouble is not None
    assert consumer.trouble.code() == CLOSED
    consumer.came()
    assert consumer.trouble is None


def test_a_connection_that_is_lent_again_still_knows_the_trouble_that_is_not_reported_again(
    consumer: WarmConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer.note(KafkaError(LOGIN))
    assert consumer.rest()
    assert consumer.trouble is not None
    monkeypatch.setattr(clients, "_REPEATED_SECONDS", -1.0)
    assert consumer.rest()
    assert consumer.trouble is None


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> logging.Logger:
    found = logging.getLogger("test.lines")
    found.addFilter(Sparing())
    return found


def test_lines_that_differ_in_numbers_only_come_once(lines: logging.Logger, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(5):
        lines.warning("Connect to 127.0.0.1:9092 failed (after %d ms)", number)
    lines.warning("Coordinator load in progress")
    assert [record.getMessage() for record in caplog.records] == [
        "Connect to 127.0.0.1:9092 failed (after 0 ms)",
        "Coordinator load in progress",
    ]


def test_a_line_comes_again_when_its_time_is_over(
    lines: logging.Logger, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "SECONDS", 0.0)
    for _ in range(2):
        lines.warning("Connect failed")
    assert len(caplog.records) == 2


def test_an_error_keeps_no_client_that_has_tried_a_transactional_id(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[weakref.ref[Producer]] = []

    class Watched(Producer):
        def __init__(self, *arguments: object, **options: object) -> None:
            super().__init__(*arguments, **options)
            made.append(weakref.ref(self))

    monkeypatch.setattr(access_check, "Producer", Watched)
    monkeypatch.setattr(access_check, "_client", lambda *_: None)
    with pytest.raises(SamzaError) as error:
        access_check.check_transactional_id(KafkaAccess("events", (("bootstrap.servers", "127.0.0.1:1"),)), "ids", 0.1)
    assert error.value is not None
    assert made[0]() is None

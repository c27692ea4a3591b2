"""A sender to a run's own topic, and reports of the client that no broker gives on request."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from airflow_samza.errors import StorageUnavailable
from airflow_samza.systems.kafka.access import access_of
from airflow_samza.systems.kafka.brokers import Brokers
from airflow_samza.systems.kafka.own_topics import writing
from airflow_samza.systems.system import SystemBinding

FATAL = KafkaException(KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, "the broker has forgotten", fatal=True))


class Client:
    """A client that reports one message as a test says."""

    def __init__(self, offset: int | None, raises: BaseException | None = None) -> None:
        self._offset = offset
        self._raises = raises
        self._report: Callable[..., None] | None = None

    def produce(self, *arguments: Any, on_delivery: Callable[..., None], **more: Any) -> None:
        self._report = on_delivery

    def poll(self, seconds: float) -> int:
        return 0

    def flush(self, seconds: float) -> int:
        if self._raises is not None:
            raise self._raises
        assert self._report is not None
        self._report(None, SimpleNamespace(offset=lambda: self._offset))
        return 0


def sender(monkeypatch: pytest.MonkeyPatch, client: Client) -> writing.Sender:
    lent = SimpleNamespace(client=client, fatal=None)
    pool = SimpleNamespace(take=lambda key, make: lent, give_back=lambda producer: None, discard=lambda producer: None)
    monkeypatch.setattr(writing, "producers", pool)
    access = access_of("events", SystemBinding("kafka", {"bootstrap.servers": "broker:9092"}))
    made = writing.Sender(Brokers(access, 1.0), "samza.views", 1000)
    made.send(0, b"a")
    return made


def test_notes_the_offset_of_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    found = sender(monkeypatch, Client(7))
    found.finish()
    assert found.offsets == [7]


def test_takes_a_message_for_lost_when_nobody_says_where_it_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit that named another offset would name another message."""
    with pytest.raises(StorageUnavailable, match="nobody says where it lies"):
        sender(monkeypatch, Client(None)).finish()


def raised_by_a_report() -> SystemError:
    """A fatal error that the client raises while it calls a report, as Python hands it on."""
    error = SystemError("<class 'int'> returned a result with an exception set")
    error.__cause__ = FATAL
    return error


@pytest.mark.parametrize("raised", [FATAL, raised_by_a_report()], ids=["itself", "from a report"])
def test_a_fatal_error_of_the_client_is_one_sentence(monkeypatch: pytest.MonkeyPatch, raised: BaseException) -> None:
    with pytest.raises(
        StorageUnavailable, match=r"did not take the messages for 'samza\.views': the broker has forgot"
    ):
        sender(monkeypatch, Client(7, raised)).finish()

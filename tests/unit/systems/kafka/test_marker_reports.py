"""Reports that a consumer gives while it reads markers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from airflow_samza.errors import SamzaError
from airflow_samza.systems.kafka import reading
from airflow_samza.systems.kafka.access import access_of
from airflow_samza.systems.kafka.brokers import Brokers
from airflow_samza.systems.kafka.clients import PASSING
from airflow_samza.systems.kafka.markers import MarkerKeys, Markers
from airflow_samza.systems.system import SystemBinding

KEYS = MarkerKeys("root", "app", "out")


class Came:
    """Message that a client gives, or a report among the messages."""

    def __init__(self, offset: int, code: int | None = None) -> None:
        self._offset = offset
        self._error = None if code is None else KafkaError(code)

    def error(self) -> KafkaError | None:
        return self._error

    def offset(self) -> int:
        return self._offset

    def key(self) -> bytes:
        return KEYS.of_run("app/run/stage").encode()

    def value(self) -> bytes:
        return b"%d" % self._offset


def read(monkeypatch: pytest.MonkeyPatch, *given: list[Came]) -> dict[str, bytes]:
    """Return what is read of a topic with two markers, while a consumer gives this, one list after the other."""
    lists: Iterator[list[Came]] = iter(given)

    def ignored(*more: Any) -> None:
        """Do nothing: the reports of what is read are not looked at here."""

    lent = SimpleNamespace(
        client=SimpleNamespace(consume=lambda most, seconds: next(lists)),
        passing=PASSING,
        trouble=None,
        read_from=ignored,
        came=ignored,
        note=ignored,
    )

    @contextmanager
    def consumer(access: Any) -> Iterator[Any]:
        yield lent

    monkeypatch.setattr(reading, "consumer", consumer)
    monkeypatch.setattr(reading, "Message", Came)
    monkeypatch.setattr(Brokers, "bounds", lambda *place: (0, 2))
    access = access_of("events", SystemBinding("kafka", {"bootstrap.servers": "broker:9092"}))
    markers = Markers(Brokers(access, 1.0), "markers")
    markers._count = 1
    return markers.read(KEYS)


@pytest.mark.parametrize("code", [KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError._TRANSPORT])
def test_a_report_that_passes_ends_no_reading_of_markers(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    assert list(read(monkeypatch, [Came(-1001, code)], [Came(0), Came(1)]).values()) == [b"1"]


def test_a_topic_of_markers_that_may_not_be_read_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SamzaError, match="markers"):
        read(monkeypatch, [Came(-1001, KafkaError.TOPIC_AUTHORIZATION_FAILED)])


def test_reading_ends_where_the_last_offsets_hold_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    eof = Came(2, KafkaError._PARTITION_EOF)
    assert list(read(monkeypatch, [Came(0)], [eof]).values()) == [b"0"]

"""Reports that a consumer gives while it reads markers."""

from __future__ import annotations

from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, Message

from airflow_samza.errors import SamzaError
from airflow_samza.systems.kafka.access import access_of
from airflow_samza.systems.kafka.brokers import Brokers
from airflow_samza.systems.kafka.markers import Markers
from airflow_samza.systems.system import SystemBinding


class Report:
    """A report of the client, which comes among the messages."""

    def __init__(self, code: int) -> None:
        self._error = KafkaError(code)

    def error(self) -> KafkaError:
        return self._error

    def offset(self) -> int:
        return -1001


def taken(code: int) -> int:
    access = access_of("events", SystemBinding("kafka", {"bootstrap.servers": "broker:9092"}))
    markers = Markers(Brokers(access, 1.0), "markers")
    return markers._take(cast(Message, cast(Any, Report(code))), b"", {})


@pytest.mark.parametrize("code", [KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError._TRANSPORT])
def test_a_report_that_passes_ends_no_reading_of_markers(code: int) -> None:
    assert taken(code) == 0


def test_a_topic_of_markers_that_may_not_be_read_is_an_error() -> None:
    with pytest.raises(SamzaError, match="markers"):
        taken(KafkaError.TOPIC_AUTHORIZATION_FAILED)

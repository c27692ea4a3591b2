"""The trouble of a consumer: the error that says the most of why no messages come."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from airflow_samza.systems.kafka.access import KafkaAccess
from airflow_samza.systems.kafka.clients import WarmConsumer

LOGIN, CLOSED, NOBODY = KafkaError._AUTHENTICATION, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN


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
def test_a_rejected_login_says_more_than_a_closed_connection(codes: list[int], told: int) -> None:
    consumer = WarmConsumer(KafkaAccess("events", (("bootstrap.servers", "127.0.0.1:1"),)))
    try:
        for code in codes:
            consumer.note(KafkaError(code))
        assert consumer.trouble is not None
        assert consumer.trouble.code() == told
    finally:
        consumer.close()

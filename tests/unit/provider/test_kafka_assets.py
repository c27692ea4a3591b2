"""Assets of topics: one URI for all spellings, and what is none."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from airflow_samza.errors import ConfigError
from airflow_samza.provider.kafka_assets import kafka_topic, sanitize_uri, topic_uri


def test_brokers_have_one_order_their_ports_and_no_protocols() -> None:
    uri = "kafka://kafka-1:9092,kafka-2:9093/views"
    assert topic_uri("views", "SSL://Kafka-2:9093, kafka-1,") == uri
    assert kafka_topic("views", ["kafka-1", "kafka-2:9093"]).uri == uri
    assert sanitize_uri(urlsplit("kafka://kafka-2:9093,kafka-1/views/")).geturl() == uri
    assert topic_uri("views", "[::1]") == "kafka://[::1]:9092/views"


@pytest.mark.parametrize("uri", ["kafka:///views", "kafka://kafka:9092", "kafka://kafka:9092/", "kafka://kafka/a/b"])
def test_an_asset_without_brokers_or_one_topic_is_rejected(uri: str) -> None:
    with pytest.raises(ValueError, match="is not of the form kafka://broker:9092/topic"):
        sanitize_uri(urlsplit(uri))


@pytest.mark.parametrize(("topic", "brokers", "missing"), [("", "kafka", "topic"), ("views", " , ", "brokers")])
def test_what_is_missing_of_a_topic_is_named(topic: str, brokers: str, missing: str) -> None:
    with pytest.raises(ConfigError, match=f"has no {missing}"):
        kafka_topic(topic, brokers)

"""Airflow's connections of type kafka bind systems, as they are for the operators of Kafka's provider."""

from __future__ import annotations

import json
from typing import Any

import pytest
from airflow.sdk import Connection

from airflow_samza.errors import ConfigError
from airflow_samza.provider.connections.bindings import binding_of
from airflow_samza.provider.connections.kafka import ANSWER_SECONDS, find_brokers
from airflow_samza.systems.kafka import access_check
from airflow_samza.systems.system import SystemBinding


def bound(extra: dict[str, Any] | None = None, **fields: Any) -> SystemBinding:
    text = json.dumps(extra) if extra is not None else None
    connection = Connection(conn_id="c", conn_type="kafka", extra=text, **fields)
    return binding_of("events", "c", connection, {"c": connection}.__getitem__)


def test_the_extra_is_settings_of_the_client() -> None:
    extra = {"bootstrap.servers": "kafka:9092", "security.protocol": "SASL_SSL", "sasl.password": "hunter2"}
    found = bound(extra)
    assert (found.kind, dict(found.options)) == ("kafka", extra)
    assert found.secret == {"sasl.password"}
    assert "hunter2" not in repr(found)


def test_what_other_operators_need_for_their_consumers_is_left_out() -> None:
    extra = {"bootstrap.servers": "kafka:9092", "group.id": "theirs", "auto.offset.reset": "latest", "error_cb": "a.b"}
    assert dict(bound(extra).options) == {"bootstrap.servers": "kafka:9092"}


def test_fields_stand_for_settings_that_the_extra_leaves_out() -> None:
    found = bound({"sasl.username": "jo"}, host="kafka", port=9093, login="other", password="hunter2")
    assert dict(found.options) == {
        "bootstrap.servers": "kafka:9093",
        "sasl.username": "jo",
        "sasl.password": "hunter2",
    }
    assert found.secret == {"sasl.password"}
    assert bound(host="kafka").options["bootstrap.servers"] == "kafka"


def test_a_connection_without_brokers_is_rejected_with_the_command_that_sets_them() -> None:
    with pytest.raises(ConfigError, match=r"no bootstrap.servers\.\n.*airflow connections add c --conn-type kafka"):
        bound({})


def test_airflow_masks_the_secrets_in_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    masked: list[str] = []
    monkeypatch.setattr("airflow.sdk.log.mask_secret", masked.append)
    bound({"bootstrap.servers": "kafka:9092", "ssl.key.pem": "hunter3"}, password="hunter2")
    assert sorted(masked) == ["hunter2", "hunter3"]


@pytest.fixture
def let_in(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, float]]:
    """The addresses whose brokers were asked whether they let us in, and for how long: they do."""
    asked: list[tuple[str, float]] = []
    monkeypatch.setattr(access_check, "check_brokers", lambda access, wait: asked.append((access.addresses, wait)))
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_EU", "kafka://kafka:9093")
    monkeypatch.setenv("AIRFLOW_CONN_DISK", "fs://")
    return asked


def test_triggers_and_sensors_ask_brokers_that_let_them_in_within_seconds(let_in: list[tuple[str, float]]) -> None:
    found = find_brokers("kafka_eu")
    assert (found.system, found.access.addresses, found.patience) == ("kafka_eu", "kafka:9093", ANSWER_SECONDS)
    assert let_in == [("kafka:9093", ANSWER_SECONDS)]


def test_only_connections_of_type_kafka_have_brokers(let_in: list[tuple[str, float]]) -> None:
    with pytest.raises(ConfigError, match="'disk' is of type 'fs', and brokers of Kafka are asked with one of type"):
        find_brokers("disk")
    assert let_in == []


def test_brokers_of_a_connection_that_is_not_there_are_a_sentence_with_the_command_that_adds_it() -> None:
    with pytest.raises(ConfigError, match="The connection 'kafka_us' is not defined") as raised:
        find_brokers("kafka_us")
    assert "airflow connections add kafka_us --conn-type kafka" in str(raised.value)

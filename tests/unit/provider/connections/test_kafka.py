"""Airflow's connections of type kafka bind systems, as they are for the operators of Kafka's provider."""

from __future__ import annotations

import json
from typing import Any

import pytest
from airflow.sdk import Connection

from airflow_samza.errors import ConfigError
from airflow_samza.provider.connections.bindings import bind_connections
from airflow_samza.systems.system import SystemBinding


def bound(extra: dict[str, Any] | None = None, **fields: Any) -> SystemBinding:
    text = json.dumps(extra) if extra is not None else None
    connection = Connection(conn_id="c", conn_type="kafka", extra=text, **fields)
    return bind_connections({"events": "c"}, {"c": connection}.__getitem__)["events"]


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

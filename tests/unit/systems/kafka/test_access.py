"""The settings that lead to brokers: what a system may set, and that no text shows a secret."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_samza.errors import ConfigError
from airflow_samza.launch.bindings import bindings_from_json, bindings_to_json, without_secrets
from airflow_samza.systems.kafka.access import CALLBACKS, OWNED, access_of, shared_options
from airflow_samza.systems.system import SystemBinding

BROKERS = {"bootstrap.servers": "kafka-1:9092,kafka-2:9092"}
SASL = {
    **BROKERS,
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "jo",
    "sasl.password": "hunter2",
    "ssl.key.pem": "-----BEGIN hunter3",
    "ssl.key.password": "hunter4",
}


def binding(**options: Any) -> SystemBinding:
    return SystemBinding("kafka", {**BROKERS, **options})


def test_settings_of_the_client_are_passed_on_as_texts() -> None:
    found = access_of("events", binding(**{"socket.keepalive.enable": True, "socket.timeout.ms": 5000}))
    assert found.settings == {
        **BROKERS,
        "client.id": "airflow-samza-events",
        "socket.keepalive.enable": "true",
        "socket.timeout.ms": "5000",
    }


def test_the_name_that_brokers_log_can_be_set() -> None:
    assert access_of("events", binding(**{"client.id": "etl"})).settings["client.id"] == "etl"


@pytest.mark.parametrize("setting", [*OWNED, *CALLBACKS])
def test_rejects_a_setting_when_it_is_ours(setting: str) -> None:
    with pytest.raises(ConfigError, match=f"The system 'events' sets {setting}, ") as caught:
        access_of("events", binding(**{setting: "x"}))
    assert caught.value.facts["key"] == f"systems.events.{setting}"


def test_a_connection_that_others_use_may_have_what_their_clients_need() -> None:
    others = {name: "x" for name in (*OWNED, *CALLBACKS) if name != "oauth_cb"}
    assert shared_options({**BROKERS, **others}) == BROKERS


def test_rejects_a_function_for_tokens_in_a_connection_and_names_what_fetches_them() -> None:
    with pytest.raises(ConfigError, match=r"oauth_cb, a function.*\n.*sasl.oauthbearer.method=oidc"):
        access_of("events", SystemBinding("kafka", shared_options({**BROKERS, "oauth_cb": "jo.tokens"})))


@pytest.mark.parametrize("addresses", [{}, {"bootstrap.servers": ""}])
def test_rejects_a_system_when_it_has_no_addresses(addresses: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"The system 'events' of kind kafka has no bootstrap\.servers\."):
        access_of("events", SystemBinding("kafka", addresses))


def test_rejects_a_setting_when_it_is_an_object_without_showing_it() -> None:
    with pytest.raises(ConfigError, match=r"The setting sasl.password of the system 'events' is a dict") as caught:
        access_of("events", binding(**{"sasl.password": {"x": "hunter2"}}))
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("setting", "remedy"),
    [("ssl.ca.location", "ssl.ca.pem"), ("ssl.key.location", "ssl.key.pem"), ("ssl.keystore.location", "every host")],
)
def test_rejects_a_file_when_it_is_not_there(setting: str, remedy: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"no such file on this host\.\n.*{remedy}"):
        access_of("events", binding(**{setting: str(tmp_path / "missing.pem")}))
    (tmp_path / "there.pem").touch()
    assert access_of("events", binding(**{setting: str(tmp_path / "there.pem")})).settings[setting]


def test_authorities_of_the_operating_system_are_no_file() -> None:
    assert access_of("events", binding(**{"ssl.ca.location": "probe"})).settings["ssl.ca.location"] == "probe"


def test_the_options_of_a_schema_registry_are_no_settings_of_the_client() -> None:
    assert "schema.registry.url" not in access_of("events", binding(**{"schema.registry.url": "http://r"})).settings


def test_secrets_stand_in_no_text_and_no_digest_and_reach_another_process_whole() -> None:
    bound = SystemBinding("kafka", SASL)
    told = bindings_from_json(json.loads(json.dumps(bindings_to_json({"events": bound}))))["events"]
    access = access_of("events", told)
    assert {access.settings[name] for name in ("sasl.password", "ssl.key.pem", "ssl.key.password")} == {
        "hunter2",
        "-----BEGIN hunter3",
        "hunter4",
    }
    shown = f"{bound!r} {access!r} {without_secrets({'events': bound})}"
    assert "hunter" not in shown
    assert "hunter" not in access.without_secrets("wrong: hunter2, -----BEGIN hunter3, hunter4")


@pytest.mark.parametrize(
    ("options", "identity"),
    [
        ({}, "a client that does not say who it is"),
        ({"security.protocol": "SSL"}, "a client that does not say who it is"),
        ({"security.protocol": "SSL", "ssl.certificate.pem": "x"}, "the owner of the client's certificate"),
        ({"security.protocol": "SASL_SSL", "sasl.username": "jo"}, "the user 'jo'"),
        (
            {"security.protocol": "sasl_ssl", "sasl.mechanisms": "OAUTHBEARER"},
            "the holder of the token (OAUTHBEARER)",
        ),
    ],
)
def test_whoever_asks_has_a_name(options: dict[str, str], identity: str) -> None:
    assert access_of("events", binding(**options)).identity == identity

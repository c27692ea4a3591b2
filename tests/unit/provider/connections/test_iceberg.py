"""Airflow's connections of type iceberg bind systems, as they are for the hooks of Iceberg's provider."""

from __future__ import annotations

import json
from typing import Any

import pytest
from airflow.sdk import Connection

from airflow_samza.provider.connections.bindings import binding_of, types_of
from airflow_samza.systems.iceberg.system import IcebergSystem
from airflow_samza.systems.system import SystemBinding


def bound(extra: dict[str, Any] | None = None, **fields: Any) -> SystemBinding:
    text = json.dumps(extra) if extra is not None else None
    connection = Connection(conn_id="c", conn_type="iceberg", extra=text, **fields)
    return binding_of("lake", "c", connection, {"c": connection}.__getitem__)


def test_the_host_is_the_address_of_a_rest_catalog_and_its_credential_is_secret() -> None:
    found = bound({"warehouse": "prod"}, host="https://catalog/", login="me", password="hunter2")
    assert (found.kind, dict(found.options)) == (
        "iceberg",
        {
            "warehouse": "prod",
            "catalog": "c",
            "uri": "https://catalog",
            "type": "rest",
            "credential": "me:hunter2",
        },
    )
    assert found.secret == {"credential"}
    assert "hunter2" not in repr(found)
    settings = IcebergSystem("lake", found).settings
    assert (settings.name, settings.type, settings.place) == ("c", "rest", "https://catalog")


def test_the_extra_holds_properties_of_other_catalogs() -> None:
    extra = {"type": "sql", "uri": "postgresql+psycopg2://me:hunter2@db/x", "catalog": "prod", "warehouse": "s3://lake"}
    found = bound(extra)
    assert dict(found.options) == extra
    assert found.secret == {"uri"}


def test_a_root_is_a_catalog_in_a_folder() -> None:
    found = bound({"root": "/data/lake"})
    assert IcebergSystem("lake", found).settings.place == "/data/lake/catalog.db"
    assert IcebergSystem("lake", found).settings.name == "default"


def test_airflow_masks_the_secrets_in_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    masked: list[str] = []
    monkeypatch.setattr("airflow.sdk.log.mask_secret", masked.append)
    bound({"s3.secret-access-key": "hunter3", "token": "hunter4"}, host="https://catalog", login="me", password="x")
    assert sorted(masked) == ["hunter3", "hunter4", "me:x"]


def test_airflow_masks_what_is_secret_within_an_object_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    masked: list[str] = []
    monkeypatch.setattr("airflow.sdk.log.mask_secret", masked.append)
    auth = {"type": "basic", "basic": {"username": "jo", "password": "hunter5"}}
    found = bound({"auth": auth}, host="https://catalog")
    assert masked == ["hunter5"]
    assert "hunter5" not in repr(found)
    assert IcebergSystem("lake", found).settings.properties["auth"] == auth


def test_the_type_is_that_of_the_kind() -> None:
    assert types_of("iceberg") == ("iceberg",)


@pytest.mark.parametrize(
    ("fields", "credential"),
    [
        ({"host": "http://rest", "login": "jo", "password": "hush"}, "jo:hush"),
        ({"host": "http://rest", "login": "jo"}, None),
        ({"host": "http://rest", "password": "hush"}, None),
        ({"host": "thrift://hive", "extra": {"type": "hive"}, "login": "jo", "password": "hush"}, None),
        ({"host": "http://rest", "extra": {"credential": "its own"}, "login": "jo", "password": "hush"}, "its own"),
    ],
)
def test_login_and_password_are_the_credential_of_a_rest_catalog_alone(
    fields: dict[str, Any], credential: str | None
) -> None:
    assert bound(**fields).options.get("credential") == credential

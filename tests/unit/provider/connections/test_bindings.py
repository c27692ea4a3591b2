from __future__ import annotations

import json
from typing import Any

import pytest
from airflow.sdk import Connection

from airflow_samza.errors import ConfigError
from airflow_samza.provider.connections.bindings import binding_of, root_of, text_map
from airflow_samza.system_kinds import BUILT_IN, SystemKind
from airflow_samza.systems.system import SystemBinding


def connection(kind: str, **more: Any) -> Connection:
    extra = more.pop("extra", None)
    return Connection(conn_id="c", conn_type=kind, extra=json.dumps(extra) if extra is not None else None, **more)


def bound(name: str, conn_id: str, made: Connection) -> SystemBinding:
    """The binding of one system by one connection."""
    return binding_of(name, conn_id, made, {conn_id: made}.__getitem__)


def test_a_samza_connection_binds_a_log_under_its_root() -> None:
    binding = bound("logs", "c", connection("samza", extra={"root": "/data/samza"}))
    assert (binding.kind, dict(binding.options)) == ("log", {"root": "/data/samza"})


def test_a_file_path_connection_binds_files() -> None:
    binding = bound("data", "c", connection("fs", extra={"path": "/in"}))
    assert (binding.kind, binding.options["root"]) == ("files", "/in")


@pytest.mark.parametrize(("kind", "system", "field"), [("samza", "log", "root"), ("fs", "files", "path")])
def test_on_hdfs_a_connection_says_who_asks_and_its_token_is_secret(kind: str, system: str, field: str) -> None:
    binding = bound(
        "logs", "c", connection(kind, login="jo", password="hunter2", extra={field: "webhdfs://nn:9870/in"})
    )
    assert (binding.kind, dict(binding.options)) == (
        system,
        {"root": "webhdfs://nn:9870/in", "user": "jo", "token": "hunter2"},
    )
    assert binding.secret == {"token"}
    assert dict(bound("logs", "c", connection(kind, login="jo", extra={field: "/in"})).options) == {"root": "/in"}


@pytest.mark.parametrize("kind", ["postgres", "aws", "http"])
def test_other_types_are_rejected_with_what_can_be_used(kind: str) -> None:
    with pytest.raises(ConfigError, match=rf"of type '{kind}' cannot bind the system 'logs'.*\n.*samza.*fs"):
        bound("logs", "c", connection(kind, password="hunter2"))


@pytest.mark.parametrize("kind", ["samza", "fs"])
def test_a_connection_without_a_place_is_rejected_with_the_command_that_sets_it(kind: str) -> None:
    with pytest.raises(ConfigError, match=f"airflow connections add c --conn-type {kind}"):
        bound("logs", "c", connection(kind))


def test_an_extra_that_is_no_object_is_rejected_without_showing_it() -> None:
    with pytest.raises(ConfigError) as rejected:
        root_of("c", Connection(conn_id="c", conn_type="samza", extra='["hunter2"]'))
    assert "hunter2" not in str(rejected.value)


def test_a_connection_of_a_kind_that_connects_binds_it_by_its_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BUILT_IN, "queue", SystemKind("queues:Queue", connects=True))
    made = connection("queue", host="broker", port=9092, login="jo", password="hunter2", extra={"group": "views"})
    binding = bound("orders", "c", made)
    assert (binding.kind, dict(binding.options)) == (
        "queue",
        {"group": "views", "host": "broker", "port": 9092, "login": "jo", "password": "hunter2"},
    )
    assert "hunter2" not in repr(binding)
    monkeypatch.setitem(BUILT_IN, "queue", SystemKind("queues:Queue"))
    with pytest.raises(ConfigError, match="of type 'queue' cannot bind"):
        bound("orders", "c", made)


def test_the_root_may_be_the_host_of_the_connection() -> None:
    assert root_of("c", Connection(conn_id="c", conn_type="samza", host="/data/samza")) == "/data/samza"


def test_settings_become_texts_as_spark_writes_them() -> None:
    assert text_map("spark_conf", {"a": 1, "b": True, "c": "x"}) == {"a": "1", "b": "true", "c": "x"}
    assert text_map("spark_conf", '{"spark.ui.enabled": false}') == {"spark.ui.enabled": "false"}
    assert text_map("spark_conf", None) == {}


@pytest.mark.parametrize("value", ["{", "[1]", [1], 7])
def test_settings_that_are_no_mapping_are_rejected(value: object) -> None:
    with pytest.raises(ConfigError, match="spark_conf is not a mapping"):
        text_map("spark_conf", value)


def test_a_jdbc_connection_binds_what_spark_reads_and_hides_its_secrets() -> None:
    extra = {"driver_class": "org.postgresql.Driver"}
    found = bound(
        "shop", "c", connection("jdbc", host="jdbc:postgresql://db/shop", login="ann", password="s3cret", extra=extra)
    )
    assert (found.kind, found.options["driver"], found.options["user"]) == ("spark", "org.postgresql.Driver", "ann")
    assert "s3cret" not in repr(found)


def test_a_jdbc_connection_without_its_url_is_rejected() -> None:
    with pytest.raises(ConfigError, match="'shop_db', which binds the system 'shop', has no JDBC URL"):
        bound("shop", "shop_db", connection("jdbc", host="db"))


def test_a_spark_sql_connection_holds_options_of_readers_and_writers() -> None:
    found = bound(
        "lake", "c", connection("spark_sql", extra={"format": "delta", "root": "/lake", "fs.token": "s3cret"})
    )
    assert (found.kind, found.options["format"], found.secret) == ("spark", "delta", frozenset({"fs.token"}))


def test_files_on_an_object_store_are_opened_with_the_connection_that_theirs_names() -> None:
    made = {
        "landing": connection("fs", extra={"path": "s3://landing/in", "root_conn_id": "cloud"}),
        "cloud": connection("aws", login="AKIA", password="hush", extra={"region_name": "eu-central-1"}),
    }
    binding = binding_of("logs", "landing", made["landing"], made.__getitem__)
    assert dict(binding.options) == {
        "root": "s3://landing/in",
        "access_key_id": "AKIA",
        "secret_access_key": "hush",
        "region": "eu-central-1",
    }
    assert binding.secret == {"access_key_id", "secret_access_key"}

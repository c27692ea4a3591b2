"""Options of tables, and the settings of catalogs in bindings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_samza.errors import ConfigError
from airflow_samza.systems.iceberg.options import CatalogSettings, TableOptions, identifier_of
from airflow_samza.systems.system import StreamSpec, SystemBinding


def settings(**options: object) -> CatalogSettings:
    return CatalogSettings.of("lake", SystemBinding("iceberg", options))


def test_a_root_alone_is_a_catalog_in_that_folder(tmp_path: Path) -> None:
    found = settings(root=str(tmp_path))
    assert found.properties == {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}"}
    assert (found.type, found.name, found.place) == ("sql", "default", f"{tmp_path}/catalog.db")


@pytest.mark.parametrize(
    ("uri", "kind"),
    [("https://catalog", "rest"), ("thrift://metastore:9083", "hive"), ("postgresql+psycopg2://db/x", "sql")],
)
def test_the_type_follows_from_the_uri(uri: str, kind: str) -> None:
    assert settings(uri=uri).type == kind


def test_options_are_properties_of_pyiceberg() -> None:
    found = settings(uri="https://catalog", type="REST", catalog="prod", warehouse="s3://lake", partitions=4)
    assert (found.name, found.type) == ("prod", "rest")
    assert found.properties == {"uri": "https://catalog", "warehouse": "s3://lake"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "has no catalog"),
        ({"type": "rset", "uri": "x"}, "catalog type 'rset'"),
        ({"type": "rest"}, "of type rest and no uri"),
        ({"root": "/lake", "uri": "x"}, "both root and uri"),
        ({"root": "s3://lake"}, "needs a folder"),
    ],
)
def test_bindings_that_name_no_catalog_are_rejected(options: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        settings(**options)


def test_no_text_shows_a_secret() -> None:
    found = settings(
        uri="postgresql+psycopg2://jo:hunter2@db/x", **{"s3.secret-access-key": "hunter3", "token": "hunter4"}
    )
    assert found.secret == {"uri", "s3.secret-access-key", "token"}
    assert "hunter" not in f"{found!r} {found.place} {found.without_secrets('hunter3 at jo:hunter4')}"


AUTH = {"type": "oauth2", "oauth2": {"client_id": "jo", "client_secret": "hunter5", "token_url": "https://sso"}}


@pytest.mark.parametrize("said", [AUTH, json.dumps(AUTH)], ids=["object", "text"])
def test_objects_of_rest_catalogs_are_given_to_pyiceberg_as_such(said: object) -> None:
    found = settings(uri="https://catalog", auth=said, ssl={"cabundle": "/etc/ca.pem"})
    assert (found.properties["auth"], found.properties["ssl"]) == (AUTH, {"cabundle": "/etc/ca.pem"})
    assert "hunter" not in f"{found!r} {found.without_secrets('jo has hunter5 at https://sso')}"
    assert found.without_secrets("jo signs in by oauth2") == "jo signs in by oauth2"


@pytest.mark.parametrize("said", ["basic", "[1]", 7])
def test_what_has_to_be_an_object_is_rejected_and_not_shown(said: object) -> None:
    with pytest.raises(ConfigError, match="has auth, which is no object of JSON") as error:
        settings(uri="https://catalog", auth=said)
    assert str(said) not in error.value.sentence


def of(**options: str) -> TableOptions:
    return TableOptions.of(StreamSpec("views", options=tuple(options.items())))


def test_a_table_has_the_name_of_its_stream_unless_it_says_another() -> None:
    assert identifier_of(of().table) == ("default", "views")
    assert identifier_of(of(table="web.eu.views").table) == ("web", "eu", "views")


def test_a_time_is_utc_unless_it_says_otherwise() -> None:
    texts = ["2026-11-01T00:00:00Z", "2026-11-01", "2026-11-01T01:00:00+01:00"]
    assert len({of(as_of=text).as_of for text in texts}) == 1
    assert of(snapshot="8271638172635514").snapshot == 8271638172635514


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tabel": "web.views"}, "no option 'tabel'"),
        ({"snapshot": "main"}, "'main', which is no id"),
        ({"as_of": "yesterday"}, "no point in time"),
        ({"snapshot": "1", "ref": "main"}, "snapshot and ref"),
        ({"table": "web..views"}, "the table name 'web..views'"),
    ],
)
def test_options_that_mean_no_snapshot_are_rejected(options: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        of(**options)


@pytest.mark.parametrize("word", ["path", "format"])
def test_a_table_has_no_path_and_no_format(word: str) -> None:
    with pytest.raises(ConfigError, match=f"has {word}="):
        TableOptions.of(StreamSpec("views", **{word: "parquet"}))  # type: ignore[arg-type]

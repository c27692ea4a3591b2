"""Options of Delta tables and of the folder in which they lie."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza.errors import ConfigError, TopicError
from airflow_samza.systems.delta.options import DeltaSettings, OutputOptions, TableOptions, path_of
from airflow_samza.systems.system import StreamSpec, SystemBinding
from tests.support.delta_lake import stream, system_at, table_of


@pytest.mark.parametrize(
    ("table", "path"),
    [("web.views", "web/views"), ("views", "views"), ("a.b.c", "a/b/c"), ("web.db/views", "web.db/views")],
)
def test_a_table_lies_in_a_folder_for_each_part_of_its_name_or_at_its_path(table: str, path: str) -> None:
    assert path_of(TableOptions.of(stream(table)).table) == path


def test_the_name_of_the_stream_is_the_table_where_none_is_said() -> None:
    assert path_of(TableOptions.of(StreamSpec("web.views")).table) == "web/views"


@pytest.mark.parametrize("table", ["web..views", ".", "../views", "/etc/views", "a/../../b", "a\\b", "web. "])
def test_a_name_that_leads_elsewhere_is_rejected(table: str) -> None:
    with pytest.raises(ConfigError, match="has the table name"):
        TableOptions.of(stream(table))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"snapshot": "1"}, "is a table, and tables have no option 'snapshot'"),
        ({"version": "newest"}, "has the version 'newest', which is no number"),
        ({"version": "-1"}, "has the version '-1', which is no number"),
        ({"version": "1", "as_of": "2026-11-01"}, "has the options version and as_of, and a run reads one version"),
        ({"waiting": "monday"}, "has waiting='monday', which names no run"),
        ({"waiting": "app/monday", "version": "1"}, "has the options version and waiting, and a run reads one version"),
        ({"as_of": "yesterday"}, "has as_of='yesterday', which is no point in time"),
    ],
)
def test_an_impossible_option_is_rejected(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        TableOptions.of(StreamSpec("views", options=tuple(options.items())))


def test_a_path_is_rejected() -> None:
    with pytest.raises(ConfigError, match="has path=, and a Delta table has a name"):
        TableOptions.of(StreamSpec("views", path="web/views"))


def test_a_time_without_a_zone_is_of_utc() -> None:
    assert TableOptions.of(stream(as_of="2026-11-01T00:00")).as_of == datetime(2026, 11, 1, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, r"System 'lake' \(delta\) has no root"),
        ({"root": "/data", "rot": "x"}, r"System 'lake' \(delta\) has the unknown option 'rot'"),
        ({"root": "file:///data", "region": "x"}, "unknown option 'region'"),
    ],
)
def test_a_binding_that_names_no_place_is_rejected(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        DeltaSettings.of("lake", SystemBinding("delta", options))


def test_no_text_of_the_settings_shows_a_secret() -> None:
    options = {"root": "s3://key:hunter2@bucket/lake", "secret_access_key": "hunter2"}
    settings = DeltaSettings.of("lake", SystemBinding("delta", options))
    assert "hunter2" not in repr(SystemBinding("delta", {**options, "root": "s3://bucket"}))
    assert "hunter2" not in settings.place + repr(settings)


def test_a_table_that_is_not_there_is_told_with_what_is(tmp_path: Path) -> None:
    table_of(tmp_path, pa.schema([("id", pa.int64())]))
    with pytest.raises(
        TopicError, match=r"The table web\.view of stream 'views' does not exist: there is no log"
    ) as error:
        system_at(tmp_path).slice(stream("web.view"))
    assert error.value.hint.startswith("Did you mean 'views'?")
    with pytest.raises(TopicError) as error:
        system_at(tmp_path).slice(stream("web.orders"))
    assert f"{tmp_path}/web has the folders views. " in error.value.hint
    assert system_at(tmp_path).metadata([stream("web.orders")]) == {}


@pytest.mark.parametrize(("name", "lacks"), [("sort_by", "sort order")])
def test_what_only_tables_of_iceberg_have_is_rejected_with_another_way(name: str, lacks: str) -> None:
    spec = StreamSpec("out", options=(("table", "web.out"), ("create", "true"), (name, "x")), written=True)
    with pytest.raises(ConfigError, match=f"has {name}=, and Delta tables have no {lacks}") as error:
        OutputOptions.of(spec)
    assert error.value.hint

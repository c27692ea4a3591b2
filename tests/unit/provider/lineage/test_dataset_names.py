"""Names of datasets: one for each place, whatever connection, user or spelling leads to it."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_samza.provider.lineage.dataset_names import (
    dataset_at,
    jdbc_dataset,
    kafka_dataset,
    log_dataset,
    path_dataset,
    unvarying,
)
from airflow_samza.systems.system import StreamSpec, SystemBinding


@pytest.mark.parametrize(
    ("path", "root", "namespace", "name"),
    [
        ("s3a://lake/flights/", None, "s3://lake", "flights"),
        ("s3n://lake", None, "s3://lake", "/"),
        ("gcs://lake/a/b", None, "gs://lake", "a/b"),
        ("webhdfs://me@nn:8020/data", None, "hdfs://nn:8020", "/data"),
        ("abfss://container@account/data", None, "abfss://container@account", "/data"),
        ("flights", "s3://lake/raw/", "s3://lake", "raw/flights"),
        ("/flights", "s3://lake/raw", "s3://lake", "raw/flights"),
        ("s3://other/flights", "s3://lake", "s3://other", "flights"),
        ("/data/../flights", None, "file", "/flights"),
        ("/flights", "/data", "file", "/flights"),
        ("flights", "/data/", "file", "/data/flights"),
        ("/flights", "file:///data", "file", "/flights"),
        ("file:///data/flights", None, "file", "/data/flights"),
    ],
)
def test_a_path_is_named_by_its_store_and_its_place_there(
    path: str, root: str | None, namespace: str, name: str
) -> None:
    assert path_dataset(path, root)[:2] == (namespace, name)


def test_the_uri_of_an_asset_has_letters_of_ascii_only() -> None:
    assert path_dataset("s3a://lake/données/{ds} x").uri == "s3://lake/donn%C3%A9es/{ds}%20x"
    assert path_dataset("/données").uri == "file:///donn%C3%A9es"
    assert path_dataset("s3://lake").uri == "s3://lake"


@pytest.mark.parametrize(
    ("url", "table", "namespace", "name"),
    [
        ("jdbc:postgresql://me:hush@db:5432/shop?user=x", "orders", "postgres://db:5432", "shop.orders"),
        ("jdbc:mysql://db/shop", "orders", "mysql://db", "shop.orders"),
        ("jdbc:sqlserver://db:1433;databaseName=shop;password=hush", "dbo.orders", "sqlserver://db:1433", "dbo.orders"),
    ],
)
def test_a_table_of_a_database_is_named_without_user_and_password(
    url: str, table: str, namespace: str, name: str
) -> None:
    found = jdbc_dataset(url, table)
    assert found[:2] == (namespace, name)
    assert found.uri == f"x-{namespace}/{name.replace('.', '/')}"
    assert "hush" not in str(found)


def test_of_several_brokers_the_first_by_name_stands_for_all() -> None:
    names = {kafka_dataset("views", brokers) for brokers in ("kafka-2:9092,kafka-1", "kafka-1:9092, kafka-2")}
    assert names == {("kafka://kafka-1:9092", "views", "kafka://kafka-1:9092,kafka-2:9092/views")}


def test_a_topic_of_the_log_is_named_by_its_folder() -> None:
    assert log_dataset("app-1-by/run@1", "/root")[:2] == ("file", "/root/topics/app-1-by/run%401")


@pytest.mark.parametrize(
    ("kind", "options", "stream", "namespace", "name"),
    [
        ("log", {}, {}, "file", "/root/topics/views"),
        ("log", {"root": "s3://log"}, {}, "s3://log", "topics/views"),
        ("kafka", {"bootstrap.servers": "kafka:9093"}, {}, "kafka://kafka:9093", "views"),
        ("files", {"root": "s3://lake"}, {"path": "in/views"}, "s3://lake", "in/views"),
        ("files", {"root": "s3://lake"}, {}, "s3://lake", "views"),
        ("iceberg", {}, {"options": {"table": "shop.views"}}, "iceberg://lake", "shop.views"),
        ("iceberg", {}, {}, "iceberg://lake", "views"),
        ("delta", {"root": "s3://lake/t"}, {"options": (("table", "web.views"),)}, "s3://lake", "t/web/views"),
        ("delta", {"root": "/lake"}, {"options": (("table", "web.db/views"),)}, "file", "/lake/web.db/views"),
        ("memory", {}, {}, "memory://lake", "views"),
        ("of-tomorrow", {}, {}, "of-tomorrow://lake", "views"),
    ],
)
def test_a_stream_is_named_as_its_system_sees_it(
    kind: str, options: dict[str, Any], stream: dict[str, Any], namespace: str, name: str
) -> None:
    found = dataset_at(StreamSpec("views", **stream), "lake", SystemBinding(kind, options), "/root")
    assert found[:2] == (namespace, name)


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("flights/{data_interval_start:%Y-%m-%d}/*.csv", "flights"),
        ("flights/{ds}/delays", "flights/{ds}/delays"),
        ("s3://lake/flights/part-[0-9].csv", "s3://lake/flights"),
        ("flights/day-?", "flights"),
        ("flights/", "flights"),
        ("*", ""),
    ],
)
def test_what_varies_at_the_end_of_a_path_is_left_out(path: str, kept: str) -> None:
    assert unvarying(path) == kept

"""The push stream of a table: its columns, and the topic that is made for it or is there already."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_samza.engine.push import make_topic, push_stream
from airflow_samza.errors import PushError
from airflow_samza.runs.tables.table_version import DELETED
from airflow_samza.schema import Schema
from airflow_samza.systems.system import StreamSpec
from tests.support.pushes import PARTITIONS, SCHEMA, TOPIC, Pushes


@pytest.fixture
def pushes(tmp_path: Path) -> Pushes:
    return Pushes(tmp_path)


def test_all_columns_of_a_push_stream_but_its_key_may_be_null(pushes: Pushes) -> None:
    stream = push_stream(pushes.request("monday"), Schema.of("id bigint not null, tier string not null"))
    columns = f"id bigint not null, tier string, {DELETED} boolean"
    assert stream == StreamSpec(TOPIC.name, PARTITIONS, columns, ("id",))


def test_a_push_stream_is_made_once(pushes: Pushes) -> None:
    stream = StreamSpec("new-push", PARTITIONS, TOPIC.schema, TOPIC.key)
    request = pushes.request("monday")
    for _ in range(2):
        make_topic(pushes.system, request, stream)
    (found,) = pushes.system.metadata([stream]).values()
    assert (found.partitions, found.schema) == (PARTITIONS, TOPIC.schema)


@pytest.mark.parametrize("columns", ["id bigint, tier int", "id bigint", "tier string, id bigint"])
def test_rejects_a_push_of_other_columns_than_the_stream_has(pushes: Pushes, columns: str) -> None:
    request = pushes.request("monday")
    with pytest.raises(
        PushError,
        match=re.escape(f"has the columns (id bigint, tier string), and table 'profiles' is declared with ({columns})"),
    ) as raised:
        make_topic(pushes.system, request, push_stream(request, Schema.of(columns)))
    assert "A stream keeps its columns" in str(raised.value)


def test_rejects_a_push_to_a_topic_that_something_else_writes(pushes: Pushes) -> None:
    pushes.system.create([StreamSpec("orders", PARTITIONS, "id bigint, tier string", ("id",))])
    request = replace(pushes.request("monday"), topic="orders")
    with pytest.raises(PushError, match="Something else has written to this stream"):
        make_topic(pushes.system, request, push_stream(request, SCHEMA))


def test_rejects_a_push_to_a_stream_of_another_count_of_partitions(pushes: Pushes) -> None:
    request = replace(pushes.request("monday"), partitions=3)
    with pytest.raises(PushError, match="has 2 partitions, and table 'profiles' is declared with 3") as raised:
        make_topic(pushes.system, request, push_stream(request, SCHEMA))
    assert "Declare partitions=2" in str(raised.value)

"""Airflow's connections of type delta bind systems of tables in a folder or bucket."""

from __future__ import annotations

import json
from typing import Any

import pytest
from airflow.sdk import Connection

from airflow_samza.errors import ConfigError
from airflow_samza.provider.connections.bindings import binding_of, types_of
from airflow_samza.systems.system import SystemBinding


def bound(extra: dict[str, Any], **fields: Any) -> SystemBinding:
    connections = {
        "c": Connection(conn_id="c", conn_type="delta", extra=json.dumps(extra), **fields),
        "aws": Connection(conn_id="aws", conn_type="aws", login="key", password="hunter2"),
    }
    return binding_of("lake", "c", connections["c"], connections.__getitem__)


def test_the_extra_has_the_root_and_the_count_of_partitions() -> None:
    found = bound({"root": "/data/lake", "partitions": 4})
    assert (found.kind, dict(found.options)) == ("delta", {"root": "/data/lake", "partitions": 4})
    assert types_of("delta") == ("delta",)


def test_a_bucket_is_opened_by_the_connection_that_is_named() -> None:
    found = bound({"root": "s3://bucket/lake", "root_conn_id": "aws"})
    assert found.options["root"] == "s3://bucket/lake"
    assert "hunter2" in map(str, found.options.values())
    assert "hunter2" not in repr(found)


def test_without_a_root_there_is_nothing_to_read() -> None:
    with pytest.raises(ConfigError, match="The connection 'c' of type delta has no root") as error:
        bound({})
    assert "--conn-type delta" in error.value.hint

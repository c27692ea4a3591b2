"""The hook's part that opens the root, where a process has several connections to it."""

from __future__ import annotations

import getpass
import json
from collections.abc import Iterator
from typing import Any

import pytest

from airflow_samza.errors import ConfigError
from airflow_samza.provider.hooks.root import RootHook
from airflow_samza.provider.hooks.samza import SamzaHook
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.filesystems.root_access import NO_ACCESS, give_access

ROOT = "webhdfs://nowhere:9870/samza"


@pytest.fixture(autouse=True)
def connections(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("HADOOP_USER_NAME", raising=False)
    for conn_id, login in (("samza_writes", "etl"), ("samza_reads", "analyst"), ("samza_plain", None)):
        fields: dict[str, Any] = {"conn_type": "samza", "login": login, "extra": {"root": ROOT}}
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps(fields))
    yield
    give_access(ROOT, NO_ACCESS)


def user_of(files: Any) -> str:
    return str(files.client.access.user)


def test_each_connection_opens_its_root_with_its_own_login() -> None:
    hooks = [RootHook(conn_id) for conn_id in ("samza_writes", "samza_reads", "samza_plain")]
    wanted = ["etl", "analyst", getpass.getuser()]
    assert [user_of(hook.files) for hook in hooks] == wanted
    assert [user_of(hook.files) for hook in hooks] == wanted  # also when the others have opened it


def test_each_connection_has_a_runtime_of_its_own_access() -> None:
    for conn_id, user in (("samza_writes", "etl"), ("samza_reads", "analyst"), ("samza_plain", getpass.getuser())):
        assert user_of(SamzaHook(conn_id).get_conn()._files) == user


def test_rejects_the_bare_url_of_a_root_that_two_connections_open_differently() -> None:
    assert user_of(RootHook("samza_writes").files) == user_of(open_filesystem(ROOT)) == "etl"
    assert user_of(RootHook("samza_reads").files) == "analyst"
    with pytest.raises(ConfigError, match=r"'samza_writes' and 'samza_reads' open the root .*\n.*SamzaHook"):
        open_filesystem(ROOT)

"""The root's access from the process that submits, to the stage runner, to Spark's workers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from airflow_samza.errors import StageLost
from airflow_samza.launch.bindings import (
    bindings_from_json,
    bindings_to_json,
    has_old_secrets,
    take_root_access,
    with_root_access,
    without_secrets,
)
from airflow_samza.launch.runner_settings import RunnerSettings
from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.prepare.bound_systems import bind_systems
from airflow_samza.spark.sealed_bindings import SEALED, seal_bindings, unsealed, unsealed_bindings
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.filesystems.root_access import NO_ACCESS, ROOT_ACCESS, RootAccess, access_of, give_access
from airflow_samza.systems.system import SystemBinding

ROOT = "webhdfs://nowhere:9870/samza"
ACCESS = RootAccess({"user": "etl", "token": "hush"})


@pytest.fixture(autouse=True)
def nothing_given() -> Iterator[None]:
    yield
    give_access(ROOT, NO_ACCESS)


@dataclass(frozen=True)
class Work:
    root: str
    bindings: dict[str, Any]


def handed_over() -> dict[str, SystemBinding]:
    SparkRuntime(ROOT, access=ACCESS)
    bindings = with_root_access({"logs": SystemBinding("files", {"root": "/logs"})}, ROOT)
    give_access(ROOT, NO_ACCESS)  # from here on as in another process
    return bindings


def test_a_runner_opens_the_root_with_what_its_settings_bring() -> None:
    settings = RunnerSettings(ROOT, handed_over()).to_json()
    take_root_access(ROOT, json.loads(json.dumps(settings))["bindings"])
    assert access_of(ROOT) == ACCESS


def test_a_worker_opens_the_root_with_what_its_work_brings() -> None:
    unsealed(Work(ROOT, bindings_to_json(handed_over())))
    assert access_of(ROOT) == ACCESS


def test_a_worker_without_hadoops_settings_finds_the_namenode_that_the_submitter_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = "hdfs://nn:8020/samza"
    settings = {"dfs.namenode.rpc-address": "nn:8020", "dfs.namenode.http-address": "nn:50070"}
    lines = [f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items()]
    (tmp_path / "hdfs-site.xml").write_text(f"<configuration>{''.join(lines)}</configuration>")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    bindings = with_root_access({}, root)
    monkeypatch.delenv("HADOOP_CONF_DIR")
    assert namenodes_of(root) == ("http://nn:9870",)  # where Hadoop's default says
    try:
        unsealed(Work(root, bindings_to_json(bindings)))
        assert namenodes_of(root) == ("http://nn:50070",)
    finally:
        give_access(root, NO_ACCESS)


def namenodes_of(root: str) -> tuple[str, ...]:
    files: Any = open_filesystem(root)
    found: tuple[str, ...] = files.client.address.namenodes
    return found


def test_nothing_of_a_root_that_names_its_namenode_by_http_is_handed_over() -> None:
    assert with_root_access({}, ROOT) == {}


def test_the_secrets_of_the_root_are_sealed_where_spark_may_log_them() -> None:
    sealed, _ = seal_bindings(bindings_to_json(handed_over()))
    assert "hush" not in json.dumps(sealed)
    assert sealed[ROOT_ACCESS]["options"] == {"user": "etl"}


def test_a_worker_completes_what_is_sealed_by_a_file_of_its_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = bindings_to_json(handed_over())
    sealed, content = seal_bindings(plain)
    assert b"hush" not in content
    monkeypatch.setattr("pyspark.SparkFiles.get", lambda name: str(tmp_path / name))
    with pytest.raises(StageLost, match="has no file airflow-samza-"):
        unsealed_bindings(sealed)
    (tmp_path / sealed[SEALED]["file"]).write_bytes(content)
    assert unsealed_bindings(sealed) == plain


def test_a_runner_is_shared_by_those_who_open_the_root_alike() -> None:
    bindings = handed_over()
    assert "hush" not in json.dumps(without_secrets(bindings))

    def key_with(**options: str) -> str:
        access = SystemBinding("log", options, frozenset({"token", "bearer_token"} & options.keys()))
        return RunnerSettings(ROOT, {**bindings, ROOT_ACCESS: access}).key

    assert key_with(user="etl", token="hush") == RunnerSettings(ROOT, bindings).key
    assert key_with(user="etl", token="new") != RunnerSettings(ROOT, bindings).key
    assert key_with(user="you", token="hush") != RunnerSettings(ROOT, bindings).key
    assert key_with(bearer_token="of one task") == key_with(bearer_token="of the next")


def test_a_failure_parts_with_a_runner_only_for_secrets_that_are_not_in_its_key() -> None:
    """Else each failed stage or push on a root with a key would start a Spark anew."""
    vault = SystemBinding("files", {"root": "/logs", "password": "hush"}, frozenset({"password"}))
    root = SystemBinding("log", {"secret_access_key": "hush"}, frozenset({"secret_access_key"}))
    fetched = SystemBinding("log", {"bearer_token": "hush"}, frozenset({"bearer_token"}))
    assert not has_old_secrets({ROOT_ACCESS: root})
    assert has_old_secrets({ROOT_ACCESS: root, "vault": vault})
    assert has_old_secrets({ROOT_ACCESS: fetched})


def test_the_access_is_bound_as_no_system() -> None:
    bindings = bindings_from_json(bindings_to_json(handed_over()))
    assert list(bind_systems(bindings, "/nowhere")) == ["logs"]


def test_a_root_that_needs_no_access_hands_nothing_over() -> None:
    assert with_root_access({}, ROOT) == {}

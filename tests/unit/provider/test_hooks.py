from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowNotFoundException

from airflow_samza.errors import ConfigError, SamzaError
from airflow_samza.launch.masters import SubmitOptions
from airflow_samza.launch.runner_settings import RunnerSettings
from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.provider.hooks import SamzaHook
from airflow_samza.provider.spark_connection import SparkPlace


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Connection]:
    """Connections by id, in the place of Airflow's; ``samza_default`` is there."""
    known: dict[str, Connection] = {}

    def get(conn_id: str) -> Connection:
        if conn_id not in known:
            raise AirflowNotFoundException(conn_id)
        return known[conn_id]

    monkeypatch.setattr(SamzaHook, "get_connection", staticmethod(get))
    add(known, "samza_default", "samza", root=str(tmp_path))
    return known


def add(known: dict[str, Connection], conn_id: str, kind: str, host: str | None = None, **extra: Any) -> None:
    known[conn_id] = Connection(conn_id=conn_id, conn_type=kind, host=host, extra=json.dumps(extra))


def test_the_hook_gives_a_runtime_under_the_connections_root(connections: Any) -> None:
    hook = SamzaHook()
    assert isinstance(hook.get_conn(), SparkRuntime)
    assert hook.get_conn() is hook.get_conn()


@pytest.mark.parametrize(("said", "found"), [("/var/archives", "/var/archives"), ("", None)])
def test_the_folder_for_archives_of_classes_is_airflows_setting(
    connections: Any, monkeypatch: pytest.MonkeyPatch, said: str, found: str | None
) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr(
        "airflow_samza.launch.runtime.SparkRuntime", lambda *positional, **options: given.update(options)
    )
    monkeypatch.setenv("AIRFLOW__SAMZA__CLASS_ARCHIVES", said)
    SamzaHook().get_conn()
    assert given["class_archives"] == found


def test_a_connection_that_is_not_defined_is_named_with_the_command_that_defines_it(connections: Any) -> None:
    with pytest.raises(
        ConfigError, match=r"'prod_samza' is not defined(.|\n)*airflow connections add prod_samza --conn-type samza"
    ):
        SamzaHook("prod_samza").get_conn()
    with pytest.raises(ConfigError, match="'nowhere' is not defined"):
        SamzaHook(systems={"logs": "nowhere"}).get_conn()


def test_systems_are_bound_by_their_connections(connections: Any) -> None:
    add(connections, "in", "fs", path="/in")
    add(connections, "logs", "samza", root="/log")
    bound = SamzaHook(systems={"data": "in", "log": "logs"}).bindings()
    assert {name: (binding.kind, binding.options["root"]) for name, binding in bound.items()} == {
        "data": ("files", "/in"),
        "log": ("log", "/log"),
    }


def test_the_button_in_the_form_says_where_stages_run(connections: Any) -> None:
    assert SamzaHook().test_connection() == (True, "The root can be used, and stages run on local[*].")


def test_the_button_in_the_form_says_what_is_wrong(connections: Any) -> None:
    add(connections, "samza_default", "samza")
    working, told = SamzaHook().test_connection()
    assert not working
    assert "has no root" in told


@pytest.mark.parametrize(("mode", "refused"), [("client", True), ("cluster", False)])
def test_a_driver_in_the_cluster_outlives_any_task(
    connections: Any, monkeypatch: pytest.MonkeyPatch, mode: str, refused: bool
) -> None:
    place = SparkPlace("spark://spark:7077", SubmitOptions(mode, "", 600.0))
    monkeypatch.setattr(SamzaHook, "spark_place", lambda self: place)
    with pytest.raises(ConfigError, match="would end with the task") if refused else nullcontext():
        SamzaHook().reject_short_lived("views", "KubernetesExecutor")


@pytest.mark.parametrize(
    ("executor", "deploy_mode", "own"),
    [
        ("LocalExecutor", "client", False),
        ("KubernetesExecutor", "client", True),
        ("KubernetesExecutor", "cluster", False),
    ],
)
def test_a_runner_that_ends_with_its_task_is_the_tasks_own(
    connections: Any, monkeypatch: pytest.MonkeyPatch, executor: str, deploy_mode: str, own: bool
) -> None:
    """Two tasks ask, each in a process of its own: they get one runner only where it outlives the first."""
    monkeypatch.setattr(
        SamzaHook, "spark_place", lambda self: SparkPlace("spark://spark:7077", SubmitOptions(deploy_mode, "", 600.0))
    )
    owners = []
    for process in (101, 102):
        monkeypatch.setattr("airflow_samza.provider.hooks.os.getpid", lambda number=process: number)
        given: dict[str, Any] = {}
        monkeypatch.setattr(
            "airflow_samza.launch.runtime.SparkRuntime", lambda *_, given=given, **options: given.update(options)
        )
        SamzaHook(executor=executor).get_conn()
        owners.append(given["owner"])
    keys = {RunnerSettings("/samza", {}, owner=owner).key for owner in owners}
    assert len(keys) == (2 if own else 1)


@pytest.mark.parametrize("conf", ['{"spark.x"', [1]])
def test_spark_settings_that_are_none_are_refused(connections: Any, conf: Any) -> None:
    with pytest.raises(SamzaError, match="spark_conf is not a mapping"):
        SamzaHook(spark_conf=conf)

"""Spark connections as masters; the Spark provider reads them, from the environment as Airflow does."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from airflow_samza.errors import ConfigError, RuntimeMissing
from airflow_samza.provider.connections.spark import SparkPlace
from airflow_samza.provider.hooks.samza import SamzaHook


def connect(monkeypatch: pytest.MonkeyPatch, conn_id: str, **fields: Any) -> None:
    monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps(fields))


@pytest.fixture
def place_of(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The place that a Spark connection of these fields gives to the hook."""

    def place(**fields: Any) -> SparkPlace:
        connect(monkeypatch, "a_spark", **fields)
        connect(
            monkeypatch, "samza_default", conn_type="samza", extra={"root": str(tmp_path), "spark_conn_id": "a_spark"}
        )
        return SamzaHook().spark_place()

    return place


@pytest.mark.parametrize("seconds", ["0", "-5", "nan"])
def test_a_driver_has_some_time_to_start(place_of: Any, seconds: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fields = {"conn_type": "spark", "host": "spark://spark", "port": 7077}
    assert place_of(**fields).submit.start_seconds == 600.0
    monkeypatch.setenv("AIRFLOW__SAMZA__DRIVER_START_TIMEOUT", seconds)
    with pytest.raises(ConfigError, match=rf"\[samza\] driver_start_timeout = {seconds} in .* is not above 0"):
        place_of(**fields)


def test_without_a_spark_connection_stages_run_on_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    connect(monkeypatch, "samza_default", conn_type="samza", extra={"root": str(tmp_path)})
    assert SamzaHook().spark_place() == SparkPlace("local[*]")


@pytest.mark.parametrize(
    ("fields", "master"),
    [
        ({"conn_type": "spark", "host": "local[2]"}, "local[2]"),
        ({"conn_type": "spark", "host": "spark://here", "port": 7077}, "spark://here:7077"),
        ({"conn_type": "spark", "host": "here", "port": 7077}, "spark://here:7077"),
        ({"conn_type": "spark", "host": "yarn"}, "yarn"),
        ({"conn_type": "spark", "host": "sparkapplication://etl"}, "sparkapplication://etl"),
    ],
)
def test_the_master_is_made_of_host_and_port(place_of: Any, fields: Any, master: str) -> None:
    assert place_of(**fields).master == master


def test_a_driver_of_a_service_is_never_on_the_worker(place_of: Any) -> None:
    assert place_of(conn_type="spark", host="sparkapplication://etl").in_cluster


def test_queue_principal_and_keytab_become_spark_settings(place_of: Any) -> None:
    keytab = base64.b64encode(b"the keys").decode()
    extra = {
        "queue": "etl",
        "deploy-mode": "cluster",
        "spark-binary": "spark3-submit",
        "principal": "me@HERE",
        "keytab": keytab,
    }
    place = place_of(conn_type="spark", host="yarn", extra=extra)
    assert (place.submit.deploy_mode, place.submit.binary, place.submit.start_seconds) == (
        "cluster",
        "spark3-submit",
        600.0,
    )
    unpacked = Path(place.conf["spark.kerberos.keytab"])
    assert unpacked.read_bytes() == b"the keys"
    assert place.conf == {
        "spark.yarn.queue": "etl",
        "spark.kerberos.principal": "me@HERE",
        "spark.kerberos.keytab": str(unpacked),
    }
    unpacked.unlink()


def test_the_namespace_of_kubernetes_is_a_spark_setting(place_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fields = {"conn_type": "spark", "host": "k8s://https://here", "port": 6443, "extra": {"namespace": "etl"}}
    client = "airflow.providers.apache.spark.hooks.spark_submit.kube_client"
    with monkeypatch.context() as without:
        without.delattr(client, raising=False)
        with pytest.raises(RuntimeMissing, match=r"'a_spark' names a Kubernetes(.|\n)*\[cncf-kubernetes\]"):
            place_of(**fields)
    monkeypatch.setattr(client, object(), raising=False)
    place = place_of(**fields)
    assert (place.master, place.conf) == ("k8s://https://here:6443", {"spark.kubernetes.namespace": "etl"})


def test_a_connect_server_has_a_token_that_no_text_shows(place_of: Any) -> None:
    place = place_of(
        conn_type="spark_connect", host="here", port=15002, login="me", password="hidden", extra={"use_ssl": True}
    )
    assert place.master == "sc://here:15002/;user_id=me;token=hidden;use_ssl=True"
    assert "hidden" not in repr(place)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"conn_type": "http", "host": "local[*]"}, "'a_spark' of type 'http' is no Spark"),
        ({"conn_type": "spark", "host": "mesos://here:5050"}, "'a_spark': 'mesos://here:5050' is not a master URL"),
        ({"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "clutser"}}, "'clutser' is not a deploy mode"),
        ({"conn_type": "spark", "host": "yarn", "extra": {"spark-binary": "rm"}}, "rejects the connection 'a_spark'"),
    ],
)
def test_a_connection_that_no_stage_can_run_on_is_rejected(place_of: Any, fields: Any, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        place_of(**fields)


def test_a_spark_connection_that_is_not_defined_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    connect(monkeypatch, "samza_default", conn_type="samza", extra={"root": str(tmp_path), "spark_conn_id": "no_spark"})
    with pytest.raises(ConfigError, match="'no_spark' is not defined"):
        SamzaHook().spark_place()

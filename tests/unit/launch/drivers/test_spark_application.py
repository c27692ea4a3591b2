"""Drivers as SparkApplications: a stand-in plays the API server, and the operator, by the states that it reports."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from airflow_samza.errors import RuntimeMissing, StageFailed
from airflow_samza.launch import launcher
from airflow_samza.launch.code_shipping import ship_package
from airflow_samza.launch.drivers import spark_application
from airflow_samza.launch.drivers.driver_services import Driver
from airflow_samza.launch.drivers.spark_application import API_VERSION, manifest
from airflow_samza.launch.launcher import ensure_runner
from airflow_samza.launch.masters import SUBMITTED, SubmitOptions
from airflow_samza.launch.runner_settings import RunnerSettings
from airflow_samza.runs.records.folders import RunFolder
from airflow_samza.systems.filesystems.local import LocalFilesystem
from tests.support.kubernetes_api_server import ApiServer, api_server

RUN = RunFolder("views", "run-1")


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    import_module("kubernetes.client")  # takes seconds, which no patience below is for
    with api_server() as started:
        started.objects[f"/apis/{API_VERSION}"] = {"kind": "APIResourceList"}
        monkeypatch.setenv("KUBECONFIG", str(started.config(tmp_path)))
        monkeypatch.setattr(spark_application, "LOOK_SECONDS", 0.1)
        yield started


def start(folder: Path, patience: float = 600) -> None:
    files = LocalFilesystem(str(folder / "root"))
    settings = RunnerSettings(
        root=files.root,
        bindings={},
        package=ship_package(files, RUN),
        master="sparkapplication://etl",
        submit=SubmitOptions("cluster", start_seconds=patience),
        conf={"spark.executor.instances": "2"},
    )
    ensure_runner(files, RUN, settings)


def left(server: ApiServer, folder: Path) -> list[str]:
    applications = [path for path in server.objects if "/sparkapplications/" in path]
    return [*applications, *(str(path) for path in (folder / "root").rglob("handover*"))]


OF_SPARK_SUBMIT = """failed to run spark-submit: WARNING: Using incubator modules: jdk.incubator.vector
26/11/30 03:21:25 WARN Utils: Your hostname, host, resolves to a loopback address
Exception in thread "main" io.fabric8.kubernetes.client.KubernetesClientException: Failure executing: POST at: \
https://api/api/v1/namespaces/etl/pods. Message: pods is forbidden. Received status: Status(code=403).
\tat io.fabric8.kubernetes.client.KubernetesClientException.copyAsCause(KubernetesClientException.java:205)
"""


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (
            {"applicationState": {"state": "SUBMISSION_FAILED", "errorMessage": "exceeded quota: none"}},
            r"did not start on sparkapplication://etl: its SparkApplication etl:samza-views-run-1-\w+ is "
            r"SUBMISSION_FAILED: exceeded quota: none\.",
        ),
        ({"applicationState": {"state": "FAILED", "errorMessage": "OOMKilled"}}, r"is FAILED: OOMKilled\."),
        ({"applicationState": {"state": "FAILED", "errorMessage": OF_SPARK_SUBMIT}}, r"is FAILED: pods is forbidden\."),
        ({"applicationState": {"state": "FAILED"}}, r"is FAILED\."),
    ],
    ids=["rejected", "failed", "rejected in words of Java", "without words"],
)
@pytest.mark.few(2)
def test_an_application_that_fails_is_reported_in_the_words_of_the_operator_and_deleted(
    server: ApiServer, tmp_path: Path, status: dict[str, Any], says: str
) -> None:
    server.status_of_made = status
    with pytest.raises(StageFailed, match=says) as caught:
        start(tmp_path)
    assert "kubectl logs -n etl samza-views-run-1-" in caught.value.hint
    assert left(server, tmp_path) == []


def test_a_driver_whose_pod_is_pending_is_reported_in_the_words_of_the_scheduler_or_the_kubelet(
    server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launcher, "HOPELESS_SECONDS", 0.0)
    monkeypatch.setattr("airflow_samza.launch.drivers.driver_pod.LOOK_SECONDS", 0.1)
    server.status_of_made = {"applicationState": {"state": "SUBMITTED"}}
    waiting = {"reason": "ImagePullBackOff", "message": "no such tag"}
    server.pods = {"phase": "Pending", "containerStatuses": [{"image": "none:1", "state": {"waiting": waiting}}]}
    with pytest.raises(StageFailed, match=r"is pending: ImagePullBackOff: no such tag, of the image none:1"):
        start(tmp_path)
    assert left(server, tmp_path) == []


@pytest.mark.parametrize(
    ("status", "says"),
    [({}, "waits for a Spark operator, which has not taken"), ({"state": "SUSPENDED"}, r"\w is SUSPENDED\W")],
    ids=["not taken up", "suspended"],
)
@pytest.mark.few(1)
def test_an_application_that_waits_for_its_operator_or_its_queue_is_reported_as_such(
    server: ApiServer, tmp_path: Path, status: dict[str, Any], says: str
) -> None:
    server.status_of_made = {"applicationState": status}
    with pytest.raises(StageFailed, match=f"1 s were not enough, .*{says}"):
        start(tmp_path, patience=1)
    assert left(server, tmp_path) == []


@pytest.mark.parametrize(
    ("status", "does"), [(403, "rejects GET"), (429, "does not answer GET"), (503, "does not answer GET")]
)
def test_an_api_server_that_is_too_busy_does_not_reject(
    server: ApiServer, tmp_path: Path, status: int, does: str
) -> None:
    server.away = status
    with pytest.raises(StageFailed, match=f"The API server of Kubernetes {does} .*: no words"):
        start(tmp_path)


def test_an_api_server_that_is_not_there_does_not_reject(server: ApiServer, tmp_path: Path) -> None:
    server.url = "http://127.0.0.1:1"
    server.config(tmp_path)
    with pytest.raises(StageFailed, match=r"does not answer GET /apis/\S+: it cannot be reached") as caught:
        start(tmp_path)
    assert "kubectl get --raw /readyz" in str(caught.value.hint)


def test_a_cluster_without_the_operators_resource_is_rejected_before_anything_is_made(
    server: ApiServer, tmp_path: Path
) -> None:
    server.objects.clear()
    with pytest.raises(RuntimeMissing, match="knows no SparkApplications"):
        start(tmp_path)
    assert server.made == []


def test_the_operator_runs_the_program_once_with_the_settings_of_spark_and_the_driver_takes_the_master_it_is_given(
    server: ApiServer, tmp_path: Path
) -> None:
    server.status_of_made = {"applicationState": {"state": "FAILED"}}
    with pytest.raises(StageFailed):
        start(tmp_path)
    (made,) = server.made
    spec = made["spec"]
    assert (spec["type"], spec["mode"], spec["restartPolicy"]) == ("Python", "cluster", {"type": "Never"})
    assert spec["mainApplicationFile"].startswith(f"local://{tmp_path}/root/")
    key = spec["sparkConf"].pop("spark.kubernetes.driverEnv.SPARK_SAMZA_HANDOVER_SECRET")
    assert key not in " ".join(spec["arguments"])
    assert spec["sparkConf"] == {"spark.executor.instances": "2"}
    settings = RunnerSettings(root="/r", bindings={}, master="sparkapplication://etl")
    assert settings.to_json()["master"] == SUBMITTED


def test_a_url_of_a_program_stays_as_it_is() -> None:
    made = manifest(Driver("airflow_samza views run-1", "0" * 32, "https://store/driver.py?x#.py"), "etl")
    assert made["spec"]["mainApplicationFile"] == "https://store/driver.py?x#.py"
    assert made["metadata"] == {"name": "samza-views-run-1-00000000", "namespace": "etl"}

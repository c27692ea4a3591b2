"""SparkApplications on a real API server: without an operator, and with Kubeflow's Spark operator.

No package registry has the operator. ``SPARK_OPERATOR`` names the folder of its repository, with its program in ``bin``;
without it the tests of the operator are skipped, and the API server knows only the fields that are used.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_samza.errors import StageFailed
from airflow_samza.launch.drivers.driver_services import Driver, driver_service
from airflow_samza.launch.drivers.spark_application import API_VERSION
from demo.kubernetes.node import Node
from tests.kubernetes.cluster import OF_OPERATOR, ROWS, Cluster, until
from tests.kubernetes.shared_sparks import spark_operator_on

pytestmark = [pytest.mark.kubernetes, pytest.mark.nightly, pytest.mark.timeout(600)]

TEXT, ANY = {"type": "string"}, {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
TEXTS = {"type": "object", "additionalProperties": TEXT}

SPEC = {
    **dict.fromkeys(("type", "mode", "pythonVersion", "sparkVersion", "mainApplicationFile"), TEXT),
    "arguments": {"type": "array", "items": TEXT},
    "sparkConf": TEXTS,
    "restartPolicy": {"type": "object", "properties": {"type": TEXT}},
    "timeToLiveSeconds": {"type": "integer", "format": "int64"},
    "driver": ANY,
    "executor": ANY,
}


def definition() -> str:
    """Return the definition of the resource, with the part of the operator's published schema that is used."""
    spec = {
        "type": "object",
        "required": ["driver", "executor", "mainApplicationFile", "sparkVersion", "type"],
        "properties": SPEC,
    }
    schema = {"type": "object", "properties": {"spec": spec, "status": ANY}}
    group, version = API_VERSION.split("/")
    names = {"kind": "SparkApplication", "plural": "sparkapplications", "singular": "sparkapplication"}
    return json.dumps(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {
                "name": f"sparkapplications.{group}",
                "annotations": {"api-approved.kubernetes.io": "https://github.com/kubeflow/spark-operator/pull/1298"},
            },
            "spec": {
                "group": group,
                "names": names,
                "scope": "Namespaced",
                "versions": [
                    {
                        "name": version,
                        "served": True,
                        "storage": True,
                        "subresources": {"status": {}},
                        "schema": {"openAPIV3Schema": schema},
                    }
                ],
            },
        }
    )


def test_an_application_is_created_reported_by_its_status_and_deleted(
    node: Node, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(node.kubeconfig))
    node.kubectl("apply", "--server-side", "-f", "-", given=definition())
    service = driver_service("sparkapplication://default")
    group = API_VERSION.partition("/")[0]
    node.kubectl("wait", "--for=condition=Established", "--timeout=60s", f"crd/sparkapplications.{group}")
    service.check()
    running = service.start(Driver("airflow_samza views run-1", "0" * 32, "/srv/driver.py", ("a",), {"spark.a": "1"}))
    assert "waits for a Spark operator" in running.state().waits_for
    status = json.dumps({"status": {"applicationState": {"state": "FAILED", "errorMessage": "no such image"}}})
    name = "sparkapplication/samza-views-run-1-00000000"
    node.kubectl("patch", name, "--subresource=status", "--type=merge", "-p", status)
    until(lambda: running.state().ended.endswith("samza-views-run-1-00000000 is FAILED: no such image"))
    running.stop()
    running.stop()
    assert node.get("sparkapplications")["items"] == []


def test_an_application_that_the_api_server_rejects_is_reported_with_its_words(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(node.kubeconfig))
    with pytest.raises(StageFailed, match='namespaces "none" not found'):
        driver_service("sparkapplication://none").start(Driver("views", "1" * 32, "/srv/driver.py"))


@pytest.fixture(scope="module")
def operator(cluster: Cluster) -> Iterator[None]:
    folder = os.environ.get("SPARK_OPERATOR", "")
    if not folder:
        pytest.skip("SPARK_OPERATOR names no folder with Kubeflow's Spark operator")
    with spark_operator_on(cluster, Path(folder)):
        yield


def applications(cluster: Cluster, run_id: str) -> list[dict[str, Any]]:
    """Return the SparkApplications of a run."""
    found = cluster.node.get("sparkapplications")["items"]
    return [one for one in found if f"-{run_id}-" in one["metadata"]["name"]]


def test_the_operator_runs_the_driver_of_a_run(cluster: Cluster, operator: None) -> None:
    done = cluster.run("operated", spark=OF_OPERATOR)
    assert done.returncode == 0, done.stderr
    assert cluster.rows("operated") == ROWS
    until(lambda: applications(cluster, "operated")[0]["status"]["applicationState"]["state"] == "COMPLETED")
    assert cluster.node.get("pods", "-l", "spark-role=executor")["items"] == []


def test_a_driver_whose_image_is_not_there_is_reported_and_deleted(cluster: Cluster, operator: None) -> None:
    done = cluster.run("none", spark=OF_OPERATOR, spark_kubernetes_container_image="docker.io/library/none:1")
    assert done.returncode == 1
    assert ", of the image docker.io/library/none:1." in done.stderr, done.stderr[-1500:]
    assert applications(cluster, "none") == []
    until(lambda: not [name for name in cluster.drivers() if "-none-" in name])


def test_a_driver_that_the_operator_cannot_submit_is_reported_in_its_words(cluster: Cluster, operator: None) -> None:
    done = cluster.run("ports", spark=OF_OPERATOR, spark_kubernetes_driver_request_cores="many")
    assert done.returncode == 1
    assert "FAILED: Pod in version" in done.stderr, done.stderr[-1500:]
    assert "\tat io." not in done.stderr
    assert applications(cluster, "ports") == []


def test_a_driver_of_the_operator_that_is_killed_is_reported_and_its_run_is_resumed(
    cluster: Cluster, operator: None
) -> None:
    options = ("--config", "job.intermediate.stream.partitions=32")
    running = cluster.start("fallen", *options, spark=OF_OPERATOR)
    stages = cluster.folder / "root/runs/flights-of-the-year/fallen/stages"
    until(lambda: bool(list(stages.glob("flights/*/manifests/*/*.json"))), 200)
    (driver,) = [name for name in cluster.drivers() if "-fallen-" in name]
    cluster.kill(driver)
    said, _ = running.communicate(timeout=300)
    assert running.returncode == 1, said[-1500:]
    assert f"its pod default:{driver} has ended with exit code 137" in said, said[-1500:]
    done = cluster.run("fallen", *options, spark=OF_OPERATOR)
    assert done.returncode == 0, done.stderr
    assert cluster.rows("fallen") == ROWS
    cluster.node.kubectl("delete", f"sparkapplication/{driver.removesuffix('-driver')}")
    until(lambda: driver not in cluster.drivers())

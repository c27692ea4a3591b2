"""SparkApplications on a real API server, which knows the fields of the operator's schema that are used; no operator."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_samza.errors import StageFailed
from airflow_samza.launch.drivers.driver_services import Driver, driver_service
from airflow_samza.launch.drivers.spark_application import API_VERSION
from demo.kubernetes.node import Node
from tests.kubernetes.cluster import until

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
    node.kubectl("apply", "-f", "-", given=definition())
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

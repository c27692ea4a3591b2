"""An Airflow whose tasks are pods of a node; its own processes run on this machine, over PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from demo.airflow_parts import AirflowInParts
from demo.kubernetes.node import ADDRESS, Node
from demo.kubernetes.product import IMAGE

CLAIM = "samza"
"""The claim that all pods mount."""


def volumes(folder: Path, volume_name: str = CLAIM) -> str:
    """Return the volume of a folder of this machine, and the claim on it that all pods may mount."""
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": volume_name},
        "spec": {
            "capacity": {"storage": "10Gi"},
            "accessModes": ["ReadWriteMany"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "",
            "hostPath": {"path": str(folder), "type": "Directory"},
        },
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": CLAIM},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "",
            "volumeName": volume_name,
            "resources": {"requests": {"storage": "10Gi"}},
        },
    }
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": [volume, claim]})


def pod_template(folder: Path, env: Mapping[str, str]) -> dict[str, Any]:
    """Return the pod of a task, as the page *Containers* has it, with the claim at the path of its folder."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "samza-task"},
        "spec": {
            "restartPolicy": "Never",
            "containers": [
                {
                    "name": "base",
                    "image": IMAGE,
                    "imagePullPolicy": "IfNotPresent",
                    "env": [{"name": name, "value": value} for name, value in env.items()],
                    "resources": {"requests": {"cpu": "200m", "memory": "512Mi"}, "limits": {"memory": "3Gi"}},
                    "securityContext": {"readOnlyRootFilesystem": True},
                    "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}, {"name": CLAIM, "mountPath": str(folder)}],
                }
            ],
            "volumes": [
                {"name": "tmp", "emptyDir": {}},
                {"name": CLAIM, "persistentVolumeClaim": {"claimName": CLAIM}},
            ],
        },
    }


class AirflowOnKubernetes(AirflowInParts):
    """The processes of an Airflow with KubernetesExecutor; pods mount ``folder`` at its own path.

    ``dags`` is a folder in it, and task logs are written there. Pods have ``env``, too.
    """

    def __init__(
        self,
        home: Path,
        node: Node,
        *,
        dags: Path,
        folder: Path,
        database: str,
        env: Mapping[str, str] | None = None,
        connections: Mapping[str, str] | None = None,
    ) -> None:
        self._node = node
        logs, template = folder / "logs", home.resolve() / "pod.json"
        logs.mkdir(parents=True, exist_ok=True)
        logs.chmod(0o777)
        settings = {
            "AIRFLOW__CORE__EXECUTOR": "KubernetesExecutor",
            "AIRFLOW__KUBERNETES_EXECUTOR__IN_CLUSTER": "False",
            "AIRFLOW__KUBERNETES_EXECUTOR__CONFIG_FILE": str(node.kubeconfig),
            "AIRFLOW__KUBERNETES_EXECUTOR__POD_TEMPLATE_FILE": str(template),
            "AIRFLOW__KUBERNETES_EXECUTOR__WORKER_CONTAINER_REPOSITORY": IMAGE.rpartition(":")[0],
            "AIRFLOW__KUBERNETES_EXECUTOR__WORKER_CONTAINER_TAG": IMAGE.rpartition(":")[2],
            "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(logs),
            **(env or {}),
        }
        super().__init__(home, dags=dags, database=database, env=settings, connections=connections)
        inside = {
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://{ADDRESS}:{self.port}/execution/",
            "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(logs),
            "HOME": "/tmp",
            "AIRFLOW_HOME": "/tmp/airflow",
            **(env or {}),
        }
        template.parent.mkdir(parents=True, exist_ok=True)
        template.write_text(json.dumps(pod_template(folder, inside)))  # JSON is YAML

    def _launch(self, timeout: float) -> None:
        super()._launch(timeout)
        self._node.expose(self.port)

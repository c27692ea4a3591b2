"""The node of the tests with this package's image, a store beside it, and an Airflow whose tasks are its pods."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from demo import flights_data
from demo.databases import running_postgres
from demo.kubernetes import product
from demo.kubernetes.airflow import AirflowOnKubernetes, volumes
from demo.kubernetes.node import ADDRESS, Node, place_of_parts
from demo.store_servers import BUCKET, S3Server
from tests.support import waiting

REPOSITORY = Path(__file__).resolve().parents[2]
MANIFESTS = REPOSITORY / "docker/kubernetes"
APPLICATION = "pipelines.flights:flights_of_the_year"
ROWS = 477
"""The rows of its output."""

FIRST = "delays.flights"
"""The task of the first stage in the demo's Dag."""

LAST = "delays.by-maker-and-hour"
"""The task of the last one, which has the output."""

CONNECT = "samza-connect.default.svc.cluster.local"
"""The name of the shared Spark Connect server."""

CONNECT_TOKEN = f"token-of-connect-{secrets.token_hex(8)}"

ON_CLAIM = """
[env.node]
root = "{folder}/root"
[env.node.systems.data]
kind = "files"
root = "{folder}/data"
[env.node.systems.warehouse]
kind = "files"
root = "{folder}/warehouse"
"""
"""Root and files on the claim, which all pods mount."""

SPARK = {
    "spark.kubernetes.container.image": product.IMAGE,
    "spark.kubernetes.authenticate.driver.serviceAccountName": "samza-driver",
    "spark.kubernetes.submission.connectionTimeout": "60000",
    "spark.kubernetes.submission.requestTimeout": "60000",
    "spark.executor.instances": "1",
    "spark.executor.memory": "512m",
    "spark.driver.memory": "512m",
    "spark.kubernetes.driver.request.cores": "0.2",
    "spark.kubernetes.executor.request.cores": "0.2",
}
"""Settings of a Spark of little memory in pods."""

OF_CLUSTER = ("--master", f"k8s://https://{ADDRESS}:6443", "--deploy-mode", "cluster")
OF_OPERATOR = ("--master", "sparkapplication://default")
OUTSIDE = (*OF_CLUSTER[:2], "--deploy-mode", "client")
"""Options that say where the Spark of a run is."""

PODS = {"conn_type": "spark", "host": "k8s://https://kubernetes.default.svc", "port": 443}
"""The connection of a pod to the Spark of its cluster, without its ``extra``."""


def claim_of_pods(folder: Path) -> dict[str, str]:
    """Return the settings by which the pods of drivers and executors mount the claim at a path."""
    volumes = [f"spark.kubernetes.{role}.volumes.persistentVolumeClaim.root" for role in ("driver", "executor")]
    options = {"options.claimName": "samza", "mount.path": str(folder)}
    return {f"{volume}.{name}": value for volume in volumes for name, value in options.items()}


class Cluster:
    """A node with the image of this checkout, the shipped rights, and the claim ``samza`` on ``folder``.

    Pods and commands on the node have the folder at the same path; the flights are in its ``data``.
    """

    def __init__(self, node: Node, folder: Path) -> None:
        self.node = node
        self.folder = folder

    def run(self, run_id: str, *options: str, timeout: float = 400, **more: Any) -> subprocess.CompletedProcess[str]:
        """Run the application from the node, in cluster mode if nothing else is said.

        ``more`` is the part of samza.toml that says where root and files are (``places``), the options that say where
        Spark is (``spark``), and settings of Spark.
        """
        command = self.command(run_id, *options, **more)
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=self.env())

    def start(self, run_id: str, *options: str, **more: Any) -> subprocess.Popen[str]:
        """Begin such a run; its output and its errors are one text."""
        return subprocess.Popen(
            self.command(run_id, *options, **more),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self.env(),
        )

    def command(
        self, run_id: str, *options: str, places: str = ON_CLAIM, spark: Sequence[str] = OF_CLUSTER, **settings: str
    ) -> list[str]:
        """Return the command line of a run; ``spark`` are the options that say where its Spark is."""
        conf = SPARK | claim_of_pods(self.folder) if places is ON_CLAIM else SPARK
        conf = conf | {name.replace("_", "."): value for name, value in settings.items()}
        lines = [f"{json.dumps(name)} = {json.dumps(value)}" for name, value in conf.items()]
        text = "\n".join([places.format(folder=self.folder), "[env.node.spark]", *lines])
        place = self.folder.parent / f"toml-{run_id}"
        place.mkdir(exist_ok=True)
        (place / "samza.toml").write_text(text)
        samza = str(Path(sys.executable).with_name("airflow-samza"))
        asked = [samza, "run", APPLICATION, "--config-file", str(place / "samza.toml"), "--env", "node"]
        return self.node.enter(*asked, "--run-id", run_id, *spark, *options)

    def env(self) -> dict[str, str]:
        """Return the environment of such a command: the administrator of the cluster."""
        paths = os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "dags")])
        return {**os.environ, "KUBECONFIG": str(self.node.kubeconfig_inside), "PYTHONPATH": paths}

    def rows(self, run_id: str) -> int:
        """Return the rows of the run's output."""
        import pyarrow.dataset as ds

        return int(ds.dataset(self.folder / "warehouse/delays-of-the-year" / run_id, format="parquet").count_rows())

    def shown(self) -> str:
        """Return what somebody reads who may look at everything: all objects, their descriptions, events, logs."""
        kinds = self.node.kubectl("api-resources", "--verbs=list", "--namespaced", "-o", "name").split()
        text = self.node.kubectl("get", ",".join(kinds), "-A", "-o", "yaml", check=False)
        text += self.node.kubectl("describe", "all,configmaps,secrets,events", "-A", check=False)
        for pod in self.node.get("pods")["items"]:
            name = pod["metadata"]["name"]
            text += self.node.kubectl("logs", name, "--all-containers", check=False)
        return text

    def drivers(self) -> list[str]:
        """Return the pods of drivers, by name."""
        return [pod["metadata"]["name"] for pod in self.node.get("pods", "-l", "spark-role=driver")["items"]]

    def kill(self, driver: str) -> None:
        """Kill all processes of the driver's container."""
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.environ().get("HOSTNAME") == driver:
                    process.kill()


def cluster_on(node: Node) -> Cluster:
    """Return the cluster of a node, on which the product then runs."""
    image = node.folder / "product.tar"
    newer = node.folder / "newer.tar"
    product.build(image, node.folder / "layers", place_of_parts())
    product.build_newer(newer, node.folder / "layers", image)
    node.load(image)
    node.load(newer)
    shutil.rmtree(node.folder / "layers")
    image.unlink()
    folder = node.folder / "volumes" / "samza"
    folder.mkdir()
    flights_data.prepare(folder / "data")
    node.kubectl("apply", "-f", "-", given=volumes(folder))
    node.kubectl("apply", "-f", str(MANIFESTS / "rbac.yaml"))
    return Cluster(node, folder)


class Store(S3Server):
    """An S3 of this machine that pods reach at the node, with the flights in its bucket."""

    key = f"key-of-the-store-{secrets.token_hex(8)}"

    @property
    def inside(self) -> str:
        """Its address for pods."""
        return f"http://{ADDRESS}:{self.port}"

    def places(self) -> str:
        """Return the part of samza.toml that puts root and files into the bucket."""
        access = f'endpoint = "{self.inside}"\nregion = "us-east-1"\naccess_key_id = "demo"\n'
        access += 'secret_access_key = {{ env = "STORE_KEY" }}\n'
        text = f'[env.node]\nroot = "s3://{BUCKET}/root"\n[env.node.access]\n{access}'
        for system, folder in (("data", "data"), ("warehouse", "warehouse")):
            text += f'[env.node.systems.{system}]\nkind = "files"\nroot = "s3://{BUCKET}/{folder}"\n{access}'
        return text

    def fill(self, data: Path) -> None:
        """Put the files below a folder into the bucket, under ``data``."""
        for file in data.rglob("*.parquet"):
            self.ask("PUT", f"/{BUCKET}/data/{file.relative_to(data)}", file.read_bytes())

    def rows(self, path: str) -> int:
        """Return the rows of the Parquet files below a path of the bucket."""
        import pyarrow.dataset as ds

        return int(ds.dataset(f"{BUCKET}/{path}", filesystem=self._files(), format="parquet").count_rows())

    def names(self, path: str) -> list[str]:
        """Return the names of all objects below a path of the bucket."""
        from pyarrow.fs import FileSelector

        return [info.path for info in self._files().get_file_info(FileSelector(f"{BUCKET}/{path}", recursive=True))]

    def _files(self) -> Any:
        from pyarrow.fs import S3FileSystem

        return S3FileSystem(access_key="demo", secret_key=self.key, endpoint_override=self.endpoint, region="us-east-1")


@contextmanager
def store_beside(cluster: Cluster, place: Path) -> Iterator[Store]:
    """An object store in a folder, which pods reach."""
    started = Store(place)
    try:
        started.start()
        started.fill(cluster.folder / "data")
        cluster.node.expose(started.port)
        yield started
    finally:
        started.stop()


@contextmanager
def airflow_on(
    cluster: Cluster,
    store: Store,
    place: Path,
    *dags: Path,
    env: Mapping[str, str] | None = None,
    connections: Mapping[str, Any] | None = None,
) -> Iterator[AirflowOnKubernetes]:
    """An Airflow with the demo's Dags and the files ``dags``; its pods have Dags and logs on the claim.

    Root and data are on the claim, too, and with the connections ``…_in_store`` in the store.
    """
    folder = cluster.folder
    shutil.copytree(REPOSITORY / "dags", folder / "dags", ignore=shutil.ignore_patterns("__pycache__"))
    for file in dags:
        shutil.copy(file, folder / "dags")
    described = {
        "samza_default": {"conn_type": "samza", "extra": {"root": str(folder / "root-of-dags")}},
        "flights_data": {"conn_type": "fs", "extra": {"path": str(folder / "data")}},
        "flights_warehouse": {"conn_type": "fs", "extra": {"path": str(folder / "warehouse-of-dags")}},
        "store": {
            "conn_type": "aws",
            "login": "demo",
            "password": store.key,
            "extra": {"endpoint_url": store.inside, "region_name": "us-east-1"},
        },
        "samza_in_store": {"conn_type": "samza", "extra": in_store("root", "root")},
        "data_in_store": {"conn_type": "fs", "extra": in_store("path", "data")},
        "samza_on_connect": {
            "conn_type": "samza",
            "extra": {"root": str(folder / "root-of-dags"), "spark_conn_id": "connect"},
        },
        "connect": {
            "conn_type": "spark_connect",
            "host": f"sc://{CONNECT}",
            "port": 15002,
            "password": CONNECT_TOKEN,
            "extra": {"use_ssl": True},
        },
        "client": {**PODS, "extra": {"deploy-mode": "client", "namespace": "default"}},
        "samza_in_client_mode": {
            "conn_type": "samza",
            "extra": {
                "root": str(folder / "root-of-dags"),
                "spark_conn_id": "client",
                "spark_conf": SPARK | claim_of_pods(folder),
            },
        },
        "warehouse_in_store": {"conn_type": "fs", "extra": in_store("path", "warehouse-of-dags")},
        **(connections or {}),
    }
    with (
        running_postgres(place / "postgres") as database,
        AirflowOnKubernetes(
            place / "home",
            cluster.node,
            dags=folder / "dags",
            folder=folder,
            database=database,
            env={
                "AIRFLOW__CORE__DEFAULT_TASK_RETRY_DELAY": "1",
                "AIRFLOW__KUBERNETES_EXECUTOR__TASK_PUBLISH_MAX_RETRIES": "-1",  # as in values.yaml
                "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(folder / "connect.pem"),
                **(env or {}),
            },
            connections={name: json.dumps(connection) for name, connection in described.items()},
        ) as started,
    ):
        yield started


def in_store(field: str, path: str) -> dict[str, str]:
    """Return the extra of a connection to a place in the store."""
    return {field: f"s3://{BUCKET}/{path}", "root_conn_id": "store"}


def rows_of(airflow: AirflowOnKubernetes, dag_id: str, run_id: str) -> int:
    """Return the rows of the output that the task of the last stage names."""
    import pyarrow.dataset as ds

    output = airflow.xcom(dag_id, run_id, LAST)["outputs"]["delays"]["path"]
    return int(ds.dataset(output, format="parquet").count_rows())


def pods_of(cluster: Cluster, run_id: str) -> list[dict[str, Any]]:
    """Return the pods of a Dag run's tasks; Airflow keeps those that have failed, for whoever looks into them."""
    found: list[dict[str, Any]] = [
        pod
        for pod in cluster.node.get("pods", "-l", "kubernetes_executor=True")["items"]
        if pod["metadata"]["annotations"].get("run_id") == run_id
    ]
    return found


def running(cluster: Cluster, run_id: str) -> list[str]:
    """Return the pods of a run that are at work."""
    return [pod["metadata"]["name"] for pod in pods_of(cluster, run_id) if pod["status"]["phase"] == "Running"]


def pod_of(cluster: Cluster, run_id: str, task_id: str) -> str:
    """Return the pod of a task once it is at work."""

    def look() -> str:
        return next(
            (
                str(pod["metadata"]["name"])
                for pod in pods_of(cluster, run_id)
                if pod["metadata"]["annotations"]["task_id"] == task_id and pod["status"]["phase"] == "Running"
            ),
            "",
        )

    return waiting.until(look, 400, pause=0.2)


def until(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    """Return when it holds; each look may be a process of kubectl, so looks are rare."""
    waiting.until(holds, seconds, pause=0.2)

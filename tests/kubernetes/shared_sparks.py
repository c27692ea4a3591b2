"""Sparks beside the cluster of the tests: a Spark Connect server in a pod, and Kubeflow's Spark operator."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from demo.certificates import certificate, pem
from demo.kubernetes import product
from demo.kubernetes.node import ADDRESS, place_of_parts
from tests.kubernetes.cluster import CONNECT, CONNECT_TOKEN, MANIFESTS, Cluster, until
from tests.support.documentation_pages import text_of


@contextmanager
def connect_server_on(cluster: Cluster) -> Iterator[None]:
    """A Spark Connect server: the shipped Deployment with this image, and the root at its path."""
    signing, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    trusted = certificate("authority", signing, signing, is_authority=True)
    (cluster.folder / "connect.pem").write_bytes(trusted.public_bytes(serialization.Encoding.PEM))
    made = certificate(CONNECT, key, signing, [x509.DNSName(CONNECT)])
    place = cluster.node.folder / "connect"
    manifest = place / "docker/kubernetes/connect.yaml"
    manifest.parent.mkdir(parents=True)
    (place / "connect.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (place / "connect.key").write_bytes(pem(key))
    text = (MANIFESTS / "connect.yaml").read_text()
    for old, new in (("registry.example.com/airflow-samza:1", product.IMAGE), ("/srv/samza", str(cluster.folder))):
        assert old in text
        text = text.replace(old, new)
    manifest.write_text(text)
    run_commands_of_page("A Spark that stages share", cluster, place, TOKEN=CONNECT_TOKEN)
    until(lambda: len(ready(cluster)) == 1, 300)
    try:
        yield
    finally:
        cluster.node.kubectl("delete", "--wait=false", "-f", str(manifest))


@contextmanager
def spark_operator_on(cluster: Cluster, folder: Path) -> Iterator[None]:
    """Kubeflow's Spark operator, whose repository, with its program built, is in a folder; it is a process on the node.

    Its output is in ``log/spark-operator.log`` of the node.
    """
    import pyspark

    node = cluster.node
    definitions = str(folder / "config/crd/bases")
    node.kubectl("apply", "--server-side", "--force-conflicts", "-f", definitions)
    node.kubectl("wait", "--for=condition=Established", "--timeout=60s", "-f", definitions)
    environment = {
        **os.environ,
        "KUBECONFIG": str(node.kubeconfig_inside),
        "KUBERNETES_SERVICE_HOST": ADDRESS,
        "KUBERNETES_SERVICE_PORT": "6443",
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
    }
    options = ("--namespaces=default", "--leader-election=false", "--enable-ui-service=false")
    command = node.enter(str(folder / "bin/spark-operator"), "controller", "start", *options)
    with (node.folder / "log/spark-operator.log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
    try:
        yield
    finally:
        assert process.poll() is None
        process.terminate()
        process.wait(60)


def run_commands_of_page(section: str, cluster: Cluster, place: Path, **variables: str) -> None:
    """Run the first commands of kubectl in a section of the page *On Kubernetes*, in a folder and as the administrator."""
    (block,) = re.findall(
        rf"^## {section}\n.*?```console\n(.*?)```", text_of("operate/kubernetes.md"), re.DOTALL | re.M
    )
    commands = "\n".join(line for line in block.splitlines() if line.startswith("kubectl "))
    assert commands
    environment = {**os.environ, "PATH": f"{place_of_parts()}:{os.environ['PATH']}", **variables}
    subprocess.run(
        ["bash", "-euc", commands.replace("-n etl", "-n default")],
        env={**environment, "KUBECONFIG": str(cluster.node.kubeconfig)},
        cwd=place,
        check=True,
        stdout=subprocess.DEVNULL,
    )


def connect_servers(cluster: Cluster) -> list[dict[str, Any]]:
    """Return the pods of the Deployment."""
    found: list[dict[str, Any]] = cluster.node.get("pods", "-l", "app=samza-connect")["items"]
    return found


def ready(cluster: Cluster) -> list[str]:
    """Return the pods that take new clients."""
    return [
        pod["metadata"]["name"]
        for pod in connect_servers(cluster)
        if "deletionTimestamp" not in pod["metadata"]
        and all(container["ready"] for container in pod["status"].get("containerStatuses", [{"ready": False}]))
    ]

"""A node of Kubernetes that ``make kubernetes`` starts: pods run, find each other, and nothing is left of it."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import psutil
import pytest

from demo.kubernetes.node import CONTROL_GROUP, PAUSE, Node
from tests.kubernetes.cluster import until

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(600)]

POD = """
apiVersion: v1
kind: Pod
metadata: {{name: {name}, labels: {{app: {name}}}}}
spec:
  containers: [{{name: main, image: "{image}", imagePullPolicy: IfNotPresent, ports: [{{containerPort: 7077}}]}}]
"""

SERVICE = """
apiVersion: v1
kind: Service
metadata: {name: waits}
spec: {selector: {app: waits}, clusterIP: None, ports: [{port: 7077}]}
"""


def phase(node: Node, name: str) -> str:
    return str(node.get("pod", name)["status"]["phase"])


def test_a_pod_runs_and_a_service_without_an_address_names_the_pods(node: Node) -> None:
    node.kubectl("apply", "-f", "-", given=POD.format(name="waits", image=PAUSE))
    node.kubectl("apply", "-f", "-", given=SERVICE)
    until(lambda: phase(node, "waits") == "Running")
    address = node.get("pod", "waits")["status"]["podIP"]
    program = "import socket; print(socket.gethostbyname('waits.default.svc.cluster.local'))"
    resolv = [
        "unshare",
        "--mount",
        "sh",
        "-c",
        f'mount --bind {node.folder}/resolv.conf /etc/resolv.conf; exec "$@"',
        "-",
    ]
    asked = subprocess.run([*node.enter(*resolv, "python3", "-c", program)], capture_output=True, text=True, check=True)
    assert asked.stdout.strip() == address
    node.kubectl("delete", "pod,service", "waits", "--grace-period=0", "--force")


@pytest.mark.extended
def test_nothing_is_left_of_a_node_that_was_stopped(can_start: None) -> None:
    before = {link.name for link in Path("/sys/class/net").iterdir()}
    groups = set(Path("/sys/fs/cgroup").glob(f"**/{CONTROL_GROUP}*"))
    rules = subprocess.run(["iptables-save"], capture_output=True, text=True, check=True).stdout
    # A short path: sockets of the kubelet lie below it.
    with tempfile.TemporaryDirectory(prefix="node-", dir="/var/tmp") as folder, Node(Path(folder)) as node:
        started = [process.pid for process in psutil.Process(node.pid).children(recursive=True)]
        assert started
    until(lambda: not any(psutil.pid_exists(pid) for pid in started), 15.0)
    assert {link.name for link in Path("/sys/class/net").iterdir()} == before
    assert subprocess.run(["iptables-save"], capture_output=True, text=True, check=True).stdout == rules
    assert folder not in Path("/proc/self/mounts").read_text()
    assert set(Path("/sys/fs/cgroup").glob(f"**/{CONTROL_GROUP}*")) == groups

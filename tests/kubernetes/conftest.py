"""One node for all tests of this folder; they are skipped where it cannot be had, with the reason."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from demo.kubernetes.airflow import AirflowOnKubernetes
from demo.kubernetes.node import Node, what_is_missing
from tests.kubernetes.cluster import Cluster, Store, airflow_on, cluster_on, store_beside

collect_ignore = ["pod_dags.py", "pod_pipelines.py"]  # a Dag file and its application, for Airflow to read


@pytest.fixture
def acted(request: pytest.FixtureRequest) -> Iterator[Callable[[], None]]:
    """Call it at an act; the seconds from there until the test has seen that all is right are printed."""
    moments: list[float] = []
    yield lambda: moments.append(time.monotonic())
    for moment in moments[:1]:  # a test that has failed before it came to its act says so itself
        print(f"{request.node.name}: {time.monotonic() - moment:.0f} s after the act")


@pytest.fixture(scope="session")
def can_start() -> None:
    """Skips tests that start a node where its programs are not installed."""
    missing = what_is_missing()
    if missing:
        pytest.skip(f"no Kubernetes can be started here: {missing}")


@pytest.fixture(scope="session")
def node(can_start: None) -> Iterator[Node]:
    """A node of Kubernetes."""
    place = os.environ.get("KUBERNETES_FOLDER", "/var/tmp")  # a disk: a root on a tmpfs is rejected in pods
    with (
        tempfile.TemporaryDirectory(prefix="node-", dir=place) as folder,
        Node(Path(folder)) as started,
    ):
        yield started


@pytest.fixture(scope="session")
def cluster(node: Node) -> Cluster:
    """A node on which the product runs."""
    return cluster_on(node)


@pytest.fixture(scope="session")
def store(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """An object store that pods reach."""
    with store_beside(cluster, tmp_path_factory.mktemp("store")) as started:
        yield started


@pytest.fixture(scope="session")
def airflow(cluster: Cluster, store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowOnKubernetes]:
    """An Airflow with the demo's Dags and those of ``pod_dags.py``."""
    files = (Path(__file__).with_name(name) for name in ("pod_dags.py", "pod_pipelines.py"))
    with airflow_on(cluster, store, tmp_path_factory.mktemp("airflow"), *files) as started:
        yield started

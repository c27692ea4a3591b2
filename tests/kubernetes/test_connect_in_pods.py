"""A Spark Connect server as a Deployment, from docker/kubernetes/connect.yaml, that the stages of runs share."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest

from tests.kubernetes.cluster import CONNECT_TOKEN, FIRST, ROWS, Cluster, pod_of, rows_of, until
from tests.kubernetes.shared_sparks import connect_server_on, connect_servers, ready

pytestmark = [pytest.mark.kubernetes, pytest.mark.nightly, pytest.mark.timeout(1500)]


@pytest.fixture(scope="module")
def server(cluster: Cluster) -> Iterator[None]:
    """The shipped Deployment with this image, and the root at its path."""
    with connect_server_on(cluster):
        yield


def test_a_rolling_restart_lets_those_who_are_at_work_end(airflow: Any, cluster: Cluster, server: None) -> None:
    run_id = airflow.trigger("flights_on_connect")
    pod_of(cluster, run_id, FIRST)
    (old,) = ready(cluster)
    wait_for_session(cluster, old)
    cluster.node.kubectl("rollout", "restart", "deployment/samza-connect")
    assert airflow.wait_for_run("flights_on_connect", run_id, 1200)["state"] == "success"
    assert {task["try_number"] for task in airflow.tasks("flights_on_connect", run_id)} == {1}
    assert rows_of(airflow, "flights_on_connect", run_id) == ROWS
    until(lambda: [pod["metadata"]["name"] for pod in connect_servers(cluster)] == ready(cluster) != [old], 300)


def test_no_token_of_a_server_is_seen_outside_of_its_secret(airflow: Any, cluster: Cluster, server: None) -> None:
    """Looks at all that is left of the runs before; the Secret's own value is what only few may read."""
    hidden = base64.b64encode(CONNECT_TOKEN.encode()).decode()
    shown = cluster.shown()
    assert shown.count(hidden) <= 2  # the Secret, and what `kubectl apply` noted in it
    assert CONNECT_TOKEN not in shown


def wait_for_session(cluster: Cluster, pod: str) -> None:
    """Return once a client is connected with the server of a pod."""
    looks = ("exec", pod, "-c", "tls", "--", "grep", "-q", ":3A9B [0-9A-F]*:[0-9A-F]* 01 ", "/proc/net/tcp6")

    def look() -> bool:
        try:
            cluster.node.kubectl(*looks)
        except RuntimeError:
            return False
        return True

    until(look, 300)

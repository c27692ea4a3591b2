"""Acts on tasks whose pods are lost: a run ends right, or with a sentence in the task's log, and leaves nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from tests.kubernetes.cluster import FIRST, LAST, ROWS, Cluster, pod_of, rows_of, running, until

pytestmark = [pytest.mark.kubernetes, pytest.mark.nightly, pytest.mark.timeout(1500)]

PLAN, CLEANUP = "delays.plan", "delays.cleanup"
MINUTE = 60


def made(cluster: Cluster) -> set[tuple[str, str]]:
    """Return kind and name of all objects that a run might leave behind, other than pods."""
    found = cluster.node.get("configmaps,services,secrets,networkpolicies,persistentvolumeclaims")["items"]
    return {(one["kind"], one["metadata"]["name"]) for one in found}


@pytest.fixture(autouse=True)
def nothing_is_left(cluster: Cluster) -> Iterator[None]:
    """Check that a test leaves no object behind that was not there before."""
    before = made(cluster)
    yield
    assert made(cluster) - before == set()


def folder_of(airflow: Any, cluster: Cluster, dag_id: str, run_id: str) -> Any:
    """Return the folder of a planned run's records."""
    plan = airflow.xcom(dag_id, run_id, PLAN)
    return cluster.folder / "root-of-dags/runs" / plan["application"] / plan["run_id"]


def ends_right(airflow: Any, cluster: Cluster, dag_id: str, run_id: str) -> None:
    """Check that a run succeeds with all rows, and that no pod of it is at work."""
    done = airflow.wait_for_run(dag_id, run_id, 1200)
    assert done["state"] == "success", airflow.task_states(dag_id, run_id)
    assert rows_of(airflow, dag_id, run_id) == ROWS
    until(lambda: not running(cluster, run_id))


def tries(airflow: Any, dag_id: str, run_id: str) -> dict[str, int]:
    """Return the number of tries of the tasks that had more than one."""
    return {task["task_id"]: task["try_number"] for task in airflow.tasks(dag_id, run_id) if task["try_number"] > 1}


def is_running(airflow: Any, run_id: str, task_id: str) -> bool:
    """Return True once Airflow has heard of a task of the flights that it runs."""
    return bool(airflow.task("flights", run_id, task_id)["state"] == "running")


def test_pods_that_are_deleted_in_plan_and_in_cleanup_are_made_again(
    airflow: Any, cluster: Cluster, acted: Callable[[], None]
) -> None:
    run_id = airflow.trigger("flights")
    for task_id in (PLAN, CLEANUP):
        pod = pod_of(cluster, run_id, task_id)
        until(partial(is_running, airflow, run_id, task_id))  # a pod that ends before is no try of the task
        acted()
        cluster.node.kubectl("delete", "pod", pod, "--grace-period=0", "--force")
    ends_right(airflow, cluster, "flights", run_id)
    assert tries(airflow, "flights", run_id) == {PLAN: 2, CLEANUP: 2}


def test_a_pod_that_is_deleted_after_a_commit_of_its_stage_doubles_nothing(
    airflow: Any, cluster: Cluster, acted: Callable[[], None]
) -> None:
    run_id = airflow.trigger("flights_in_epochs")
    pod = pod_of(cluster, run_id, FIRST)
    stage = folder_of(airflow, cluster, "flights_in_epochs", run_id) / "stages/flights"
    until(lambda: bool(list(stage.glob("*/epochs/*/commit.json"))), 400)
    acted()
    cluster.node.kubectl("delete", "pod", pod, "--grace-period=1")
    ends_right(airflow, cluster, "flights_in_epochs", run_id)
    assert FIRST in tries(airflow, "flights_in_epochs", run_id)


def test_a_stage_whose_disk_is_full_fails_and_nothing_stays_running(
    airflow: Any, cluster: Cluster, acted: Callable[[], None]
) -> None:
    acted()
    run_id = airflow.trigger("flights_of_little_disk")
    assert airflow.wait_for_run("flights_of_little_disk", run_id, 900)["state"] == "failed"
    states = airflow.task_states("flights_of_little_disk", run_id)
    assert (states[FIRST], states[CLEANUP]) == ("failed", "success")
    evictions = cluster.node.get("events", "--field-selector", "reason=Evicted")["items"]
    assert 'Usage of EmptyDir volume "small" exceeds the limit "64Ki"' in " ".join(one["message"] for one in evictions)
    until(lambda: not running(cluster, run_id))


def test_a_run_goes_on_with_a_newer_image(airflow: Any, cluster: Cluster) -> None:
    run_id = airflow.trigger("flights_of_two_images")
    pod = pod_of(cluster, run_id, LAST)
    assert cluster.node.get("pod", pod)["spec"]["containers"][0]["image"].endswith(":2")
    ends_right(airflow, cluster, "flights_of_two_images", run_id)
    assert tries(airflow, "flights_of_two_images", run_id) == {}


def test_a_run_goes_on_when_the_api_server_was_away_for_a_minute(
    airflow: Any, cluster: Cluster, acted: Callable[[], None]
) -> None:
    run_id = airflow.trigger("flights")
    pod_of(cluster, run_id, FIRST)
    acted()
    with cluster.node.without_api_server():
        time.sleep(MINUTE)
    # A scheduler that lists pods without an API server ends; its Deployment starts it again.
    airflow.start_part("scheduler")
    ends_right(airflow, cluster, "flights", run_id)


def test_a_stage_goes_on_in_another_pod_when_its_node_is_drained(
    airflow: Any, cluster: Cluster, acted: Callable[[], None]
) -> None:
    run_id = airflow.trigger("flights")
    pod = pod_of(cluster, run_id, FIRST)
    (node,) = [one["metadata"]["name"] for one in cluster.node.get("nodes")["items"]]
    told = ["--force", "--delete-emptydir-data", "--grace-period=5", "--timeout=100s"]
    acted()
    cluster.node.kubectl("drain", node, *told, "--pod-selector", "kubernetes_executor=True")
    assert pod not in running(cluster, run_id)
    cluster.node.kubectl("uncordon", node)
    ends_right(airflow, cluster, "flights", run_id)
    assert tries(airflow, "flights", run_id)[FIRST] == 2  # other pods of the run may have been on the node, too

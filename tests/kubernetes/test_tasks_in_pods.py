"""Airflow's KubernetesExecutor: each task of a Dag is a pod, from the pod template of the page *Containers*."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from demo.store_servers import BUCKET
from tests.kubernetes.cluster import FIRST, LAST, ROWS, Cluster, Store, pod_of, pods_of, rows_of, running, until

pytestmark = [pytest.mark.kubernetes, pytest.mark.nightly, pytest.mark.timeout(1500)]


def wait_until_at_work(airflow: Any, cluster: Cluster, run_id: str, stage: str) -> None:
    """Return once an attempt at a stage runs."""
    plan = airflow.xcom("flights", run_id, "delays.plan")
    folder = cluster.folder / "root-of-dags/runs" / plan["application"] / plan["run_id"] / "stages" / stage

    def look() -> bool:
        statuses = folder.glob("*/attempts/*/status.json")
        return any(json.loads(path.read_text())["state"] == "running" for path in statuses)

    until(look, 300)


def test_each_task_of_the_demos_dag_is_a_pod_and_none_is_left(airflow: Any, cluster: Cluster) -> None:
    run_id = airflow.trigger("flights")
    assert airflow.wait_for_run("flights", run_id, 900)["state"] == "success", airflow.task_states("flights", run_id)
    assert rows_of(airflow, "flights", run_id) == ROWS
    assert "succeeded" in airflow.log("flights", run_id, FIRST)
    until(lambda: not pods_of(cluster, run_id))


def test_root_and_files_of_a_dag_may_lie_in_an_object_store(airflow: Any, cluster: Cluster, store: Store) -> None:
    run_id = airflow.trigger("flights_in_store")
    done = airflow.wait_for_run("flights_in_store", run_id, 900)
    assert done["state"] == "success", airflow.task_states("flights_in_store", run_id)
    output = airflow.xcom("flights_in_store", run_id, LAST)["outputs"]["delays"]["path"]
    assert store.rows(output.partition(f"{BUCKET}/")[2]) == ROWS
    until(lambda: not pods_of(cluster, run_id))


def test_a_pod_that_is_deleted_in_a_stage_loses_and_doubles_nothing(
    airflow: Any, cluster: Cluster, acted: Callable[[], None]
) -> None:
    run_id = airflow.trigger("flights")
    pod = pod_of(cluster, run_id, FIRST)
    wait_until_at_work(airflow, cluster, run_id, "flights")
    acted()
    cluster.node.kubectl("delete", "pod", pod)
    assert airflow.wait_for_run("flights", run_id, 900)["state"] == "success", airflow.task_states("flights", run_id)
    assert airflow.task("flights", run_id, FIRST)["try_number"] == 2
    assert rows_of(airflow, "flights", run_id) == ROWS
    until(lambda: not pods_of(cluster, run_id))


def test_a_scheduler_that_is_started_again_adopts_the_pods_of_a_run(
    airflow: Any, cluster: Cluster, acted: Callable[[], None]
) -> None:
    run_id = airflow.trigger("flights")
    pod_of(cluster, run_id, FIRST)
    acted()
    airflow.kill("scheduler")
    airflow.start_part("scheduler")
    assert airflow.wait_for_run("flights", run_id, 900)["state"] == "success", airflow.task_states("flights", run_id)
    assert {task["try_number"] for task in airflow.tasks("flights", run_id)} == {1}
    assert rows_of(airflow, "flights", run_id) == ROWS


def test_a_task_that_is_marked_as_failed_leaves_no_pod_that_runs(
    airflow: Any, cluster: Cluster, acted: Callable[[], None]
) -> None:
    run_id = airflow.trigger("flights")
    pod_of(cluster, run_id, FIRST)
    acted()
    airflow.mark("flights", run_id, FIRST, "failed")
    assert airflow.wait_for_run("flights", run_id, 600)["state"] == "failed"
    until(lambda: not running(cluster, run_id), 120)
    airflow.clear("flights", run_id, FIRST, downstream=True)
    assert airflow.wait_for_run("flights", run_id, 900)["state"] == "success", airflow.task_states("flights", run_id)
    assert rows_of(airflow, "flights", run_id) == ROWS


def test_a_stage_that_exceeds_its_memory_fails_and_nothing_stays_running(
    airflow: Any, cluster: Cluster, acted: Callable[[], None]
) -> None:
    acted()
    run_id = airflow.trigger("flights_of_little_memory")
    assert airflow.wait_for_run("flights_of_little_memory", run_id, 900)["state"] == "failed"
    states = airflow.task_states("flights_of_little_memory", run_id)
    assert (states[FIRST], states["delays.cleanup"]) == ("failed", "success")
    until(lambda: not running(cluster, run_id))

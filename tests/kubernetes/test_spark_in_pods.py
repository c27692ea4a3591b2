"""Stages whose Spark is on Kubernetes: drivers and executors are pods, with the rights that docker/kubernetes has."""

from __future__ import annotations

import base64
import json
import signal
import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from demo.kubernetes.product import IMAGE
from tests.kubernetes.cluster import FIRST, MANIFESTS, OUTSIDE, ROWS, Cluster, Store, pod_of, rows_of, until
from tests.support.pod_of_page import pod_of_page

pytestmark = [pytest.mark.kubernetes, pytest.mark.nightly, pytest.mark.timeout(900)]


def job(cluster: Cluster, *changes: tuple[str, str]) -> str:
    """Apply the shipped Job with this image, little memory and changes of its text; return its log when it has ended."""
    text = (MANIFESTS / "job.yaml").read_text()
    little = '"spark.executor.memory" = "512m"\n    "spark.driver.memory" = "512m"\n    '
    little += '"spark.kubernetes.executor.request.cores" = "0.2"\n    '
    little += '"spark.kubernetes.driver.request.cores" = "0.2"\n    "spark.executor.instances"'
    for old, new in (
        ("registry.example.com/airflow-samza:1", IMAGE),
        ('"spark.executor.instances"', little),
        *changes,
    ):
        assert old in text
        text = text.replace(old, new)
    cluster.node.kubectl("apply", "-f", "-", given=text)
    name = next(one["metadata"]["name"] for one in yaml.safe_load_all(text) if one["kind"] == "Job")

    def ended() -> bool:
        status = cluster.node.get("job", name)["status"]
        return bool(status.get("succeeded") or status.get("failed"))

    until(ended, 400)
    return cluster.node.kubectl("logs", f"job/{name}")


def test_a_run_in_cluster_mode_has_its_root_on_a_claim(cluster: Cluster) -> None:
    done = cluster.run("claim")
    assert done.returncode == 0, done.stderr
    assert cluster.rows("claim") == ROWS
    (driver,) = [name for name in cluster.drivers() if "-claim-" in name]
    until(lambda: cluster.node.get("pod", driver)["status"]["phase"] == "Succeeded")
    assert cluster.node.get("pods", "-l", "spark-role=executor")["items"] == []


def test_a_run_in_cluster_mode_has_its_root_on_an_object_store(
    cluster: Cluster, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORE_KEY", store.key)
    done = cluster.run("store", places=store.places())
    assert done.returncode == 0, done.stderr
    assert store.rows("warehouse/delays-of-the-year/store") == ROWS
    assert cluster.node.get("pods", "-l", "spark-role=executor")["items"] == []


def test_a_job_runs_without_airflow_with_the_driver_in_its_pod(cluster: Cluster) -> None:
    log = job(cluster)
    assert "Run 2013 of flights-of-the-year succeeded" in log, log
    assert cluster.rows("2013") == ROWS
    assert cluster.node.get("pods", "-l", "spark-role=executor")["items"] == []


def test_a_worker_outside_of_the_cluster_has_the_driver_and_its_executors_are_pods(cluster: Cluster) -> None:
    running = cluster.start("outside", spark=OUTSIDE, spark_kubernetes_executor_deleteOnTermination="false")
    said, _ = running.communicate(timeout=400)
    assert running.returncode == 0, said[-1500:]
    assert cluster.rows("outside") == ROWS
    assert [name for name in cluster.drivers() if "-outside-" in name] == []
    pods = cluster.node.get("pods", "-l", "spark-role=executor")["items"]
    assert pods
    cluster.node.kubectl("delete", "pods", "-l", "spark-role=executor")


def test_a_task_in_client_mode_has_the_driver_in_its_pod_and_executors_that_go_with_it(
    airflow: Any, cluster: Cluster
) -> None:
    def made() -> set[str]:
        found = cluster.node.get("pods,configmaps", "-l", "spark-role=executor")["items"]
        return {one["metadata"]["name"] for one in found} - before

    before: set[str] = set()
    before = made()
    dag_id = "flights_in_client_mode"
    run_id = airflow.trigger(dag_id)
    pod_of(cluster, run_id, FIRST)
    until(lambda: bool(made()), 200)
    assert airflow.wait_for_run(dag_id, run_id, 1200)["state"] == "success", airflow.task_states(dag_id, run_id)
    assert rows_of(airflow, dag_id, run_id) == ROWS
    until(lambda: made() == set())


def submitting(name: str) -> list[tuple[str, str]]:
    """Return the changes of the shipped Job by which it submits a driver, and what its name and its run's are then."""
    volume = "spark.kubernetes.driver.volumes.persistentVolumeClaim.root"
    return [
        ("name: flights-of-the-year}", f"name: {name}}}"),
        ('"2013"', f'"{name}"'),
        ("serviceAccountName: samza-driver", "serviceAccountName: samza-submit"),
        ("--deploy-mode, client", "--deploy-mode, cluster"),
        (
            '"spark.executor.memory"',
            f'"{volume}.options.claimName" = "samza"\n    "{volume}.mount.path" = "/srv/samza"\n    '
            '"spark.kubernetes.authenticate.driver.serviceAccountName" = "samza-driver"\n    "spark.executor.memory"',
        ),
    ]


def test_a_job_submits_a_driver_of_its_own(cluster: Cluster) -> None:
    log = job(cluster, *submitting("submits"))
    assert "Run submits of flights-of-the-year succeeded" in log, log
    assert cluster.rows("submits") == ROWS


def test_a_job_deletes_the_pod_of_a_driver_whose_image_is_not_there(
    cluster: Cluster, acted: Callable[[], None]
) -> None:
    no_image = (f'container.image" = "{IMAGE}"', 'container.image" = "docker.io/library/none:1"')
    acted()
    log = job(cluster, *submitting("no-image"), no_image)
    assert "of the image docker.io/library/none:1. It is deleted." in log, log
    until(lambda: not [name for name in cluster.drivers() if "-no-image-" in name])


@pytest.mark.parametrize("account", ["samza-driver", "samza-submit"])
def test_each_right_of_the_manifest_is_used_and_no_other_is_asked_for(cluster: Cluster, account: str) -> None:
    """Reads what the runs before have asked of the API server."""
    granted = {
        (verb, resource)
        for described in yaml.safe_load_all((MANIFESTS / "rbac.yaml").read_text())
        if described["kind"] == "Role" and described["metadata"]["name"] == account
        for rule in described["rules"]
        for verb in rule["verbs"]
        for resource in rule["resources"]
    }
    asked = [(verb, resource, code) for who, verb, resource, code in cluster.node.requests() if who == account]
    used = {(verb, resource) for verb, resource, code in asked if code < 400}
    used |= {
        ("create", resource) for verb, resource in used if verb == "patch"
    }  # to apply what is not there takes both
    rejected = {(verb, resource) for verb, resource, code in asked if code == 403}
    assert (used, rejected) == (granted, set())


def test_a_driver_without_rights_is_reported_in_the_words_of_the_api_server(cluster: Cluster) -> None:
    done = cluster.run("rights", spark_kubernetes_authenticate_driver_serviceAccountName="default")
    assert done.returncode == 1
    assert 'User "system:serviceaccount:default:default" cannot get resource "pods"' in done.stderr


def test_a_driver_that_a_quota_forbids_is_reported_in_the_words_of_the_api_server(cluster: Cluster) -> None:
    cluster.node.kubectl("create", "namespace", "full")
    cluster.node.kubectl("create", "quota", "none", "--hard=pods=0", "-n", "full")
    done = cluster.run(
        "quota", spark_kubernetes_namespace="full", spark_kubernetes_authenticate_driver_serviceAccountName="default"
    )
    assert done.returncode == 1
    assert "rejects the driver of" in done.stderr
    assert "exceeded quota: none, requested: pods=1" in done.stderr, done.stderr[-1500:]


def test_a_driver_for_which_no_node_has_room_waits_with_the_words_of_the_scheduler_and_is_deleted_if_cancelled(
    cluster: Cluster,
) -> None:
    command = cluster.command("no-room", spark_kubernetes_driver_request_cores="900")
    begun = time.monotonic()
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=cluster.env()) as running:
        assert running.stderr is not None
        said = next((line for line in running.stderr if " is pending: " in line), "")
        print(f"the scheduler's words after {time.monotonic() - begun:.0f} s")
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=100)
    assert "is pending: Unschedulable: 0/1 nodes are available: 1 Insufficient cpu" in said
    until(lambda: not [name for name in cluster.drivers() if "-no-room-" in name])


def delete(cluster: Cluster, driver: str) -> None:
    cluster.node.kubectl("delete", "pod", driver, "--grace-period=0", "--force")


@pytest.mark.parametrize(
    ("end", "says"),
    [(delete, " is gone: it was deleted or evicted"), (Cluster.kill, " has ended with exit code 137")],
    ids=["deleted", "killed"],
)
def test_a_driver_that_ends_in_a_stage_is_reported_and_loses_nothing_to_the_run_that_resumes(
    cluster: Cluster, end: Callable[[Cluster, str], None], says: str, acted: Callable[[], None]
) -> None:
    run_id, options = end.__name__, ("--config", "job.intermediate.stream.partitions=32")
    running = cluster.start(run_id, *options)
    stages = cluster.folder / f"root/runs/flights-of-the-year/{run_id}/stages"
    until(lambda: bool(list(stages.glob("flights/*/manifests/*/*.json"))), 200)
    (driver,) = [name for name in cluster.drivers() if f"-{run_id}-" in name]
    acted()
    end(cluster, driver)
    said, _ = running.communicate(timeout=300)
    assert running.returncode == 1, said[-1500:]
    assert f"its pod default:{driver}{says}" in said, said[-1500:]
    done = cluster.run(run_id, *options)
    assert done.returncode == 0, done.stderr
    assert cluster.rows(run_id) == ROWS
    cluster.node.kubectl("delete", "pod", driver, "--ignore-not-found")
    until(lambda: not executors(cluster, run_id, ended=True))


@pytest.mark.parametrize(
    ("run_id", "settings", "says"),
    [
        (
            "evicted",
            {
                "spark_kubernetes_driver_volumes_emptyDir_spark-local-dir-1_options_sizeLimit": "1Ki",
                "spark_kubernetes_driver_volumes_emptyDir_spark-local-dir-1_mount_path": "/little",
            },
            'Evicted: Usage of EmptyDir volume "spark-local-dir-1" exceeds the limit "1Ki"',
        ),
        (
            "memory",
            {
                "spark_driver_memory": "500m",
                "spark_driver_memoryOverhead": "0",
                "spark_driver_extraJavaOptions": "-Xms500m -XX:+AlwaysPreTouch",
            },
            "exit code 137 (OOMKilled)",
        ),
    ],
)
def test_a_driver_that_is_evicted_or_out_of_memory_is_reported_in_the_words_of_the_kubelet(
    cluster: Cluster, run_id: str, settings: dict[str, str], says: str
) -> None:
    running = cluster.start(run_id, "--config", "job.intermediate.stream.partitions=32", **settings)
    said, _ = running.communicate(timeout=400)
    assert running.returncode == 1, said[-1500:]
    assert says in said, said[-1500:]


def executors(cluster: Cluster, run_id: str, *, ended: bool = False) -> dict[str, dict[str, Any]]:
    """Return the pods of the executors of a run that are at work, by name; ``ended``: and of those that were."""
    drivers = {name for name in cluster.drivers() if f"-{run_id}-" in name}
    return {
        pod["metadata"]["name"]: pod
        for pod in cluster.node.get("pods", "-l", "spark-role=executor")["items"]
        if (ended or pod["status"]["phase"] == "Running")
        and {owner["name"] for owner in pod["metadata"].get("ownerReferences", [])} & drivers
    }


def test_drivers_and_executors_follow_their_pod_templates(cluster: Cluster) -> None:
    templates = {}
    for role in ("driver", "executor"):
        labelled = {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"template-of": role}}}
        container = {"name": "spark", "env": [{"name": "FROM_TEMPLATE", "value": role}]}
        file = cluster.folder.parent / f"{role}.yaml"
        file.write_text(json.dumps({**labelled, "spec": {"containers": [container]}}))
        templates[f"spark_kubernetes_{role}_podTemplateFile"] = str(file)
    kept = {"spark_kubernetes_executor_deleteOnTermination": "false"}
    running = cluster.start("templates", **templates, **kept)
    said, _ = running.communicate(timeout=600)
    assert running.returncode == 0, said[-1500:]
    assert cluster.rows("templates") == ROWS
    (executor,) = executors(cluster, "templates", ended=True).values()
    (driver,) = [name for name in cluster.drivers() if "-templates-" in name]
    for role, pod in (("driver", cluster.node.get("pod", driver)), ("executor", executor)):
        assert pod["metadata"]["labels"]["template-of"] == role
        assert {"name": "FROM_TEMPLATE", "value": role} in pod["spec"]["containers"][0]["env"]
    delete(cluster, executor["metadata"]["name"])


def test_an_executor_that_is_killed_is_replaced_and_nothing_is_lost_or_doubled(
    cluster: Cluster, acted: Callable[[], None]
) -> None:
    running = cluster.start("lost", "--config", "job.intermediate.stream.partitions=64")
    stages = cluster.folder / "root/runs/flights-of-the-year/lost/stages"
    until(lambda: bool(list(stages.glob("flights/*/manifests/*/*.json"))), 300)
    (first,) = executors(cluster, "lost")
    acted()
    delete(cluster, first)
    said, _ = running.communicate(timeout=400)
    assert running.returncode == 0, said[-1500:]
    assert cluster.rows("lost") == ROWS


def test_executors_come_and_go_with_the_work_if_they_are_allocated_dynamically(cluster: Cluster) -> None:
    running = cluster.start(
        "dynamic",
        "--config",
        "job.intermediate.stream.partitions=64",
        spark_dynamicAllocation_enabled="true",
        spark_dynamicAllocation_shuffleTracking_enabled="true",
        spark_dynamicAllocation_maxExecutors="2",
        spark_dynamicAllocation_schedulerBacklogTimeout="1s",
    )
    seen: set[str] = set()

    def two_were_there() -> bool:
        seen.update(executors(cluster, "dynamic"))
        return len(seen) == 2 or running.poll() is not None

    until(two_were_there, 400)
    said, _ = running.communicate(timeout=400)
    assert running.returncode == 0, said[-1500:]
    assert len(seen) == 2, said[-1500:]
    assert cluster.rows("dynamic") == ROWS


def test_no_key_of_a_store_is_seen_by_who_may_look_at_everything(
    cluster: Cluster, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looks at all objects, descriptions, events and logs while driver and executor are at work, and afterwards."""
    monkeypatch.setenv("STORE_KEY", store.key)
    hidden = (store.key, base64.b64encode(store.key.encode()).decode())
    running = cluster.start("secrets", places=store.places())
    until(lambda: bool(executors(cluster, "secrets")), 300)
    meanwhile = cluster.shown()
    said, _ = running.communicate(timeout=400)
    assert running.returncode == 0, said[-1500:]
    assert "spark-role: executor" in meanwhile  # the look was not too late
    for shown in (meanwhile, cluster.shown(), said):
        assert [key for key in hidden if key in shown] == []
    assert not [key for key in store.names("root") if "handover" in key]


def test_no_password_is_left_of_the_runs_before(cluster: Cluster) -> None:
    shown = json.dumps(cluster.node.get("pods,services,configmaps,events")).lower()
    assert "password" not in shown
    assert not list(cluster.folder.rglob("handover*"))


def test_a_pod_of_kubernetes_pod_operator_is_a_run_of_its_own(cluster: Cluster) -> None:
    pod = json.dumps(pod_of_page("in-a-pod")).replace("registry.example.com/airflow-samza:1", IMAGE)
    cluster.node.kubectl(
        "apply", "-f", "-", given=pod.replace('"requests": {"cpu": "2"}', '"requests": {"cpu": "0.2"}')
    )
    name = json.loads(pod)["metadata"]["name"]
    until(lambda: cluster.node.get("pod", name)["status"]["phase"] in ("Succeeded", "Failed"), 400)
    assert cluster.rows("in-a-pod") == ROWS, cluster.node.kubectl("logs", name)

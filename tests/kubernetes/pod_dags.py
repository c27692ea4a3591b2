"""Dags of the tests on Kubernetes: the flights with a root in a store, with pods of other kinds, and with a model."""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, BaseHook, Param, task
from kubernetes.client import models as k8s

from airflow_samza import SamzaTaskGroup
from airflow_samza.operators import SamzaStreamOperator, SamzaTablePushOperator

SYSTEMS = {"data": "flights_data", "warehouse": "flights_warehouse"}


def flights(dag_id: str, retries: int = 1, pods: dict[str, Any] | None = None, **group: Any) -> None:
    """A Dag of the flights; ``pods`` is a setting of all its tasks."""
    with DAG(dag_id, schedule=None, default_args={"retries": retries, **(pods or {})}):
        SamzaTaskGroup(
            **{
                "group_id": "delays",
                "application": "pipelines.flights:flights_of_the_year",
                "systems": SYSTEMS,
                **group,
            }
        )


def pod(volumes: list[Any] | None = None, account: str | None = None, **container: Any) -> dict[str, Any]:
    """The setting of a task by which its pod differs from the others."""
    base = k8s.V1Container(name="base", **container)
    spec = k8s.V1PodSpec(containers=[base], volumes=volumes, service_account_name=account)
    return {"executor_config": {"pod_override": k8s.V1Pod(spec=spec)}}


flights(
    "flights_in_store",
    conn_id="samza_in_store",
    systems={"data": "data_in_store", "warehouse": "warehouse_in_store"},
)

little = k8s.V1ResourceRequirements(limits={"memory": "220Mi"}, requests={"memory": "100Mi"})
flights("flights_of_little_memory", retries=0, stages={"flights": pod(resources=little)})

flights(
    "flights_of_little_disk",
    retries=0,
    application="pod_pipelines:flights_on_disk",
    stages={
        "flights": pod(
            [k8s.V1Volume(name="small", empty_dir=k8s.V1EmptyDirVolumeSource(size_limit="64Ki"))],
            env=[k8s.V1EnvVar(name="TMPDIR", value="/small")],
            volume_mounts=[k8s.V1VolumeMount(name="small", mount_path="/small")],
        )
    },
)

flights("flights_of_two_images", stages={"by-maker-and-hour": pod(image="docker.io/library/airflow-samza:2")})

flights("flights_in_epochs", mode="pipelined", config={"job.epoch.max.messages": "20000"}, deferrable=False)

flights("flights_in_client_mode", conn_id="samza_in_client_mode", pods=pod(account="samza-driver"))

flights("flights_on_connect", conn_id="samza_on_connect")

with DAG(
    "push_the_model",
    schedule=None,
    default_args={"retries": 1},
    params={"day": Param("2013-03-05", format="date"), "trained_to": Param("2013-03-04", format="date")},
):
    # As delay_model_refresh, but not deferred: a driver ends with the pod of its task.

    @task
    def train(last: str) -> str:
        """Train a model; return the path of its weights."""
        from pipelines.delay_model import train_to_file

        return str(train_to_file(BaseHook.get_connection("flights_data").extra_dejson["path"], last))

    feed = SamzaStreamOperator(
        task_id="feed",
        application="pipelines.delay_model:feed",
        systems={"data": "flights_data"},
        config={"day": "{{ params.day }}"},
    )
    push = SamzaTablePushOperator(
        task_id="push",
        application="pipelines.delay_model:scores",
        table="delay-model",
        source=train("{{ params.trained_to }}"),
        min_rows=5,
    )
    feed >> push

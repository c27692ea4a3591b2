"""The flights of the demo and the small daily application in pods, by the way in which they have their Spark.

Airflow of :mod:`benchmarks.in_pods` reads this file from its folder of Dags, where ``daily.py`` and
``flights_by_hand.py`` lie beside it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pendulum
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.cncf.kubernetes.operators.spark_kubernetes import SparkKubernetesOperator
from airflow.sdk import DAG, chain, task
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_samza import SamzaTaskGroup

HERE = Path(__file__).parent
FOLDER = HERE.parent
FLIGHTS: dict[str, Any] = {"schedule": None}
DAYS: dict[str, Any] = {
    "schedule": CronDataIntervalTimetable("@daily", timezone="UTC"),
    "start_date": pendulum.datetime(2026, 1, 1),
    "end_date": pendulum.datetime(2026, 1, 31),  # in the past: only backfills make runs
    "catchup": False,
}

for way, conn_id in (
    ("local", "samza_default"),
    ("connect", "samza_on_connect"),
    ("executors", "samza_on_pods"),
    ("operator", "samza_on_operator"),
):
    with DAG(f"flights_{way}", **FLIGHTS):
        SamzaTaskGroup(
            group_id="delays",
            application="pipelines.flights:flights_of_the_year",
            systems={"data": "flights_data", "warehouse": "flights_warehouse"},
            conn_id=conn_id,
        )
    with DAG(f"daily_{way}", **DAYS):
        SamzaTaskGroup(
            group_id="daily",
            application="daily:daily",
            systems={"lake": "flights_data", "results": "flights_warehouse"},
            config={"day": "{{ ds }}"},
            mode="fused",
            conn_id=conn_id,
        )

PODS = json.loads((HERE / "spark_conf.json").read_text(encoding="utf-8"))
for way, conn_id, scheme, conf in (
    ("by_hand_local", "spark_local", "", {}),
    ("by_hand_executors", "spark_pods", "local://", PODS),
):
    with DAG(f"flights_{way}", **FLIGHTS):
        SparkSubmitOperator(
            task_id="flights",
            conn_id=conn_id,
            conf=conf,
            application=f"{scheme}{HERE / 'flights_by_hand.py'}",
            application_args=[str(FOLDER / "data"), str(FOLDER / "by-hand" / way)],
        )
    with DAG(f"daily_{way}", **DAYS):
        SparkSubmitOperator(
            task_id="daily",
            conn_id=conn_id,
            conf=conf,
            application=f"{scheme}{HERE / 'daily.py'}",
            application_args=["{{ ds }}", str(FOLDER / "data"), str(FOLDER / "by-hand" / way)],
        )

for name, program, arguments in (
    ("flights", "flights_by_hand.py", [str(FOLDER / "data"), str(FOLDER / "by-hand/by_hand_operator")]),
    ("daily", "daily.py", ["{{ ds }}", str(FOLDER / "data"), str(FOLDER / "by-hand/by_hand_operator")]),
):
    with DAG(f"{name}_by_hand_operator", **(FLIGHTS if name == "flights" else DAYS)):
        SparkKubernetesOperator(
            task_id=name,
            namespace="default",
            in_cluster=True,
            template_spec={
                "apiVersion": "sparkoperator.k8s.io/v1beta2",
                "kind": "SparkApplication",
                "metadata": {"name": f"{name}-by-hand", "namespace": "default"},
                "spec": {
                    "type": "Python",
                    "pythonVersion": "3",
                    "mode": "cluster",
                    "sparkVersion": "4.2.0",
                    "mainApplicationFile": f"local://{HERE / program}",
                    "arguments": arguments,
                    "sparkConf": PODS,
                    "restartPolicy": {"type": "Never"},
                    "driver": {},
                    "executor": {},
                },
            },
        )


@task
def do_nothing() -> None:
    """Do nothing."""


with DAG("flights_empty", **FLIGHTS):
    chain(*(do_nothing.override(task_id=f"task-{number}")() for number in range(1, 6)))

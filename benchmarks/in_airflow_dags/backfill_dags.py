"""The small daily application as a Dag: by a group of this package, and by hand with SparkSubmitOperator."""

import os
from pathlib import Path
from typing import Any

import pendulum
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_samza.provider.task_group import SamzaTaskGroup

WORK = Path(os.environ["BENCHMARK_WORK"])
SCRIPT = Path(os.environ["BENCHMARK_SCRIPT"])
DATES: dict[str, Any] = {
    "schedule": CronDataIntervalTimetable("@daily", timezone="UTC"),
    "start_date": pendulum.datetime(2026, 1, 1),
    "end_date": pendulum.datetime(2026, 12, 31),
    "catchup": False,
}

with DAG("daily_group", **DATES):
    SamzaTaskGroup(
        group_id="daily",
        application="benchmarks.daily:daily",
        systems={"lake": "lake", "results": "results"},
        config={"day": "{{ ds }}"},
        mode="fused",
    )

with DAG("daily_by_hand", **DATES):
    SparkSubmitOperator(
        task_id="daily",
        conn_id="spark_by_hand",
        application=str(SCRIPT),
        application_args=["{{ ds }}", str(WORK / "data"), str(WORK / "by-hand")],
    )

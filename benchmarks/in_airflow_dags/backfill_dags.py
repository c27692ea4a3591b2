"""The small daily application as a Dag: by a group, as one task, and by hand with SparkSubmitOperator.

The Dag ``empty`` has as many tasks as the Dag of the demo, which do nothing: the time that Airflow itself takes. So is
``daily_nothing``, with one such task a day.
"""

import os
from pathlib import Path
from typing import Any

import pendulum
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG, chain, task
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_samza.operators import SamzaStreamOperator
from airflow_samza.provider.task_group import SamzaTaskGroup

WORK = Path(os.environ["BENCHMARK_WORK"])
SCRIPT = Path(os.environ["BENCHMARK_SCRIPT"])
EMPTY_TASKS = 5  # plan, three stages and cleanup of the demo's Dag
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

with DAG("daily_one_task", **DATES):
    SamzaStreamOperator(
        task_id="daily",
        application="benchmarks.daily:daily",
        systems={"lake": "lake", "results": "results"},
        config={"day": "{{ ds }}"},
    )

with DAG("daily_by_hand", **DATES):
    SparkSubmitOperator(
        task_id="daily",
        conn_id="spark_by_hand",
        application=str(SCRIPT),
        application_args=["{{ ds }}", str(WORK / "data"), str(WORK / "by-hand")],
    )


@task
def do_nothing() -> None:
    """Do nothing."""


with DAG("daily_nothing", **DATES):
    do_nothing()

with DAG("empty", schedule=None):
    chain(*(do_nothing.override(task_id=f"task-{number}")() for number in range(1, EMPTY_TASKS + 1)))

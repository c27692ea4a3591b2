"""The Dags of the soak: each mode, on either executor, over the flights. Tasks are tried again often, and soon."""

from __future__ import annotations

import os
from datetime import datetime, timedelta

import pendulum
from airflow.sdk import DAG
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_samza import SamzaTaskGroup
from airflow_samza.operators import SamzaDrainOperator, SamzaStreamOperator

LOCAL, CELERY = "LocalExecutor", "CeleryExecutor"
SYSTEMS = {"data": "flights_data", "warehouse": "flights_warehouse"}


def tried_again(executor: str) -> dict[str, object]:
    """Return the default arguments of a Dag whose tasks run by ``executor``."""
    return {"retries": 60, "retry_delay": timedelta(seconds=2), "executor": executor}


with DAG("soak_feed", schedule=None, max_active_runs=1, default_args=tried_again(LOCAL)):
    SamzaStreamOperator(
        task_id="feed",
        application="pipelines.departures:feed",
        systems=SYSTEMS,
        config={"day": "{{ dag_run.conf['day'] }}"},
    )

with DAG(
    "soak_catch_up",
    schedule="* * * * *",
    start_date=pendulum.datetime(2013, 1, 1),
    end_date=datetime.fromisoformat(os.environ["SOAK_LAST_SCHEDULED"]),
    catchup=False,
    is_paused_upon_creation=True,  # until the topic is there
    max_active_runs=2,
    default_args=tried_again(CELERY),
):
    SamzaTaskGroup(group_id="hours", application="pipelines.departures:catch_up", systems=SYSTEMS, deferrable=True)

with DAG("soak_live", schedule=None, max_active_runs=1, default_args=tried_again(LOCAL)):
    SamzaTaskGroup(
        group_id="hours",
        application="pipelines.departures:live",
        systems=SYSTEMS,
        mode="continuous",
        run_for="12 hours",
        deferrable=True,
    )

with DAG("soak_drain", schedule=None, default_args=tried_again(LOCAL)):
    SamzaDrainOperator(task_id="drain", application="pipelines.departures:live", dag_id="soak_live", deferrable=True)

with DAG("soak_pipelined", schedule=None, max_active_runs=1, default_args=tried_again(CELERY)):
    SamzaTaskGroup(
        group_id="delays",
        application="pipelines.flights:flights_of_the_year",
        systems=SYSTEMS,
        mode="pipelined",
        deferrable=True,
    )

with DAG(
    "soak_daily",
    schedule=CronDataIntervalTimetable("@daily", timezone="UTC"),
    start_date=pendulum.datetime(2013, 1, 1),
    end_date=pendulum.datetime(2013, 12, 31),
    catchup=False,
    max_active_runs=3,
    default_args=tried_again(LOCAL),
):
    SamzaTaskGroup(group_id="delays", application="pipelines.flights:flights_of_a_day", systems=SYSTEMS, mode="fused")

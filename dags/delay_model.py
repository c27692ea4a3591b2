"""The scheduled model refresh: a model is trained every day and pushed.

Flights are scored by the newest one as they come.

- ``delay_model_refresh`` trains on the days up to its own and pushes the weights. The push is an event of the table's
  asset.
- ``delay_scores`` is scheduled on that asset, and scores the flights that came since its last run.
- ``delay_model_rollback`` makes an older version current again; that is an event, too.
- ``delay_scores_daily`` scores a day's flights with the model that was current when the day began, so a backfill of
  last week gives what would have been said then, whatever is current now.
- ``delay_scores_monthly`` scores a month's flights in one run, each with the model of its own time: rows as those of
  thirty runs of ``delay_scores_daily``.
- ``delay_flights_feed`` plays the source of flights.
"""

from typing import Any

import pendulum
from airflow.sdk import DAG, BaseHook, Param, task
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_samza import SamzaTaskGroup
from airflow_samza.assets import pushed_table
from airflow_samza.operators import SamzaStreamOperator, SamzaTablePushOperator, SamzaTableRollbackOperator

DAILY: dict[str, Any] = {
    "schedule": CronDataIntervalTimetable("@daily", timezone="UTC"),
    "start_date": pendulum.datetime(2013, 1, 1),
    "end_date": pendulum.datetime(2013, 12, 31),
    "catchup": False,
}
SCORES = "pipelines.delay_model:scores"

with DAG("delay_model_refresh", tags=["samza"], doc_md=__doc__, **DAILY):

    @task
    def train(last: str) -> str:
        """Trains a model; the path of its weights."""
        from pipelines.delay_model import train_to_file

        return str(train_to_file(BaseHook.get_connection("flights_data").extra_dejson["path"], last))

    SamzaTablePushOperator(
        task_id="push",
        application=SCORES,
        table="delay-model",
        source=train("{{ data_interval_start | ds }}"),
        min_rows=5,
        keep_versions=30,
        retries=1,
        deferrable=True,  # the worker's slot is free while Spark reads and writes
    )

with DAG("delay_scores", schedule=[pushed_table("delay-model")], max_active_runs=1, tags=["samza"], doc_md=__doc__):
    SamzaTaskGroup(group_id="scores", application=SCORES, systems={"warehouse": "flights_warehouse"}, mode="fused")

with DAG(
    "delay_model_rollback",
    schedule=None,
    tags=["samza"],
    doc_md=__doc__,
    params={"to": Param("previous", type="string")},
):
    SamzaTableRollbackOperator(task_id="rollback", application=SCORES, table="delay-model", to="{{ params.to }}")

with DAG("delay_scores_daily", tags=["samza"], doc_md=__doc__, **DAILY):
    SamzaTaskGroup(
        group_id="scores",
        application="pipelines.delay_model:scores_of_a_day",
        systems={"data": "flights_data", "warehouse": "flights_warehouse"},
        table_versions={"delay-model": "as_of_interval"},
        mode="fused",
    )

with DAG(
    "delay_scores_monthly",
    tags=["samza"],
    doc_md=__doc__,
    **{**DAILY, "schedule": CronDataIntervalTimetable("@monthly", timezone="UTC")},
):
    SamzaTaskGroup(
        group_id="scores",
        application="pipelines.delay_model:scores_of_a_month",
        systems={"data": "flights_data", "warehouse": "flights_warehouse"},
    )

with DAG(
    "delay_flights_feed",
    schedule=None,
    tags=["samza"],
    doc_md=__doc__,
    params={"day": Param("2013-01-01", format="date")},
):
    SamzaStreamOperator(
        task_id="feed",
        application="pipelines.delay_model:feed",
        systems={"data": "flights_data"},
        config={"day": "{{ params.day }}"},
    )

"""One application in three Dags: over all of its input, over what is new each hour, and without an end.

The last two continue from each other's state, and wait while the other one runs. To have the hours that are open, start
``departures_hours_new`` with ``flush``; the next run begins behind them.
"""

import pendulum
from airflow.sdk import DAG

from airflow_samza import SamzaTaskGroup

APPLICATION = "pipelines.departures:hours"
SYSTEMS = {"warehouse": "flights_warehouse"}
UNBOUNDED = {"job.inputs.bounded": "false"}

with DAG("departures_hours_all", schedule=None, tags=["samza"], doc_md=__doc__, default_args={"retries": 1}):
    SamzaTaskGroup(group_id="hours", application=APPLICATION, systems=SYSTEMS)

with DAG(
    "departures_hours_new",
    schedule="@hourly",
    start_date=pendulum.datetime(2013, 1, 1),
    catchup=False,
    params={"flush": False},
    tags=["samza"],
    doc_md=__doc__,
    default_args={"retries": 1},
):
    SamzaTaskGroup(
        group_id="hours",
        application=APPLICATION,
        systems=SYSTEMS,
        config={**UNBOUNDED, "job.inputs.flush": "{{ params.flush }}"},
    )

with DAG(
    "departures_hours_live",
    schedule=None,
    max_active_runs=1,
    tags=["samza"],
    doc_md=__doc__,
    default_args={"retries": 1},
):
    SamzaTaskGroup(
        group_id="hours",
        application=APPLICATION,
        systems=SYSTEMS,
        config=UNBOUNDED,
        mode="continuous",
        run_for="12 hours",
        deferrable=True,
    )

"""A run per hour that reads what came since the run before, and goes on from the state that that one left.

Runs order themselves: one waits, deferred, while another one holds the state. After a pause the next run catches up. A
run of a backfill has a state of its own.
"""

import pendulum
from airflow.sdk import DAG

from airflow_samza import SamzaTaskGroup

with DAG(
    "departures_catch_up",
    schedule="@hourly",
    start_date=pendulum.datetime(2013, 1, 1),
    end_date=pendulum.datetime(2013, 12, 31),
    catchup=False,
    max_active_runs=4,
    tags=["samza"],
    doc_md=__doc__,
    default_args={"retries": 1},
):
    SamzaTaskGroup(
        group_id="hours", application="pipelines.departures:catch_up", systems={"warehouse": "flights_warehouse"}
    )

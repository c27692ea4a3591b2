"""A run per hour that reads the days' files that came since the run before, and goes on from the state that it left.

As ``departures_catch_up``, without a topic and without a task that feeds it: the files are read where they lie.
"""

import pendulum
from airflow.sdk import DAG

from airflow_samza import SamzaTaskGroup

with DAG(
    "departures_files",
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
        group_id="hours",
        application="pipelines.departures:files",
        systems={"data": "flights_data", "warehouse": "flights_warehouse"},
    )

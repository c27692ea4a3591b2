"""A run per day: the slice is the file of the run's day, so a backfill over any dates gives each date its own result.

    airflow backfill create --dag-id flights_daily --from-date 2013-01-01 --to-date 2013-01-31

A plain ``schedule="@daily"`` has no data interval in Airflow 3; CronDataIntervalTimetable has.
"""

import pendulum
from airflow.sdk import DAG
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_samza import SamzaTaskGroup

with DAG(
    "flights_daily",
    schedule=CronDataIntervalTimetable("@daily", timezone="UTC"),
    start_date=pendulum.datetime(2013, 1, 1),
    end_date=pendulum.datetime(2013, 12, 31),
    catchup=False,
    tags=["samza"],
    doc_md=__doc__,
):
    SamzaTaskGroup(
        group_id="delays",
        application="pipelines.flights:flights_of_a_day",
        systems={"data": "flights_data", "warehouse": "flights_warehouse"},
        mode="fused",
    )

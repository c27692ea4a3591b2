"""A run per hour: the slice is a timestamp column over the data interval, whatever files the flights are in."""

import pendulum
from airflow.sdk import DAG
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_samza import SamzaTaskGroup

with DAG(
    "flights_hourly",
    schedule=CronDataIntervalTimetable("@hourly", timezone="UTC"),
    start_date=pendulum.datetime(2013, 1, 1),
    end_date=pendulum.datetime(2013, 12, 31),
    catchup=False,
    tags=["samza"],
    doc_md=__doc__,
):
    SamzaTaskGroup(
        group_id="delays",
        application="pipelines.flights:flights_by_time",
        systems={"data": "flights_data", "warehouse": "flights_warehouse"},
        mode="fused",
    )

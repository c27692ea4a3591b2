"""A Dag of days that upsert into one table."""

import pendulum
from airflow.sdk import DAG
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_samza import SamzaTaskGroup

with DAG(
    "newest_rows",
    schedule=CronDataIntervalTimetable("@daily", timezone="UTC"),
    start_date=pendulum.datetime(2013, 1, 1),
    catchup=False,
    is_paused_upon_creation=False,
):
    SamzaTaskGroup("keep", application="newest:newest_rows", systems={"data": "flights_data", "mart": "flights_mart"})

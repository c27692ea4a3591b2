"""A day of flights into a table of Iceberg, then the delays of all its days: two applications, one after the other.

The second is planned when the first is done, so that it reads the snapshot with the day in it. Clear a day, and its
rows are replaced in one snapshot. Connections: ``flights_data`` (type fs), and ``flights_lake`` (type iceberg), for
example with the extra ``{"root": "/srv/lake"}``.
"""

import pendulum
from airflow.sdk import DAG
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_samza import SamzaTaskGroup

with DAG(
    "flights_lake",
    schedule=CronDataIntervalTimetable("@daily", timezone="UTC"),
    start_date=pendulum.datetime(2013, 1, 1),
    end_date=pendulum.datetime(2013, 12, 31),
    catchup=False,
    max_active_runs=1,
    tags=["samza"],
    doc_md=__doc__,
):
    load = SamzaTaskGroup(
        group_id="load",
        application="pipelines.lake:flights_to_lake",
        systems={"data": "flights_data", "lake": "flights_lake"},
        mode="fused",
    )
    report = SamzaTaskGroup(
        group_id="report", application="pipelines.lake:delays_of_lake", systems={"lake": "flights_lake"}
    )
    load >> report

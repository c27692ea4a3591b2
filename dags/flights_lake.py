"""Days of flights into a table of Iceberg, whose commits start a Dag that reads what is new in it.

``flights_lake`` writes a day a run. Clear a day, and its rows are replaced in one snapshot. ``flights_lake_delays``
reads the rows that were appended since its run before, up to the snapshot of the event, writes the delays of the days
that are complete to a table of Delta, and pushes those of the last one. A snapshot that has replaced rows fails its
plan: "airflow-samza state reset delays-of-lake", and a clear of the failed run, have the table read anew.

Connections: ``flights_data`` (type fs), ``flights_lake`` (type iceberg), for example with the extra
``{"root": "/srv/lake"}``, and ``flights_mart`` (type delta) with such a root of its own.
"""

import pendulum
from airflow.sdk import DAG, AssetAlias
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_samza.operators import SamzaStreamOperator, SamzaTablePushOperator

with DAG(
    "flights_lake",
    schedule=CronDataIntervalTimetable("@daily", timezone="UTC"),
    start_date=pendulum.datetime(2013, 1, 1),
    end_date=pendulum.datetime(2013, 12, 31),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 1},
    tags=["samza"],
    doc_md=__doc__,
):
    SamzaStreamOperator(
        task_id="load",
        application="pipelines.lake:flights_to_lake",
        systems={"data": "flights_data", "lake": "flights_lake"},
    )

with DAG(
    "flights_lake_delays",
    schedule=[AssetAlias("samza-outputs:samza_default/pipelines.lake:flights_to_lake")],
    max_active_runs=1,
    default_args={"retries": 1},
    tags=["samza"],
    doc_md=__doc__,
):
    delays = SamzaStreamOperator(
        task_id="delays",
        application="pipelines.lake:delays_of_lake",
        systems={"lake": "flights_lake", "mart": "flights_mart"},
    )
    push = SamzaTablePushOperator(
        task_id="push",
        application="pipelines.lake:flights_with_delays",
        table="delays",
        source={"delta": "air.delays", "system": "mart"},
        systems={"mart": "flights_mart"},
        on_duplicate="last",
        latest_by="day",
        min_rows=0,  # before a day is complete there are none
    )
    delays >> push

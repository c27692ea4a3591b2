"""A run per partition, whose key is a day, and a second Dag that starts for the same key.

    airflow backfill create --dag-id airport_days --from-date 2013-01-01 --to-date 2013-01-31

Runs of partitions have no data interval: the key names it. Needs Airflow 3.2, the carried key 3.3.
"""

import pendulum
from airflow.sdk import DAG, Asset, CronPartitionTimetable, PartitionedAssetTimetable

from airflow_samza import SamzaTaskGroup
from airflow_samza.operators import SamzaStreamOperator

SYSTEMS = {"data": "flights_data", "warehouse": "flights_warehouse"}
AIRPORT_DAYS = Asset(name="airport-days", uri="x-flights://airport-days")

with DAG(
    "airport_days",
    schedule=CronPartitionTimetable("0 0 * * *", timezone="UTC", run_offset=-1, key_format="%Y-%m-%d"),
    start_date=pendulum.datetime(2013, 1, 2),
    end_date=pendulum.datetime(2014, 1, 1),
    catchup=False,
    tags=["samza"],
    doc_md=__doc__,
):
    SamzaTaskGroup(
        group_id="days",
        application="pipelines.airports:airport_days",
        systems=SYSTEMS,
        stages={"by-airport": {"outlets": [AIRPORT_DAYS]}},
    )

with DAG(
    "carrier_days",
    schedule=PartitionedAssetTimetable(assets=AIRPORT_DAYS),
    catchup=False,
    tags=["samza"],
    doc_md=__doc__,
):
    SamzaStreamOperator(task_id="carriers", application="pipelines.airports:carrier_days", systems=SYSTEMS)

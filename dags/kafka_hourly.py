"""A run per hour reads that hour of a topic, by the timestamps of the messages.

Each run's offsets are fixed by its ``plan``, so hours may be read again, in any order and several at a time:

    airflow backfill create --dag-id kafka_hourly --from-date 2013-12-30T00:00 --to-date 2013-12-30T23:00 \
        --run-backwards --max-active-runs 3

``make demo-kafka`` does that. The connection ``flights_kafka`` (type kafka) names the brokers; ``flights_warehouse``
(type fs) is where the results go.
"""

import pendulum
from airflow.sdk import DAG
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_samza import SamzaTaskGroup

with DAG(
    "kafka_hourly",
    schedule=CronDataIntervalTimetable("@hourly", timezone="UTC"),
    start_date=pendulum.datetime(2013, 1, 1),
    end_date=pendulum.datetime(2013, 12, 31),
    catchup=False,
    tags=["samza", "kafka"],
    doc_md=__doc__,
    default_args={"retries": 1},
):
    SamzaTaskGroup(
        group_id="hour",
        application="pipelines.kafka:hourly",
        systems={"events": "flights_kafka", "warehouse": "flights_warehouse"},
        mode="fused",
    )

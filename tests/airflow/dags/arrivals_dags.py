"""A second Dag on the watcher of the example, one whose stages hand over through Kafka, and one that waits for its end."""

import os
from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG, AssetWatcher

from airflow_samza import SamzaTaskGroup
from airflow_samza.assets import kafka_topic
from airflow_samza.sensors import SamzaEndOfStreamSensor
from airflow_samza.triggers import KafkaMessagesTrigger

SYSTEMS = {"events": "flights_kafka", "warehouse": "flights_warehouse"}

# As dags/kafka_arrivals.py has it, which is in another bundle: equal ones are one asset with one watcher.
TRIGGER = KafkaMessagesTrigger(topic="flights", conn_id="flights_kafka", poll_interval=5)
FLIGHTS = kafka_topic("flights", "broker:9092", watchers=[AssetWatcher(name="flights", trigger=TRIGGER)])

with DAG("arrivals_held", schedule=[FLIGHTS], max_active_runs=1, is_paused_upon_creation=True):
    SamzaTaskGroup("arrivals", application="interference:arrivals_held", systems=SYSTEMS, mode="fused")

if (Path(os.environ["SAMZA_TEST_SIGNALS"]) / "between.expire").exists():
    os.environ["AIRFLOW__SAMZA__KEEP_TOPICS_AFTER_SUCCESS"] = "0"  # of the tasks of this file

with DAG("between", schedule=None, default_args={"retries": 1, "retry_delay": timedelta(seconds=1)}):
    SamzaTaskGroup("between", application="interference:between", systems=SYSTEMS, poll_interval=0.2)

with DAG("between_ended", schedule=None):
    SamzaEndOfStreamSensor(
        task_id="ended",
        application="between",
        stream="by-carrier",
        run_id="{{ dag_run.conf['run_id'] }}",
        external_dag_id="between",
        deferrable=True,
        poke_interval=1,
    )

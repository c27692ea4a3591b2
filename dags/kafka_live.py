"""A continuous run from topic to topic: windows come out while flights come in, until it is drained or for 12 hours.

Each window is published once, whatever dies on the way, to readers of committed messages. ``kafka_drain`` ends the run:
what has arrived is processed, and open windows give what they hold.
"""

from airflow.sdk import DAG

from airflow_samza import SamzaTaskGroup
from airflow_samza.operators import SamzaDrainOperator

with DAG(
    "kafka_live",
    schedule=None,
    max_active_runs=1,
    tags=["samza", "kafka"],
    doc_md=__doc__,
    default_args={"retries": 1},
):
    SamzaTaskGroup(
        group_id="hours",
        application="pipelines.kafka:live",
        systems={"events": "flights_kafka"},
        mode="continuous",
        run_for="12 hours",
        deferrable=True,
    )

with DAG("kafka_drain", schedule=None, tags=["samza", "kafka"]):
    SamzaDrainOperator(task_id="drain", application="pipelines.kafka:live", dag_id="kafka_live")

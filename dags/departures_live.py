"""A continuous run: windows come out while departures come in, until it is drained, or for twelve hours.

``departures_drain`` ends it: what has arrived is processed, open windows give what they hold, and the Dag run finishes.
"""

from airflow.sdk import DAG

from airflow_samza import SamzaTaskGroup
from airflow_samza.operators import SamzaDrainOperator

with DAG(
    "departures_live", schedule=None, max_active_runs=1, tags=["samza"], doc_md=__doc__, default_args={"retries": 1}
):
    SamzaTaskGroup(
        group_id="hours",
        application="pipelines.departures:live",
        systems={"warehouse": "flights_warehouse"},
        mode="continuous",
        run_for="12 hours",
        deferrable=True,
    )

with DAG("departures_drain", schedule=None, tags=["samza"]):
    SamzaDrainOperator(task_id="drain", application="pipelines.departures:live", dag_id="departures_live")

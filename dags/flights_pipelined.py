"""The same application with all its stages at the same time: each reads what the one before is still writing.

Stages that have nothing to read yet, and stages at work (``deferrable``), hold no worker slot.
"""

from airflow.sdk import DAG

from airflow_samza import SamzaTaskGroup

with DAG("flights_pipelined", schedule=None, tags=["samza"], doc_md=__doc__, default_args={"retries": 1}):
    SamzaTaskGroup(
        group_id="delays",
        application="pipelines.flights:flights_of_the_year",
        systems={"data": "flights_data", "warehouse": "flights_warehouse"},
        mode="pipelined",
        deferrable=True,
    )

"""The flights of 2013, planned into stages: each re-partitioning ends a stage, and each stage is a task.

Connections: ``samza_default`` (type samza: the root), ``flights_data`` and ``flights_warehouse`` (type fs: where the
flights are, where the results go). ``make demo`` sets all of it up.
"""

from airflow.sdk import DAG

from airflow_samza import SamzaTaskGroup

SYSTEMS = {"data": "flights_data", "warehouse": "flights_warehouse"}

with DAG("flights", schedule=None, tags=["samza"], doc_md=__doc__, default_args={"retries": 1}):
    SamzaTaskGroup(
        group_id="delays",
        application="pipelines.flights:flights_of_the_year",
        systems=SYSTEMS,
    )

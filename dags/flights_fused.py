"""The same application with all its stages in one task: less to look at, fewer slots, one place to retry."""

from airflow.sdk import DAG

from airflow_samza.operators import SamzaStreamOperator

with DAG("flights_fused", schedule=None, tags=["samza"], doc_md=__doc__):
    SamzaStreamOperator(
        task_id="delays",
        application="pipelines.flights:flights_of_the_year",
        systems={"data": "flights_data", "warehouse": "flights_warehouse"},
    )

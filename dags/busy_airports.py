"""An existing PySpark job as the input of a stream application: ``from_dataframe``.

The first stage runs the job once and keeps its rows for the run, so that a retry reads the same; its log names the
job's shuffle, and the ``partition_by`` that would do that work as a stage of its own.
"""

from airflow.sdk import DAG

from airflow_samza import SamzaTaskGroup

with DAG("busy_airports", schedule=None, tags=["samza"], doc_md=__doc__, default_args={"retries": 1}):
    SamzaTaskGroup(
        group_id="airports",
        application="pipelines.busy_airports:busy_airports",
        systems={"warehouse": "flights_warehouse"},
        spark_conf={"spark.flights.data": "{{ conn.flights_data.extra_dejson.path }}/flights"},
    )

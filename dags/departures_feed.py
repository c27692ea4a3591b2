"""Feeds a day's departures into the topic that ``departures_live`` and ``departures_catch_up`` read.

airflow dags trigger departures_feed --conf '{"day": "2013-01-02"}'
"""

from airflow.sdk import DAG, Param

from airflow_samza.provider.operators import SamzaStreamOperator

with DAG(
    "departures_feed", schedule=None, tags=["samza"], doc_md=__doc__, params={"day": Param("2013-01-01", format="date")}
):
    SamzaStreamOperator(
        task_id="feed",
        application="pipelines.departures:feed",
        systems={"data": "flights_data"},
        config={"day": "{{ params.day }}"},
    )

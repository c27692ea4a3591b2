"""Feeds a day's departures into the topic that ``departures_live`` and ``departures_catch_up`` read.

Files that keep coming need no feeder: ``departures_files`` reads them where they lie. A topic is for several readers,
and for events that come one by one.

airflow dags trigger departures_feed --conf '{"day": "2013-01-02"}'
"""

from airflow.sdk import DAG, Param

from airflow_samza.operators import SamzaStreamOperator

with DAG(
    "departures_feed", schedule=None, tags=["samza"], doc_md=__doc__, params={"day": Param("2013-01-01", format="date")}
):
    SamzaStreamOperator(
        task_id="feed",
        application="pipelines.departures:feed",
        systems={"data": "flights_data"},
        config={"day": "{{ params.day }}"},
    )

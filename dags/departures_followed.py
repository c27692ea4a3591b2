"""An application that is split over two Dags, which run at the same time.

The one writes a day's departures into a stream. The other follows the run for the same day while it writes, and ends
with it. Trigger both for the same day, in any order.
"""

from airflow.sdk import DAG, Param

from airflow_samza import SamzaTaskGroup

DAY = {"day": Param("2013-01-01", format="date")}

with DAG("departures_teller", schedule=None, tags=["samza"], doc_md=__doc__, params=DAY):
    SamzaTaskGroup(
        group_id="departures",
        application="pipelines.departures:told",
        systems={"data": "flights_data"},
        config={"day": "{{ params.day }}"},
        data_interval="{{ params.day }}/P1D",
        mode="pipelined",
    )

with DAG("departures_follower", schedule=None, tags=["samza"], doc_md=__doc__, params=DAY):
    SamzaTaskGroup(
        group_id="carriers",
        application="pipelines.departures:told_by_carrier",
        systems={"warehouse": "flights_warehouse"},
        data_interval="{{ params.day }}/P1D",
        sections={"told-departures": "departures-told@interval"},
        mode="pipelined",
    )

"""An application that is split over two Dags.

The one writes a stream, and its asset starts the other, which reads just that run's part.

What the producer has written ends by the end-of-stream in the topic, so the consumer knows that it has seen all of it.
"""

from airflow.sdk import DAG, Param

from airflow_samza import SamzaTaskGroup
from airflow_samza.assets import shared_stream

with DAG(
    "departures_producer",
    schedule=None,
    tags=["samza"],
    doc_md=__doc__,
    params={"day": Param("2013-01-01", format="date")},
):
    SamzaTaskGroup(
        group_id="departures",
        application="pipelines.departures:shared",
        systems={"data": "flights_data"},
        config={"day": "{{ params.day }}"},
    )

with DAG("departures_consumer", schedule=[shared_stream("carrier-departures")], tags=["samza"], doc_md=__doc__):
    SamzaTaskGroup(
        group_id="carriers",
        application="pipelines.departures:by_carrier",
        systems={"warehouse": "flights_warehouse"},
        mode="fused",
    )

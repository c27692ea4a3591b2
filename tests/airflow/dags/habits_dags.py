"""Dags as people of Airflow write them: a decorated function as the application, and a mode that follows the data."""

from typing import Any

from airflow.sdk import DAG, task

from airflow_samza import SamzaTaskGroup

SYSTEMS = {"data": "flights_data", "warehouse": "flights_warehouse"}

with DAG("decorated", schedule=None):

    @task.samza_stream(systems=SYSTEMS, name="planes-per-maker", poll_interval=0.2)
    def planes_per_maker(app: Any) -> None:
        """Count the planes of each maker."""
        from airflow_samza import count

        columns = "tailnum string, manufacturer string"
        planes = app.input_stream("planes", system="data", schema=columns, path="planes", partitions=1)
        planes.partition_by("manufacturer", id="by-maker").aggregate(
            "manufacturer", planes=count(), id="per-maker"
        ).send_to(app.output_stream("makers", system="warehouse", path="makers/{run_id}"))

    planes_per_maker()  # type: ignore[call-arg]  # Airflow calls it without the parameter

with DAG("automatic", schedule=None):
    SamzaTaskGroup("automatic", application="habits:planes_by_tail", systems=SYSTEMS, mode="auto", poll_interval=0.2)

"""Dags over the applications of ``interference``."""

from datetime import timedelta

from airflow.sdk import DAG

from airflow_samza import SamzaTaskGroup

SYSTEMS = {"data": "flights_data", "warehouse": "flights_warehouse"}

for name in ("two_sides", "held", "faulty"):
    with DAG(name, schedule=None, default_args={"retries": 1 if name == "held" else 0, "retry_delay": timedelta(seconds=1)}):
        SamzaTaskGroup(name, application=f"interference:{name}", systems=SYSTEMS, poll_interval=0.2)

"""A Dag of partitions, wired by hand, whose keys have the form that Airflow gives them, in a zone."""

import sys
from pathlib import Path
from typing import Any

from airflow.sdk import DAG

from airflow_samza.operators import SamzaPlanOperator, SamzaStreamOperator
from airflow_samza.provider.airflow_versions import events_take_partitions

sys.path.append(str(Path(__file__).resolve().parents[3] / "dags"))

SYSTEMS = {"data": "flights_data", "warehouse": "flights_warehouse"}

if events_take_partitions():
    from airflow.sdk import CronPartitionTimetable

    # Its keys are moments: the timetable says how long the partitions are.
    with DAG("partitions_by_hand", schedule=CronPartitionTimetable("@hourly", timezone="America/New_York")):
        of_run: dict[str, Any] = {"application": "pipelines.flights:flights_by_time", "systems": SYSTEMS}
        plan = SamzaPlanOperator(task_id="plan", **of_run)
        stages = ["planes", "flights", "by-tail-and-planes-by-tail", "by-maker-and-hour"]
        before: Any = plan
        for stage in stages:
            task = SamzaStreamOperator(task_id=stage, stage=stage, plan=plan.output, **of_run)
            before >> task
            before = task

"""Dags over the applications of ``interference``."""

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG

from airflow_samza import SamzaTaskGroup
from airflow_samza.operators import SamzaCleanupOperator, SamzaPlanOperator, SamzaStreamOperator

SYSTEMS = {"data": "flights_data", "warehouse": "flights_warehouse"}

RETRIES = {"held": 1, "chain": 1, "deferred": 1}

SETTINGS: dict[str, dict[str, Any]] = {
    "two_sides": {},
    "held": {},
    "faulty": {},
    "chain": {"mode": "pipelined"},
    "broken_chain": {"mode": "pipelined"},
    "deferred": {"deferrable": True, "spark_conf": {"spark.ui.enabled": "true", "spark.ui.port": "0"}},
}

for name, settings in SETTINGS.items():
    with DAG(name, schedule=None, default_args={"retries": RETRIES.get(name, 0), "retry_delay": timedelta(seconds=1)}):
        SamzaTaskGroup(name, application=f"interference:{name}", systems=SYSTEMS, poll_interval=0.2, **settings)

with DAG("by_hand", schedule=None):
    given: dict[str, Any] = {"application": "interference:broken_chain", "systems": SYSTEMS}
    plan = SamzaPlanOperator(task_id="plan", mode="pipelined", **given)
    cleanup = SamzaCleanupOperator(task_id="cleanup", **given)
    for stage in ("planes", "by-tail"):
        SamzaStreamOperator(task_id=f"run-{stage}", stage=stage, plan=plan.output, **given) >> cleanup

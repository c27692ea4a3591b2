"""Dags over the applications of ``views``."""

import pendulum
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Param

from airflow_samza import SamzaDag, SamzaTablePushOperator
from airflow_samza.assets import shared_stream

SYSTEMS = {"logs": "views_logs", "warehouse": "views_warehouse"}

SamzaDag("page_views", application="views:page_views", schedule=None, systems=SYSTEMS)
# A schedule that is over: a backfill has slices, and the scheduler makes no run.
JANUARY = {"start_date": pendulum.datetime(2026, 1, 1), "end_date": pendulum.datetime(2026, 1, 31), "catchup": False}
SamzaDag("broken_views", application="views:broken_views", schedule="@daily", systems=SYSTEMS, **JANUARY)

UNBOUND = {**SYSTEMS, "logs": "no_such_connection"}
SamzaDag("unbound_views", application="views:page_views", schedule=None, systems=UNBOUND)

wide = SamzaDag("wide_views", application="wide:wide_views", schedule=None, systems=SYSTEMS)
for task in wide.tasks:
    if task.task_id != "plan":
        task.pool = "closed"  # there is no such pool, so the scheduler starts none of its tasks

with DAG("push_tiers", schedule=None, params={"source": Param("", type="string")}):
    SamzaTablePushOperator(
        task_id="push", application="views:member_tiers", table="tiers", source="{{ params.source }}"
    )

tiers = SamzaDag("member_tiers", application="views:member_tiers", schedule=None)
for task in tiers.tasks:
    if task.task_id != "plan":
        task.pool = "gate"  # a test opens and closes it

with DAG("after_tiers", schedule=[shared_stream("tiered-visits")]):
    EmptyOperator(task_id="nothing")

for name, application in {
    "orders_without_file": "without_file",
    "orders_of_another_schema": "of_another_schema",
    "orders_with_a_bad_record": "with_a_bad_record",
    "orders_that_wait": "killed_runner",
    "orders_that_devour": "killed_worker",
}.items():
    SamzaDag(name, application=f"failing:{application}", schedule=None, systems=SYSTEMS)
SamzaDag("orders_unbound", application="failing:with_a_bad_record", schedule=None, systems=UNBOUND)

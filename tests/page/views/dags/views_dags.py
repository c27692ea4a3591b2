"""Dags over the applications of ``views``."""

import pendulum

from airflow_samza import SamzaDag

SYSTEMS = {"logs": "views_logs", "warehouse": "views_warehouse"}

SamzaDag("page_views", application="views:page_views", schedule=None, systems=SYSTEMS)
# A schedule that is over: a backfill has slices, and the scheduler makes no run.
JANUARY = {"start_date": pendulum.datetime(2026, 1, 1), "end_date": pendulum.datetime(2026, 1, 31), "catchup": False}
SamzaDag("broken_views", application="views:broken_views", schedule="@daily", systems=SYSTEMS, **JANUARY)

wide = SamzaDag("wide_views", application="wide:wide_views", schedule=None, systems=SYSTEMS)
for task in wide.tasks:
    if task.task_id != "plan":
        task.pool = "closed"  # there is no such pool, so the scheduler starts none of its tasks

"""Dags over the applications of ``views``."""

from airflow_samza import SamzaDag

SYSTEMS = {"logs": "views_logs", "warehouse": "views_warehouse"}

SamzaDag("page_views", application="views:page_views", schedule=None, systems=SYSTEMS)
SamzaDag("broken_views", application="views:broken_views", schedule=None, systems=SYSTEMS)

wide = SamzaDag("wide_views", application="wide:wide_views", schedule=None, systems=SYSTEMS)
for task in wide.tasks:
    if task.task_id != "plan":
        task.pool = "closed"  # there is no such pool, so the scheduler starts none of its tasks

"""The plugin, by entry point ``airflow.plugins``: Airflow's processes import it, so it loads nothing of the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_samza.provider.airflow_versions import plugin_class
from airflow_samza.provider.page.lazy_app import LazyApp

if TYPE_CHECKING:
    from airflow.sdk.plugins_manager import AirflowPlugin
else:
    AirflowPlugin = plugin_class()

URL_PREFIX = "/samza"
"""The place of the page below Airflow's own address."""


# Airflow puts ids into an address as they are.
VIEWS = [
    {"name": "Samza", "href": "samza/", "destination": "nav", "category": "browse", "url_route": "samza"},
    {
        "name": "Samza",
        "href": "samza/runs/{DAG_ID}/{RUN_ID}",
        "destination": "dag_run",
        "url_route": "samza-run",
    },
    {
        "name": "Samza",
        "href": "samza/tasks/{DAG_ID}/{RUN_ID}/{TASK_ID}/{MAP_INDEX}",
        "destination": "task_instance",
        "url_route": "samza-task",
    },
]
APPS = [{"app": LazyApp(), "url_prefix": URL_PREFIX, "name": "Samza"}]


class SamzaPlugin(AirflowPlugin):
    """Views in Airflow's navigation, on a Dag run and on a task instance; the application that answers them."""

    name = "samza"
    fastapi_apps = APPS
    external_views = VIEWS

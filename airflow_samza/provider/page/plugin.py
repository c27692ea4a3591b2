"""The plugin, by entry point ``airflow.plugins``: Airflow's processes import it, so it loads nothing of the page."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

from airflow_samza.provider.airflow_versions import plugin_class

if TYPE_CHECKING:
    from airflow.sdk.plugins_manager import AirflowPlugin
else:
    AirflowPlugin = plugin_class()

URL_PREFIX = "/samza"
"""The place of the page below Airflow's own address."""


class LazyApp:
    """The page's application, made in a thread when the first request comes: it takes a second.

    Every process of Airflow's loads the plugin; only the API server needs FastAPI, the models and the routes.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._app: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request."""
        app = self._app if self._app is not None else await asyncio.to_thread(self.app)
        await app(scope, receive, send)

    def app(self) -> Any:
        """Return the application."""
        with self._lock:
            if self._app is None:
                from airflow_samza.provider.page.app import make_app

                self._app = make_app()
            return self._app

    def __repr__(self) -> str:
        return "the application of Samza's page"


# Airflow puts ids into an address as they are.
VIEWS = [
    {"name": "Samza", "href": "samza/", "destination": "nav", "category": "browse", "url_route": "samza"},
    {
        "name": "Samza: map of data",
        "href": "samza/map",
        "destination": "nav",
        "category": "browse",
        "url_route": "samza-map",
    },
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

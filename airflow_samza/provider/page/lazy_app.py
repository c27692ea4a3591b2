"""An ASGI application that is made when the first request comes.

Every process of Airflow's loads the plugin; only the API server needs FastAPI, the models and the routes.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any


class LazyApp:
    """The page's application; building it takes a second, in a thread."""

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

"""The application behind the page: its routes, its errors, and the files that a browser loads (decision 99)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from airflow_samza import __version__
from airflow_samza.provider.page.files import serve_files
from airflow_samza.provider.page.guard import Guard
from airflow_samza.provider.page.problems import RESPONSES, answer_problems
from airflow_samza.provider.page.routes import data, plan, progress, results, runs

DESCRIPTION = Path(__file__).parent / "openapi.json"
"""The description, for those who build the page."""


def make_app() -> FastAPI:
    """Return the application; Airflow mounts it below its own address."""
    app = FastAPI(
        title="Samza",
        version="1",
        description=f"The page of airflow-samza {__version__}.",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
    )
    for module in (runs, plan, progress, results, data):
        app.include_router(module.router, responses=RESPONSES)
    answer_problems(app)
    serve_files(app)
    app.add_middleware(Guard)
    return app


def description() -> dict[str, Any]:
    """Return the OpenAPI description, of which the page's TypeScript types are made.

    How a user signs in is Airflow's, and differs between its releases.
    """
    found = make_app().openapi()
    found["info"].pop("description")  # it names the version
    found["components"].pop("securitySchemes", None)
    for path in found["paths"].values():
        for operation in path.values():
            operation.pop("security", None)
    return found


def description_text() -> str:
    """Return the text of ``openapi.json``."""
    return json.dumps(description(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"

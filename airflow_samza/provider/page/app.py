"""The application behind the page: its routes, its errors, and the files that a browser loads (decision 99)."""

from __future__ import annotations

from pathlib import Path

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import HTMLResponse, Response
from fastapi.staticfiles import StaticFiles

from airflow_samza import __version__
from airflow_samza.provider.page.guard import FILES, Guard
from airflow_samza.provider.page.problems import RESPONSES, answer_problems
from airflow_samza.provider.page.routes import data, data_map, failures, plan, progress, results, runs

STATIC = Path(__file__).parent / "static"

BASE = '<base href="./" />'
"""The place in ``index.html`` that gets the page's own address, as Airflow may be served below a path."""


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
    for module in (runs, plan, progress, results, failures, data, data_map):
        app.include_router(module.router, responses=RESPONSES)
    answer_problems(app)
    serve_files(app)
    app.add_middleware(Guard)
    return app


def serve_files(app: FastAPI) -> None:
    """Serve the built files; every address that is no file and no route of the interface is the page."""
    if (STATIC / FILES).is_dir():
        app.mount(f"/{FILES}", StaticFiles(directory=STATIC / FILES), name=FILES)

    @app.get("/{path:path}", include_in_schema=False)
    def page(path: str, request: Request) -> Response:
        if path.startswith(("api/", f"{FILES}/")):
            raise HTTPException(404)
        return index(request.scope.get("root_path", ""))


def index(root_path: str) -> Response:
    """Return the page for an application that is mounted at ``root_path``."""
    try:
        text = (STATIC / "index.html").read_text(encoding="utf-8")
    except FileNotFoundError:
        return HTMLResponse("<p>The page has not been built: make page.</p>", 503)
    return HTMLResponse(text.replace(BASE, f'<base href="{root_path}/" />'), headers={"Cache-Control": "no-cache"})

"""The files that a browser loads: ``static/`` holds what the page's build made, and is in the wheel."""

from __future__ import annotations

from pathlib import Path

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import HTMLResponse, Response
from fastapi.staticfiles import StaticFiles

STATIC = Path(__file__).parent / "static"

BASE = '<base href="./" />'
"""The place in ``index.html`` that gets the page's own address, as Airflow may be served below a path."""

FILES = "assets"
"""The folder of files whose names hold a hash of what is in them."""


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

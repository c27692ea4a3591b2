"""The application behind the page: routes, errors, headers of answers, and the files that a browser loads.

Decision 99.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from airflow_samza import __version__
from airflow_samza.provider.page.answer import RESPONSES, Problem, answer_problems
from airflow_samza.provider.page.routes import calendar, data, data_map, failures, plan, progress, results, runs

log = logging.getLogger(__name__)

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "worker-src 'self'",
        "style-src 'self' 'unsafe-inline'",  # the library that draws graphs sets styles of elements
        "img-src 'self' data:",
        "font-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'self'",
        "form-action 'none'",
        "frame-ancestors 'self'",
    )
)
"""The content-security policy of every answer: nothing from elsewhere, and no frame but in Airflow."""

FILES = "assets"
"""The folder of files whose names hold a hash of what is in them."""

A_YEAR = "public, max-age=31536000, immutable"


AT_ONCE = 8
"""Questions that are answered at a time; Airflow's API server has forty threads for everybody."""


class Guard:
    """The outermost part of the application."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.limiter = asyncio.Semaphore(AT_ONCE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request with the headers of the page; an error that is left is logged, and answered as others."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if "/api/" in str(scope["path"]):
            # A storage that hangs would else take all threads of the API server, one per look of every open page.
            async with self.limiter:
                await self._answer(scope, receive, send)
        else:
            await self._answer(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def send_with_headers(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                _add_headers(MutableHeaders(scope=message), str(scope["path"]), int(message["status"]))
            await send(message)

        try:
            await self.app(scope, receive, send_with_headers)
        except Exception as error:
            log.exception("%s could not be answered", scope["path"])
            if begun:
                raise
            sentence = f"The page's server met an error ({type(error).__name__}); the API server's log has it."
            answer = JSONResponse(Problem(sentence=sentence, rule="error").model_dump(), 500)
            await answer(scope, receive, send_with_headers)


def _add_headers(headers: MutableHeaders, path: str, status: int) -> None:
    headers["Content-Security-Policy"] = POLICY
    headers["X-Content-Type-Options"] = "nosniff"
    headers["Referrer-Policy"] = "same-origin"
    if f"/{FILES}/" in path and status == 200 and "/api/" not in path:  # their names hold a hash
        headers["Cache-Control"] = A_YEAR
    else:
        headers.setdefault("Cache-Control", "no-store")


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
    for module in (runs, plan, progress, results, failures, data, data_map, calendar):
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
        try:
            text = (STATIC / "index.html").read_text(encoding="utf-8")
        except FileNotFoundError:
            return HTMLResponse("<p>The page has not been built: make page.</p>", 503)
        mounted_at = request.scope.get("root_path", "")
        return HTMLResponse(text.replace(BASE, f'<base href="{mounted_at}/" />'), headers={"Cache-Control": "no-cache"})

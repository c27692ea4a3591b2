"""A stand-in for Kubernetes' API server: it keeps objects by their paths, and lets a test say what happens to them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class ApiServer:
    """Objects by path. Each pod that is asked for has the status ``pods``; without one there is none."""

    def __init__(self) -> None:
        self.url = ""
        self.objects: dict[str, dict[str, Any]] = {}
        self.made: list[dict[str, Any]] = []
        self.pods: dict[str, Any] | None = None
        self.status_of_made: dict[str, Any] = {}
        self.away = 0
        """The status of each answer, where there is one: it starts, stops, is too busy, or rejects all."""

    def answer(self, method: str, path: str, body: dict[str, Any]) -> dict[str, Any] | None:
        """Return the answer to a request, or None: not there."""
        place = path.partition("?")[0]
        if method == "POST":
            self.made.append(body)
            self.objects[f"{place}/{body['metadata']['name']}"] = {**body, "status": self.status_of_made}
            return body
        if method == "DELETE":
            return self.objects.pop(place, None)
        if "/pods/" in place and self.pods is not None:
            _, _, namespace, _, name = place.split("/")[2:]
            return {"metadata": {"namespace": namespace, "name": name}, "status": self.pods}
        return self.objects.get(place)

    def config(self, folder: Path) -> Path:
        """Return a file for ``KUBECONFIG`` by which this server is reached."""
        path = folder / "kubeconfig"
        context = {"name": "here", "context": {"cluster": "here", "user": "me"}}
        content = {
            "clusters": [{"name": "here", "cluster": {"server": self.url}}],
            "users": [{"name": "me", "user": {"token": "a token"}}],
            "contexts": [context],
            "current-context": "here",
        }
        path.write_text(json.dumps(content))
        return path


@contextmanager
def api_server() -> Iterator[ApiServer]:
    """A server, for a ``with``."""
    served = ApiServer()

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length) or b"{}")
            answer = {"message": "no words"} if served.away else served.answer(self.command, self.path, body)
            self.send_response(served.away or (404 if answer is None else 200))
            self.end_headers()
            self.wfile.write(json.dumps(answer or {"message": "not found"}).encode())

        do_POST = do_DELETE = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        served.url = f"http://127.0.0.1:{server.server_port}"
        yield served
        server.shutdown()

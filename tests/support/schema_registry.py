"""A stub of a schema registry: the part of its HTTP interface that serdes use. No registry can be had for tests.

It keeps subjects with versions, gives each text one id, asks for a login where it has one, and counts what it is asked.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from airflow_samza.systems.serdes.registry.client import close_clients


@dataclass
class StubRegistry:
    """The registry. ``login``: "user:password"; ``failing``: the status of every answer; ``compatible``: takes versions."""

    login: str | None = None
    failing: int | None = None
    compatible: bool = True
    url: str = ""
    asked: list[str] = field(default_factory=list)
    schemas: list[dict[str, Any]] = field(default_factory=list)
    subjects: dict[str, list[int]] = field(default_factory=dict)

    def add(
        self, subject: str, schema: Any, kind: str = "AVRO", serialized: bytes | None = None, references: Any = ()
    ) -> int:
        """Register a version, and return its id; of Protobuf ``serialized`` is the descriptor of the file."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        known = {"schema": text, "schemaType": kind, "references": list(references), "serialized": serialized}
        if known not in self.schemas:
            self.schemas.append(known)
        id = self.schemas.index(known) + 1
        versions = self.subjects.setdefault(subject, [])
        if id not in versions:
            versions.append(id)
        return id

    @property
    def options(self) -> dict[str, Any]:
        """The options of a system that lead to it."""
        login = {} if self.login is None else {"schema.registry.basic.auth.user.info": self.login}
        return {"schema.registry.url": self.url, **login}

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: Any) -> tuple[int, Any]:
        """Return the status and the answer of a request."""
        if self.failing is not None:
            return self.failing, {"error_code": self.failing, "message": "failing"}
        match [method, *map(unquote, path.strip("/").split("/"))]:
            case ["GET", "schemas", "ids", number]:
                if not 0 < int(number) <= len(self.schemas):
                    return 404, {"error_code": 40403, "message": "Schema not found"}
                return 200, self._shown(int(number), query)
            case ["GET", "subjects", subject, "versions", version]:
                versions = self.subjects.get(subject, [])
                place = len(versions) if version in ("latest", "-1") else int(version)
                if not 0 < place <= len(versions):
                    return 404, {"error_code": 40401, "message": "Subject not found"}
                id = versions[place - 1]
                return 200, {"subject": subject, "version": place, "id": id, **self._shown(id, query)}
            case ["POST", "subjects", subject]:
                for place, id in enumerate(self.subjects.get(subject, []), 1):
                    if self.schemas[id - 1]["schema"] == body["schema"]:
                        return 200, {"subject": subject, "version": place, "id": id, "schema": body["schema"]}
                return 404, {"error_code": 40403, "message": "Schema not found"}
            case ["POST", "subjects", subject, "versions"]:
                if not self.compatible:
                    return 409, {"error_code": 409, "message": "Schema being registered is incompatible"}
                return 200, {"id": self.add(subject, body["schema"], body.get("schemaType", "AVRO"))}
        return 404, {"error_code": 404, "message": f"HTTP 404: the stub has no {method} {path}"}

    def _shown(self, id: int, query: dict[str, list[str]]) -> dict[str, Any]:
        known = self.schemas[id - 1]
        text = known["schema"]
        if known["serialized"] is not None and query.get("format") == ["serialized"]:
            text = base64.standard_b64encode(known["serialized"]).decode()
        return {"schema": text, "schemaType": known["schemaType"], "references": known["references"]}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    registry: StubRegistry

    def _serve(self) -> None:
        registry, parts = self.registry, urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        registry.asked.append(f"{self.command} {unquote(parts.path)}")
        wanted = None if registry.login is None else f"Basic {base64.b64encode(registry.login.encode()).decode()}"
        if wanted is not None and self.headers.get("Authorization") != wanted:
            status, answer = 401, {"error_code": 401, "message": "Unauthorized"}
        else:
            status, answer = registry.answer(
                self.command, parts.path, parse_qs(parts.query), json.loads(body) if body else None
            )
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = _serve

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@contextmanager
def stub_registry(*, login: str | None = None, certificate: tuple[str, str] | None = None) -> Iterator[StubRegistry]:
    """Run a registry; ``certificate`` is the file of one and that of its key, for TLS."""
    registry = StubRegistry(login)
    handler = type("Handler", (_Handler,), {"registry": registry})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    registry.url = f"{'https' if certificate else 'http'}://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        close_clients()
        server.shutdown()
        server.server_close()
        thread.join()

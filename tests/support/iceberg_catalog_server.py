"""An Iceberg REST catalog of the tests' own, over an embedded one: it can fail, and be silent, as told."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

from tests.support.iceberg_lake import append


class CatalogServer:
    """Server of a catalog in a folder. ``answer`` is the status of its next answers, if set; ``silent``: none comes."""

    def __init__(self, folder: Path, *, token: str) -> None:
        self.answer: int | None = None
        self.silent = False
        self.token = token
        self._gone = threading.Event()
        uri = f"sqlite:///{folder}/catalog.db"
        self.catalog: Catalog = SqlCatalog("rest", uri=uri, warehouse=f"file://{folder}")
        self._server = _Server(("127.0.0.1", 0), _handler_of(self))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def table(self, name: str, rows: Sequence[Mapping[str, Any]]) -> Table:
        """Make a table of rows."""
        self.catalog.create_namespace_if_not_exists(name.rpartition(".")[0])
        table = self.catalog.create_table(name, pa.Table.from_pylist(list(rows)).schema)
        append(table, rows)
        return table

    def reply(self, path: Sequence[str], authorization: str | None) -> tuple[int, dict[str, Any]]:
        """Return the answer to a request."""
        if self.silent:
            self._gone.wait(60)
        if authorization != f"Bearer {self.token}":
            return 401, _error(401, "NotAuthorizedException", f"who is {authorization}?")
        if self.answer is not None:
            return self.answer, _error(self.answer, "ServerError", f"told to answer {self.answer}")
        match list(path):
            case ["v1", "config"]:
                return 200, {"defaults": {}, "overrides": {}}
            case ["v1", "namespaces"]:
                return 200, {"namespaces": [list(name) for name in self.catalog.list_namespaces()]}
            case ["v1", "namespaces", namespace, "tables"]:
                names = self.catalog.list_tables(namespace)
                return 200, {"identifiers": [{"namespace": list(name[:-1]), "name": name[-1]} for name in names]}
            case ["v1", "namespaces", namespace, "tables", name]:
                try:
                    table = self.catalog.load_table((namespace, name))
                except NoSuchTableError as error:
                    return 404, _error(404, "NoSuchTableException", str(error))
                metadata = json.loads(table.metadata.model_dump_json())
                return 200, {"metadata-location": table.metadata_location, "metadata": metadata, "config": {}}
        return 404, _error(404, "NotFoundException", "/".join(path))

    def __enter__(self) -> CatalogServer:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._gone.set()
        self._server.shutdown()
        self._server.server_close()
        self.catalog.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: clients that give up a silent server close the connection."""


def _error(status: int, kind: str, message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "code": status}}


def _handler_of(server: CatalogServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def _answer(self) -> None:
            status, body = server.reply(
                self.path.partition("?")[0].strip("/").split("/"), self.headers["Authorization"]
            )
            content = b"" if self.command == "HEAD" else json.dumps(body).encode()
            self.send_response(204 if self.command == "HEAD" and status == 200 else status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_HEAD = _answer

    return Handler

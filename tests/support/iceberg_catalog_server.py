"""An Iceberg REST catalog of the tests' own, over an embedded one: it can fail, and be silent, as told."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableRequest, StagedTable, Table
from pyiceberg.table.update import AssertCreate

from tests.support.iceberg_lake import append

SILENT = -1
"""Status of an answer that never comes."""


class CatalogServer:
    """Server of a catalog in a folder. ``answer`` is the status of its next answers, if set; ``silent``: none comes.

    ``faults`` are what becomes of the next commits: a status before the commit, or (status, "landed") after it; the
    status 0 closes the connection. A commit with the fault "after a look" or "after a commit" is not answered at all, and
    is made when the next request of that kind has been answered. ``commits`` counts the requests.
    """

    def __init__(self, folder: Path, *, token: str) -> None:
        self.answer: int | None = None
        self.silent = False
        self.faults: list[int | tuple[int, str] | str | None] = []
        self.commits = 0
        self.late: dict[str, Callable[[], object]] = {}
        self.token = token
        self.authorization = f"Bearer {token}"
        self._one_at_a_time = threading.Lock()
        self.gone = threading.Event()
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

    def reply(
        self, path: Sequence[str], authorization: str | None, body: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        """Return the answer to a request; ``body`` is that of one that changes something."""
        if self.silent:
            self.gone.wait(60)
        if authorization != self.authorization:
            return 401, _error(401, "NotAuthorizedException", f"who is {authorization}?")
        if self.answer is not None:
            return self.answer, _error(self.answer, "ServerError", f"told to answer {self.answer}")
        if body is not None:
            return self._changed(path, body)
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
                described = _described(table)
                self._do_late("after a look")
                return 200, described
        return 404, _error(404, "NotFoundException", "/".join(path))

    def _do_late(self, when: str) -> None:
        """Make the commit that has been waiting, if it still can be made."""
        with suppress(CommitFailedException):
            self.late.pop(when, lambda: None)()

    def _changed(self, path: Sequence[str], body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Return the answer to a request that makes a namespace or a table, or commits to one."""
        try:
            match list(path):
                case ["v1", "namespaces"]:
                    with self._one_at_a_time:
                        self.catalog.create_namespace(tuple(body["namespace"]))
                    return 200, body
                case ["v1", "namespaces", namespace, "tables"]:
                    return 200, self._made(namespace, body)
                case ["v1", "namespaces", namespace, "tables", name]:
                    return self._committed(namespace, name, body)
        except (TableAlreadyExistsError, NamespaceAlreadyExistsError, CommitFailedException) as error:
            return 409, _error(409, type(error).__name__, str(error))
        except NoSuchTableError as error:
            return 404, _error(404, "NoSuchTableException", str(error))
        return 404, _error(404, "NotFoundException", "/".join(path))

    def _made(self, namespace: str, body: dict[str, Any]) -> dict[str, Any]:
        schema = Schema.model_validate(body["schema"])
        with self._one_at_a_time:
            if body.get("stage-create"):
                if self.catalog.table_exists((namespace, body["name"])):
                    raise TableAlreadyExistsError(f"Table {namespace}.{body['name']} already exists")
                properties = body.get("properties") or {}
                staged = self.catalog.create_table_transaction((namespace, body["name"]), schema, properties=properties)
                return _described(staged._table)
            return _described(
                self.catalog.create_table((namespace, body["name"]), schema, properties=body.get("properties") or {})
            )

    def _committed(self, namespace: str, name: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        with self._one_at_a_time:
            self.commits += 1
            fault = self.faults.pop(0) if self.faults else None
            if isinstance(fault, int):
                return fault, _error(fault, "ServerError", f"told to answer {fault} before the commit")
            if isinstance(fault, str):
                self.late[fault] = lambda: self._committed(namespace, name, body)
                return SILENT, {}
            identifier = {"namespace": [namespace], "name": name}
            request = CommitTableRequest.model_validate({**body, "identifier": identifier})
            try:
                table: Any = self.catalog.load_table((namespace, name))
            except NoSuchTableError:
                if not any(isinstance(one, AssertCreate) for one in request.requirements):
                    raise
                made: Any = StagedTable
                table = made((namespace, name), None, "", None, self.catalog)
            answer = self.catalog.commit_table(table, request.requirements, request.updates)
        self._do_late("after a commit")
        if fault is not None:
            return fault[0], _error(fault[0], "ServerError", f"told to answer {fault[0]} after the commit")
        metadata = json.loads(answer.metadata.model_dump_json())
        return 200, {"metadata-location": answer.metadata_location, "metadata": metadata}

    def __enter__(self) -> CatalogServer:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.gone.set()
        self._server.shutdown()
        self._server.server_close()
        self.catalog.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: clients that give up a silent server close the connection."""


def _described(table: Table) -> dict[str, Any]:
    metadata = json.loads(table.metadata.model_dump_json())
    return {"metadata-location": table.metadata_location, "metadata": metadata, "config": {}}


def _error(status: int, kind: str, message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "code": status}}


def _handler_of(server: CatalogServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def _answer(self) -> None:
            sent = None
            if self.command == "POST":
                sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or "{}")
            path = self.path.partition("?")[0].strip("/").split("/")
            status, body = server.reply(path, self.headers["Authorization"], sent)
            if status == SILENT:
                server.gone.wait(60)
            if status in (0, SILENT):
                self.close_connection = True
                return
            content = b"" if self.command == "HEAD" else json.dumps(body).encode()
            self.send_response(204 if self.command == "HEAD" and status == 200 else status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_HEAD = do_POST = _answer

    return Handler

"""An object store on this machine for the demo: moto as S3, or Azurite as Azure Blob Storage.

The server's own log of requests tells what a run cost: every process is in it, Airflow's and Spark's.
"""

from __future__ import annotations

import json
import re
import secrets
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from airflow_samza.provider.connections.root_access import OF_TYPES
from airflow_samza.systems.filesystems.root_access import RootAccess
from demo.store_servers import AzureServer, S3Server, Server

CONNECTION = "object_store"
"""The id of Airflow's connection to the store, which those of root and warehouse name."""

ROOTS = ("local", "s3", "azure")
"""Places of the demo's root."""

BUCKET = "flights"

_REQUEST = re.compile(r'"(?:\x1b\[\d+m)*(GET|PUT|HEAD|POST|DELETE) (\S+) HTTP')
"""A request in a log; moto writes those that are not answered by 200 in colours."""


class DemoStore:
    """A store that runs, and the connection by which Airflow reaches it."""

    def __init__(self, server: Server, fields: Mapping[str, Any]) -> None:
        self._server = server
        self._fields = dict(fields)
        self.root = server.url("samza", BUCKET)
        self.warehouse = server.url("warehouse", BUCKET)

    @property
    def place(self) -> str:
        """The server, as people are shown it."""
        return f"{self._server.endpoint} (bucket {BUCKET})"

    @property
    def access(self) -> RootAccess:
        """Return the options that open root and warehouse in this process, as the connection has them."""
        from airflow.sdk import Connection

        fields = {**self._fields, "extra": json.dumps(self._fields.get("extra", {}))}
        return RootAccess(OF_TYPES[self._fields["conn_type"]](CONNECTION, Connection(conn_id=CONNECTION, **fields)))

    @property
    def connections(self) -> dict[str, str]:
        """Airflow's connections: the root, the warehouse, and the one that opens both."""
        named = {"root_conn_id": CONNECTION}
        return {
            CONNECTION: json.dumps(self._fields),
            "samza_default": json.dumps({"conn_type": "samza", "extra": {"root": self.root, **named}}),
            "flights_warehouse": json.dumps({"conn_type": "fs", "extra": {"path": self.warehouse, **named}}),
        }

    def requests(self) -> Counter[str]:
        """The requests that the server has answered, by kind."""
        return requests_in((self._server.folder / "log").read_text(errors="replace"))

    def folders(self) -> list[list[object]]:
        """The folders of the bucket, two names deep, with the objects and bytes below each."""
        from airflow_samza.systems.filesystems.opening import open_filesystem

        files: Any = open_filesystem(self._server.url("", BUCKET).rstrip("/"), self.access.options)
        sums: dict[str, list[int]] = {}
        for each in files.client.below(""):
            number = sums.setdefault("/".join(each.key.split("/")[:-1][:2]), [0, 0])
            number[0] += 1
            number[1] += each.size
        return [[folder, *numbers] for folder, numbers in sorted(sums.items())]


def requests_in(log: str) -> Counter[str]:
    """Return the requests that stand in a server's log, by kind."""
    return Counter(kind_of(method, target) for method, target in _REQUEST.findall(log))


def kind_of(method: str, target: str) -> str:
    """The kind of a request, as stores put it on their bills.

    >>> kind_of("GET", "/b?list-type=2&prefix=x"), kind_of("POST", "/b?delete"), kind_of("POST", "/b/k?uploads")
    ('LIST', 'DELETE', 'PUT')
    """
    query = target.partition("?")[2]
    if method == "GET" and ("list-type=2" in query or "comp=list" in query):
        return "LIST"
    if method == "POST":
        return "DELETE" if query.startswith("delete") or "comp=batch" in query else "PUT"
    return method


@contextmanager
def running_store(kind: str, folder: Path) -> Iterator[DemoStore]:
    """Start a store of a kind, and stop it at the end."""
    folder.mkdir(parents=True, exist_ok=True)
    server: S3Server | AzureServer = S3Server(folder) if kind == "s3" else _LoggingAzurite(folder)
    try:
        server.start()
        server.make_bucket(BUCKET)
        yield DemoStore(server, _fields(server))
    finally:
        server.stop()


class _LoggingAzurite(AzureServer):
    def command(self) -> list[str]:
        return [word for word in super().command() if word != "--silent"]


def _fields(server: S3Server | AzureServer) -> dict[str, Any]:
    if isinstance(server, AzureServer):
        host = f"{server.endpoint}/{server.account}"
        return {"conn_type": "wasb", "host": host, "login": server.account, "password": server.key}
    return {
        "conn_type": "aws",
        "login": "demo",
        "password": secrets.token_hex(16),  # moto takes any; Airflow masks it in its logs, wherever it stands
        "extra": {"endpoint_url": server.endpoint, "region_name": "us-east-1"},
    }

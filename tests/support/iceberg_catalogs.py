"""Catalogs of every type that can be had here, as tests bind them, and processes that use one at the same moment."""

from __future__ import annotations

import multiprocessing
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest

from airflow_samza.systems.iceberg.catalogs import opened_catalog
from airflow_samza.systems.iceberg.system import IcebergSystem
from airflow_samza.systems.system import Publication, StreamSpec, SystemBinding
from demo.store_servers import S3Server
from tests.support.iceberg_catalog_server import CatalogServer

CATALOGS = ("folder", "rest", "postgres", "sqlite over s3", "glue", "hive")

SLOW = ("glue", "hive")
"""Those whose client, or whose server, takes seconds to be made."""

_TOKEN = "hunter2"


@contextmanager
def binding_of(kind: str, folder: Path, request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """Yield the options of a binding to an empty catalog; the servers that it needs are fixtures."""
    if kind == "folder":
        yield {"root": str(folder)}
    elif kind == "rest":
        folder.mkdir(exist_ok=True)
        with CatalogServer(folder, token=_TOKEN) as server:
            yield {"uri": server.url, "token": _TOKEN}
    elif kind == "postgres":
        yield {"uri": new_database(request.getfixturevalue("postgres")), "warehouse": f"file://{folder}"}
    elif kind == "hive":
        options = {"uri": request.getfixturevalue("hive"), "warehouse": f"file://{folder}"}
        yield options
        _empty(options)
    else:
        s3: S3Server = request.getfixturevalue("s3")
        options = {
            "warehouse": s3.url(f"lake-{uuid.uuid4().hex}"),
            "s3.endpoint": s3.endpoint,
            "s3.region": "us-east-1",
            "s3.access-key-id": "tests",
            "s3.secret-access-key": "tests",
        }
        if kind == "glue":
            options |= {"type": "glue", "glue.endpoint": s3.endpoint, "glue.region": "us-east-1"}
            options |= {"glue.access-key-id": "tests", "glue.secret-access-key": "tests"}
            yield options
            _empty(options)
        else:
            folder.mkdir(exist_ok=True)
            yield {"uri": f"sqlite:///{folder}/catalog.db", **options}


def system_of(options: Mapping[str, Any]) -> IcebergSystem:
    """Return the system as another process binds it."""
    secret = frozenset(name for name in options if name == "token" or "secret" in name)
    return IcebergSystem("lake", SystemBinding("iceberg", dict(options), secret=secret))


def scanned(options: Mapping[str, Any], table: str = "web.out") -> list[dict[str, Any]]:
    """Return the rows that pyiceberg finds in a table."""
    with opened_catalog(system_of(options).settings) as catalog:
        rows: list[dict[str, Any]] = catalog.load_table(table).scan().to_arrow().to_pylist()
        return rows


def make(options: Mapping[str, Any], stream: StreamSpec) -> None:
    """Make the table of an output."""
    system_of(options).create([stream])


def publish(options: Mapping[str, Any], stream: StreamSpec, publication: Publication) -> None:
    """Publish an epoch."""
    system_of(options).publish(stream, publication)


class Processes:
    """Processes that wait for each other before each of their acts; they are forked from one that has imported this."""

    def __init__(self, number: int) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([__name__])
        self._number = number
        self._pool = ProcessPoolExecutor(number, context, _await_others_at, (context.Barrier(number),))

    def do(self, act: Callable[..., None], *arguments: Sequence[Any]) -> None:
        """Do an act in each process at the same moment, with arguments for each process."""
        assert len(arguments) == self._number
        for future in [self._pool.submit(_together, act, one) for one in arguments]:
            future.result(180)

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()


_barrier: list[Barrier] = []


def _await_others_at(barrier: Barrier) -> None:
    _barrier[:] = [barrier]


def _together(act: Callable[..., None], arguments: Sequence[Any]) -> None:
    _barrier[0].wait(120)
    act(*arguments)


def new_database(url: str) -> str:
    """Return the URL of a new database of a PostgreSQL."""
    from sqlalchemy import create_engine, text

    name = f"lake_{uuid.uuid4().hex}"
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return f"{url.rpartition('/')[0]}/{name}"


def _empty(options: Mapping[str, Any]) -> None:
    """Take all tables out of a catalog that the next test has, too."""
    with opened_catalog(system_of(options).settings) as catalog, suppress(Exception):
        for table in catalog.list_tables("web"):
            catalog.drop_table(table)
        catalog.drop_namespace("web")

"""Servers that several contracts share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from demo.databases import running_postgres
from tests.support.hive_metastore import HiveMetastore
from tests.support.iceberg_catalogs import new_database


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A PostgreSQL for all tests of this process; each makes a database of its own in it."""
    with running_postgres(tmp_path_factory.mktemp("postgres") / "server") as url:
        yield url


@pytest.fixture(scope="session")
def hive(postgres: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A metastore of Hive for all tests of this process: its address."""
    metastore = HiveMetastore(tmp_path_factory.mktemp("hive"), new_database(postgres))
    metastore.start()
    yield metastore.uri
    metastore.stop()

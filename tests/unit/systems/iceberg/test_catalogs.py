"""Catalogs: opened by many processes, closed again, and what goes wrong as one sentence without secrets."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from airflow_samza.errors import ConfigError, RuntimeMissing, SamzaError, StorageUnavailable, TopicError
from airflow_samza.systems.iceberg import catalogs
from airflow_samza.systems.iceberg.catalogs import opened_catalog
from airflow_samza.systems.iceberg.system import IcebergSystem
from airflow_samza.systems.system import SystemBinding
from tests.support.iceberg_catalog_server import CatalogServer
from tests.support.iceberg_lake import catalog_at, rows_of, stream, system_at, table_of

SECRET = "hunter2"


@pytest.fixture
def server(tmp_path: Path) -> Any:
    with CatalogServer(tmp_path, token=SECRET) as server:
        yield server


def at(server: CatalogServer, **options: str) -> IcebergSystem:
    return IcebergSystem("lake", SystemBinding("iceberg", {"uri": server.url, "token": SECRET, **options}))


@pytest.mark.nightly
def test_many_processes_make_a_catalog_at_the_same_time(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from tests.support.iceberg_lake import catalog_at\n"
        "sys.stdin.readline()\n"
        "with catalog_at(sys.argv[1]) as catalog: print(catalog.list_namespaces())\n"
    )
    words = [sys.executable, "-c", program, str(tmp_path / "lake")]
    makers = [
        subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(6)
    ]
    for maker in makers:
        assert maker.stdin is not None
        maker.stdin.write("go\n")
        maker.stdin.flush()
    for maker in makers:
        said, failed = maker.communicate(timeout=120)
        assert (said.strip(), maker.returncode) == ("[('web',)]", 0), failed


def test_a_table_that_another_process_is_making_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyiceberg.catalog.sql import SqlCatalog
    from sqlalchemy.exc import OperationalError

    tries = []
    create_tables = SqlCatalog.create_tables

    def slowly(self: SqlCatalog) -> None:
        tries.append(self)
        if len(tries) < 3:
            raise OperationalError("CREATE TABLE", None, Exception("table iceberg_tables already exists"))
        create_tables(self)

    monkeypatch.setattr(SqlCatalog, "create_tables", slowly)
    with opened_catalog(system_at(tmp_path).settings, create=True) as catalog:
        assert (catalog.list_namespaces(), len(tries)) == ([], 3)


def test_a_folder_without_a_catalog_is_not_made_into_one(tmp_path: Path) -> None:
    with pytest.raises(TopicError, match="has no Iceberg catalog: there is no file catalog"):
        system_at(tmp_path / "typo").slice(stream())
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_is_nearly_a_tables_is_asked_for(tmp_path: Path) -> None:
    import pyarrow as pa

    table_of(tmp_path, pa.schema([("id", pa.int64())]))
    for wanted, hint in (("web.view", "Did you mean 'web.views'?"), ("wob.views", "has the namespaces web.")):
        with pytest.raises(TopicError, match=f"The table {wanted} of stream 'views' does not exist") as error:
            system_at(tmp_path).slice(stream(wanted))
        assert hint in error.value.hint
        assert system_at(tmp_path).metadata([stream(wanted)]) == {}


def test_neither_the_environment_nor_a_file_of_the_user_is_merged_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYICEBERG_CATALOG__DEFAULT__WAREHOUSE", "s3://elsewhere")
    monkeypatch.setenv("PYICEBERG_CATALOG__DEFAULT__TOKEN", "surprise")
    with catalog_at(tmp_path) as catalog:
        assert dict(catalog.properties) == dict(system_at(tmp_path).settings.properties)


def test_without_pyiceberg_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "catalog.db").touch()
    monkeypatch.setitem(sys.modules, "pyiceberg.catalog", None)
    with pytest.raises(RuntimeMissing, match="needs pyiceberg, which is not installed here") as error:
        system_at(tmp_path).slice(stream())
    assert "airflow-samza[iceberg]" in error.value.hint


def test_without_thrift_the_extra_of_hive_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [one for one in sys.modules if one.startswith(("thrift", "hive_metastore", "fb303"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "thrift", None)
    with pytest.raises(RuntimeMissing, match="needs thrift, which is not installed here") as error:
        IcebergSystem("lake", SystemBinding("iceberg", {"uri": "thrift://127.0.0.1:9"})).slice(stream())
    assert "airflow-samza[hive]" in error.value.hint


@pytest.mark.parametrize(("silent", "words"), [(True, "read timeout"), (False, "Could not connect to any of")])
def test_a_hive_metastore_that_does_not_answer_is_given_up(
    silent: bool, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogs, "ANSWER_SECONDS", 0.05)
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        if silent:
            server.listen()
        system = IcebergSystem(
            "lake", SystemBinding("iceberg", {"uri": f"thrift://127.0.0.1:{server.getsockname()[1]}"})
        )
        with pytest.raises(StorageUnavailable, match=f"does not answer, or fails: .*{words}") as error:
            system.slice(stream())
    assert error.value.retryable


def test_a_table_of_a_rest_catalog_is_read(server: CatalogServer) -> None:
    server.table("web.views", [{"id": 1}, {"id": 2}])
    assert [row["id"] for row in rows_of(at(server), stream())] == [1, 2]
    with pytest.raises(TopicError, match=r"The table web\.nothing of stream 'views' does not exist"):
        at(server).slice(stream("web.nothing"))


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (401, TopicError, "rejects the credentials"),
        (403, TopicError, "rejects the credentials"),
        (500, StorageUnavailable, "does not answer, or fails: ServerError"),
        (503, StorageUnavailable, "does not answer, or fails: ServiceUnavailableError"),
    ],
)
def test_an_answer_of_a_catalog_that_is_an_error_is_one_of_ours(
    answer: int, kind: type[SamzaError], words: str, server: CatalogServer
) -> None:
    server.table("web.views", [{"id": 1}])
    server.answer = answer
    with pytest.raises(kind, match=words) as error:
        at(server).slice(stream())
    assert type(error.value) is kind
    assert server.url in error.value.sentence
    assert SECRET not in str(error.value)


def test_wrong_credentials_are_not_shown(server: CatalogServer) -> None:
    with pytest.raises(TopicError, match="rejects the credentials") as error:
        at(server, token="hunter3").slice(stream())
    assert "hunter" not in str(error.value)


def test_a_catalog_is_opened_by_a_way_to_sign_in_that_is_an_object(server: CatalogServer) -> None:
    server.table("web.views", [{"id": 1}])
    auth = {"type": "basic", "basic": {"username": "jo", "password": "hunter5"}}
    system = IcebergSystem("lake", SystemBinding("iceberg", {"uri": server.url, "auth": auth}))
    server.authorization = "Basic am86aHVudGVyNQ=="
    assert [row["id"] for row in rows_of(system, stream())] == [1]
    server.authorization = "Basic other"
    with pytest.raises(TopicError, match="rejects the credentials") as error:
        system.slice(stream())
    assert "hunter5" not in str(error.value)


def test_a_catalog_that_is_silent_is_given_up(server: CatalogServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogs, "ANSWER_SECONDS", 0.05)
    server.silent = True
    with pytest.raises(StorageUnavailable, match="does not answer, or fails: ReadTimeout"):
        at(server).slice(stream())


def test_a_catalog_that_is_away_may_be_there_in_a_minute() -> None:
    system = IcebergSystem("lake", SystemBinding("iceberg", {"uri": "http://127.0.0.1:9", "token": SECRET}))
    with pytest.raises(StorageUnavailable, match="does not answer, or fails: ConnectionError") as error:
        system.slice(stream())
    assert error.value.retryable
    assert SECRET not in str(error.value)


def test_a_database_that_is_away_shows_no_password() -> None:
    uri = f"postgresql+psycopg2://jo:{SECRET}@127.0.0.1:9/catalog"
    with pytest.raises(StorageUnavailable, match="does not answer, or fails: OperationalError") as error:
        IcebergSystem("lake", SystemBinding("iceberg", {"uri": uri})).slice(stream())
    assert SECRET not in str(error.value)


def test_metadata_that_is_gone_is_named(tmp_path: Path) -> None:
    import pyarrow as pa

    table = table_of(tmp_path, pa.schema([("id", pa.int64())]))
    Path(table.metadata_location.removeprefix("file://")).unlink()
    with pytest.raises(TopicError, match="names a file that does not exist"):
        system_at(tmp_path).slice(stream())


def test_a_wrong_property_is_an_error_of_the_binding(tmp_path: Path) -> None:
    (tmp_path / "catalog.db").touch()
    with pytest.raises(ConfigError, match="cannot be opened: Invalid schema_version"):
        system_at(tmp_path, schema_version="v9").slice(stream())

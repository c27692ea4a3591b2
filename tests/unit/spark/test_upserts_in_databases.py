"""The statements of upserts, in databases that can be asked without Java: SQLite, DuckDB and PostgreSQL."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import psycopg2  # type: ignore[import-untyped]
import pytest

from airflow_samza.errors import TopicError
from airflow_samza.spark.databases.upserts import _Database, _Target
from demo.databases import running_postgres


class Rejected(Exception):
    """The error of Java for a statement that a database rejects."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))


class Answer:
    """The result of a query, as Java has it."""

    def __init__(self, row: Any) -> None:
        self.row = row

    def next(self) -> bool:
        return self.row is not None

    def getLong(self, place: int) -> int:
        return int(self.row[place - 1])


class Connection:
    """A connection as Java has it, over one of Python."""

    def __init__(self, place: Any, before: Callable[[str], object] = lambda statement: None) -> None:
        self.place = place
        self.before = before
        self.is_open = False

    def setAutoCommit(self, on: bool) -> None:
        if not on:
            self.place.execute("BEGIN")
        self.is_open = not on

    def commit(self) -> None:
        self.place.execute("COMMIT")

    def rollback(self) -> None:
        self.place.execute("ROLLBACK")

    def createStatement(self) -> Connection:
        return self

    def close(self) -> None:
        pass

    def executeUpdate(self, statement: str) -> int:
        self.before(statement)
        found = self._executed(statement)
        if not isinstance(self.place, duckdb.DuckDBPyConnection):
            return int(found.rowcount)
        row = found.fetchone() if statement.startswith(("UPDATE", "DELETE", "INSERT")) else None
        return int(row[0]) if row else 0

    def executeQuery(self, query: str) -> Answer:
        return Answer(self._executed(query).fetchone())

    def _executed(self, statement: str) -> Any:
        try:
            return self.place.execute(statement)
        except (sqlite3.Error, duckdb.Error, psycopg2.Error) as error:
            raise Rejected(error) from error


class Postgres:
    """A connection to PostgreSQL with the methods of the others."""

    def __init__(self, url: str) -> None:
        self.opened = psycopg2.connect(url)
        self.opened.autocommit = True
        self.close = self.opened.close

    def execute(self, statement: str, values: Any = None) -> Any:
        cursor = self.opened.cursor()
        cursor.execute(statement.replace("?", "%s"), values)
        return cursor


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_postgres(tmp_path_factory.mktemp("postgres") / "database") as url:
        yield url.replace("postgresql+psycopg2://", "postgresql://")


@pytest.fixture(params=["sqlite", "duckdb", pytest.param("postgres", marks=pytest.mark.extended)])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "sqlite":
        place: Any = sqlite3.connect(tmp_path / "db", isolation_level=None)
    elif request.param == "duckdb":
        place = duckdb.connect(str(tmp_path / "db"))
    else:
        place = Postgres(request.getfixturevalue("postgres"))
        for table in ("members", "samza_epochs"):
            place.execute(f"DROP TABLE IF EXISTS {table}")
    place.execute('CREATE TABLE members ("Id" BIGINT, "tier" VARCHAR(20))')
    place.execute("INSERT INTO members VALUES (0, 'old'), (1, 'old')")
    yield place
    place.close()


TARGET = _Target("out", "members", "members", "samza_k", "samza_r", "samza_epochs", ('"Id"',), ('"Id"', '"tier"'))


def epoch(connection: Connection, number: int, rows: dict[int | None, str | None], writer: str = "w") -> None:
    """Do what an upsert does, with Spark's part by hand."""
    database = _Database(connection, writer, TARGET)
    database.prepare()
    try:
        database.make_staging()
        for key, tier in rows.items():
            connection.place.execute("INSERT INTO samza_k VALUES (?)", (key,))
            if tier is not None:
                connection.place.execute("INSERT INTO samza_r VALUES (?, ?)", (key, tier))
        database.merge(number)
    finally:
        database.drop_staging()


def members(place: Any) -> list[tuple[int, str]]:
    return sorted(place.execute("SELECT * FROM members").fetchall())


def test_rows_are_replaced_and_deleted_once_for_an_epoch(opened: Any) -> None:
    connection = Connection(opened)
    epoch(connection, 5, {1: "new", 2: "two"})
    epoch(connection, 6, {2: None, 9: None})
    assert members(opened) == [(0, "old"), (1, "new")]
    epoch(connection, 6, {0: None})
    epoch(connection, 5, {0: None})
    assert members(opened) == [(0, "old"), (1, "new")]
    assert _Database(connection, "w", TARGET).epoch() == 6


def test_outputs_are_counted_apart(opened: Any) -> None:
    epoch(Connection(opened), 7, {1: "a"})
    epoch(Connection(opened), 3, {1: "b"}, writer="other")
    assert members(opened) == [(0, "old"), (1, "b")]


def test_a_transaction_that_fails_changes_nothing(opened: Any) -> None:
    def fail(statement: str) -> None:
        if statement.startswith("INSERT INTO members"):
            raise OSError("the connection is gone")

    with pytest.raises(OSError, match="gone"):
        epoch(Connection(opened, fail), 1, {1: "new"})
    assert members(opened) == [(0, "old"), (1, "old")]
    epoch(Connection(opened), 1, {1: "new"})
    assert members(opened) == [(0, "old"), (1, "new")]
    with pytest.raises(Rejected):
        Connection(opened).executeQuery("SELECT * FROM samza_k")


def test_a_message_without_its_key_fails_the_transaction(opened: Any) -> None:
    with pytest.raises(TopicError, match="has a null in its key"):
        epoch(Connection(opened), 1, {1: "new", None: "x"})
    assert members(opened) == [(0, "old"), (1, "old")]
    assert _Database(Connection(opened), "w", TARGET).epoch() == -1

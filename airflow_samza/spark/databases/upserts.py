"""Upserts into the table of a database by JDBC: an epoch is one transaction, with its number in a table beside.

Spark writes the keys of the epoch, and its rows, into two tables of their own. A connection of the driver's Java then
deletes the rows of these keys, inserts the new ones, and counts the epoch up, in one transaction: all statements that
every database has. Who finds the epoch counted already changes nothing; the row that is counted up is locked, so a
second process waits for the first one. The writer of Spark's outputs hands epochs to it.
"""

from __future__ import annotations

import hashlib
import logging
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_samza.application.descriptors import ROW_DELETED
from airflow_samza.errors import SchemaError, TopicError
from airflow_samza.prepare.spark_streams import upserted_over_connect
from airflow_samza.spark.hidden_options import is_remote
from airflow_samza.systems.spark.system import Staged
from airflow_samza.systems.spark.tables import SparkTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger("airflow_samza.runner")

EPOCHS = "samza_epochs"
"""The table that has the last epoch of each output."""

_ORDER = "_samza_order"


def upsert(frame: DataFrame, table: SparkTable, staged: Staged) -> None:
    """Replace the rows of the keys of an epoch, and delete those that are gone; doing it again changes nothing."""
    spark = frame.sparkSession
    if is_remote(spark):
        raise upserted_over_connect(table.stream, table.place)
    target = _Target.of(spark, frame, table)
    with _connected(spark, table) as connection:
        database = _Database(connection, hashlib.sha256(staged.transaction[0].encode()).hexdigest(), target)
        database.prepare()
        if database.epoch() >= staged.transaction[1]:
            log.info("%s has this epoch already: nothing is written again", table.place)
            return
        try:
            database.make_staging()
            changes = _last_of_each_key(frame, table.key)
            _append(changes.select(*map(_column, table.key)), table, target.keys)
            rows = changes
            if ROW_DELETED in frame.columns:
                rows = changes.where(f"NOT coalesce({ROW_DELETED}, false)").drop(ROW_DELETED)
            _append(rows, table, target.rows)
            database.merge(staged.transaction[1])
        finally:
            database.drop_staging()


@dataclass(frozen=True)
class _Target:
    """The names of tables and columns as SQL has them. ``key`` and ``columns`` are those of the table."""

    stream: str
    shown: str
    name: str
    keys: str
    rows: str
    epochs: str
    key: tuple[str, ...]
    columns: tuple[str, ...]

    @classmethod
    def of(cls, spark: SparkSession, frame: DataFrame, table: SparkTable) -> _Target:
        """Return those of a table, which is made if it is missing."""
        name = table.table or table.stream
        columns = [column for column in frame.columns if column != ROW_DELETED]
        _append(frame.limit(0).select(*map(_column, columns)), table, name)
        found = spark.read.format("jdbc").options(**table.options).option("dbtable", name).load().columns
        theirs = {column.lower(): column for column in found}
        lacking = next((column for column in (*columns, *table.key) if column.lower() not in theirs), None)
        if lacking is not None:
            raise SchemaError(
                f"The output {table.stream!r} has the column {lacking!r}, and {table.place} has {', '.join(found)}.",
                hint="Add the column to the table, or leave it out with select.",
                stream=table.stream,
                column=lacking,
            )
        dialect = spark._jvm.org.apache.spark.sql.jdbc.JdbcDialects.get(table.options.get("url", ""))  # type: ignore[union-attr]

        def quoted(names: Sequence[str]) -> tuple[str, ...]:
            return tuple(str(dialect.quoteIdentifier(theirs[one.lower()])) for one in names)

        schema, dot, _ = name.rpartition(".")
        beside = f"{schema}{dot}samza_{uuid.uuid4().hex[:16]}"
        return cls(
            table.stream,
            table.place,
            name,
            f"{beside}_k",
            f"{beside}_r",
            f"{schema}{dot}{EPOCHS}",
            quoted(table.key),
            quoted(columns),
        )


class _Database:
    """A connection to a database, in which the epochs of one output are counted."""

    def __init__(self, connection: Any, writer: str, target: _Target) -> None:
        self._connection = connection
        self._writer = writer
        self._target = target

    def prepare(self) -> None:
        """Make the table of epochs, and a row of the output in it, where they are missing."""
        epochs = self._target.epochs
        try:
            self._number(f"SELECT COUNT(*) FROM {epochs} WHERE 1 = 0")
        except Exception:  # Java has an error of its own for each database
            with suppress(Exception):  # another process is quicker, or nobody may; the next statement tells
                self._run(f"CREATE TABLE {epochs} (writer VARCHAR(64) NOT NULL PRIMARY KEY, epoch BIGINT NOT NULL)")
        if self.epoch() < 0 and not self._number(f"SELECT COUNT(*) FROM {epochs} WHERE {self._mine}"):
            with suppress(Exception):
                self._run(f"INSERT INTO {epochs} VALUES ('{self._writer}', -1)")

    def epoch(self) -> int:
        """Return the last epoch that the database has; -1: none."""
        return self._number(f"SELECT COALESCE(MAX(epoch), -1) FROM {self._target.epochs} WHERE {self._mine}")

    @property
    def _mine(self) -> str:
        return f"writer = '{self._writer}'"

    def make_staging(self) -> None:
        """Make the tables of keys and rows, with the types of the table itself."""
        for name, columns in ((self._target.keys, self._target.key), (self._target.rows, self._target.columns)):
            query = f"CREATE TABLE {name} AS SELECT {', '.join(columns)} FROM {self._target.name}"
            try:
                self._run(f"{query} WHERE 1 = 0")
            except Exception:  # Derby wants it said otherwise
                self._run(f"{query} WITH NO DATA")

    def merge(self, epoch: int) -> None:
        """Replace the rows of the keys and count the epoch up, in one transaction; do nothing if it is counted."""
        target = self._target
        same = " AND ".join(f"{target.keys}.{column} = {target.name}.{column}" for column in target.key)
        nulls = " OR ".join(f"{column} IS NULL" for column in target.key)
        names = ", ".join(target.columns)
        self._connection.setAutoCommit(False)
        try:
            counted = self._run(f"UPDATE {target.epochs} SET epoch = {epoch} WHERE {self._mine} AND epoch < {epoch}")
            if counted:
                if self._number(f"SELECT COUNT(*) FROM {target.keys} WHERE {nulls}"):
                    raise TopicError(
                        f"A message of the output {target.stream!r} has a null in its key, so that nobody knows which "
                        f"row of {target.shown} it is.",
                        hint="Leave such messages out with where, and clear the stage.",
                        stream=target.stream,
                    )
                self._run(f"DELETE FROM {target.name} WHERE EXISTS (SELECT 1 FROM {target.keys} WHERE {same})")
                self._run(f"INSERT INTO {target.name} ({names}) SELECT {names} FROM {target.rows}")
            self._connection.commit()
        except BaseException:
            with suppress(Exception):
                self._connection.rollback()
            raise
        finally:
            with suppress(Exception):
                self._connection.setAutoCommit(True)

    def drop_staging(self) -> None:
        """Drop the tables of keys and rows; what stays is named samza_… and in nobody's way."""
        for name in (self._target.keys, self._target.rows):
            with suppress(Exception):
                self._run(f"DROP TABLE {name}")

    def _run(self, statement: str) -> int:
        with closing(self._connection.createStatement()) as made:
            return int(made.executeUpdate(statement))

    def _number(self, query: str) -> int:
        with closing(self._connection.createStatement()) as made:
            found = made.executeQuery(query)
            found.next()
            return int(found.getLong(1))


@contextmanager
def _connected(spark: SparkSession, table: SparkTable) -> Iterator[Any]:
    """Yield a connection of Java, opened as Spark opens its own: with its drivers, dialects and providers."""
    jvm: Any = spark._jvm
    options = jvm.java.util.HashMap()
    for name, value in {**table.options, "dbtable": table.table or table.stream}.items():
        options.put(name, value)
    parsed = jvm.org.apache.spark.sql.execution.datasources.jdbc.JDBCOptions(jvm.PythonUtils.toScalaMap(options))
    dialect = jvm.org.apache.spark.sql.jdbc.JdbcDialects.get(parsed.url())
    connection = dialect.createConnectionFactory(parsed).apply(-1)
    try:
        connection.setAutoCommit(True)
        yield connection
    finally:
        with suppress(Exception):
            connection.close()


def _last_of_each_key(frame: DataFrame, key: Sequence[str]) -> DataFrame:
    """Return the last change of each key: rows of a key come from one partition of the topic, in its order."""
    from pyspark.sql import functions as f

    numbered = frame.withColumn(_ORDER, f.monotonically_increasing_id())
    last = f.max_by(f.struct(*map(_column, frame.columns)), f.col(_ORDER)).alias("change")
    return numbered.groupBy(*map(_column, key)).agg(last).select("change.*")


def _append(frame: DataFrame, table: SparkTable, name: str) -> None:
    frame.write.format("jdbc").options(**table.options).option("dbtable", name).mode("append").save()


def _column(name: str) -> Any:
    from pyspark.sql import functions as f

    return f.col("`" + name.replace("`", "``") + "`")

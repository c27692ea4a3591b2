"""No secret is in a plan that a Spark Connect server executes.

A server logs plans of executions that a session leaves behind.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from airflow_samza.errors import ConfigError, PushError, SamzaError, SchemaError
from airflow_samza.launch.masters import parse_master
from airflow_samza.runs.tables.push_request import PushRequest
from airflow_samza.spark.dataframe_inputs import read_table
from airflow_samza.spark.hidden_options import read_hidden, reject_secrets
from airflow_samza.spark.push_job import read_source
from airflow_samza.spark.sessions.connect_session import ConnectSession
from airflow_samza.spark.table_writer import _write
from airflow_samza.systems.spark.system import Staged
from airflow_samza.systems.spark.tables import SparkTable
from airflow_samza.systems.system import SystemBinding
from tests.e2e.bad_input import rows_connect
from tests.e2e.bad_input.rows_connect import compare_with_page
from tests.spark.clusters.sessions import told
from tests.spark.connect.connect_server import ConnectServer, connect_server
from tests.support.files_with import files_with

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.extended, pytest.mark.spark, pytest.mark.timeout(900)]

PASSWORD = "an 'odd' ${password}, \\ and url"
URL = "jdbc:derby:memory:members;create=true"
QUERY = """SELECT CAST(7 AS BIGINT) AS "member_id", 'gold' AS "tier" FROM SYSIBM.SYSDUMMY1"""
LOGIN = {"user": "reader", "password": PASSWORD}


class Server:
    """A server, and what it leaves where people read."""

    def __init__(self, server: ConnectServer, folder: Path) -> None:
        self.folder = folder
        self._server = server
        package = folder / "package.zip"
        self.driver = ConnectSession(parse_master(server.url), [_package(package)])

    def left_behind(self, *frames: DataFrame) -> None:
        """Takes a row of each, and leaves the session with the executions in it.

        The server logs them, with their plans.
        """
        (session,) = {frame.sparkSession for frame in frames}
        lines = self._log().count(" removed in removeSessionExecutions")
        rows = [frame.crossJoin(session.range(1_000_000)).toLocalIterator() for frame in frames]
        for row in rows:
            next(row)
        session.stop()
        deadline = time.monotonic() + 120
        while self._log().count(" removed in removeSessionExecutions") < lines + len(frames):
            assert time.monotonic() < deadline, "the server logged no execution"
            time.sleep(0.05)

    def shows(self, words: str) -> list[Path]:
        """The files of the server, its log and its events, that hold the words."""
        return [path for path in files_with(self.folder, words) if path.name != "package.zip"]

    def _log(self) -> str:
        return self._server.daemon.log.read_text()


def _package(path: Path) -> str:
    from airflow_samza.launch.code_shipping import packed_package

    path.write_bytes(packed_package())
    return str(path)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    with connect_server(folder, told(folder)) as running, pytest.MonkeyPatch.context() as patch:
        patch.setenv(
            "SPARK_CONNECT_MODE_ENABLED", "1"
        )  # a session sets it for its process, which is a runner's elsewhere
        made = Server(running, folder)
        yield made
        made.driver.stop()


@pytest.fixture
def spark(server: Server) -> Iterator[SparkSession]:
    # Not by stage_session(own=True): what is left behind here ends the session itself.
    made = server.driver._start({})
    yield made
    server.driver._open.remove(made)
    made.stop()


def request(source: Mapping[str, Any]) -> PushRequest:
    return PushRequest("app", "apps:app", "tiers", "first", "log", "tiers-push", 2, ("member_id",), source)


def encoded(secret: str) -> str:
    return "".join(letter if letter.isalnum() else f"\\u{ord(letter):04x}" for letter in secret)


def assert_hidden(server: Server, secret: str = PASSWORD) -> None:
    """Neither the secret, nor a form of it that a person could read, stands in the log, in an event, or in any file."""
    for form in (secret, encoded(secret), encoded(encoded(secret)), secret.replace("\\", "\\\\").replace("'", "\\'")):
        assert server.shows(form) == []


@pytest.mark.nightly
def test_the_log_shows_the_options_of_an_execution_that_is_left_behind(server: Server, spark: SparkSession) -> None:
    """The line that all tests here are about is there: else they would prove nothing."""
    frame = spark.read.format("jdbc").options(url=URL, query=QUERY, fetchsize="4711").load()
    server.left_behind(frame)
    assert server.shows('value: "4711"')


def test_the_password_of_a_push_is_in_no_plan(server: Server, spark: SparkSession) -> None:
    frame = read_source(spark, request({"jdbc": {"url": URL, "query": QUERY}}), LOGIN)
    assert [row.asDict() for row in frame.collect()] == [{"member_id": 7, "tier": "gold"}]
    server.left_behind(frame)
    assert_hidden(server)


def test_a_statement_that_names_settings_is_in_no_event(server: Server, spark: SparkSession) -> None:
    read_source(spark, request({"jdbc": {"url": URL, "query": QUERY}}), LOGIN).collect()
    assert server.shows("CREATE TEMPORARY VIEW airflow_samza_")
    assert server.shows("${airflow_samza.") == []


def test_the_password_of_an_input_is_in_no_plan(server: Server, spark: SparkSession) -> None:
    table = SparkTable("members", "db", format="jdbc", query=QUERY, options={"url": URL, **LOGIN})
    frame = read_table(spark, table)
    assert frame.count() == 1
    server.left_behind(frame)
    assert_hidden(server)


@pytest.mark.parametrize(
    "wrong",
    [
        {"url": "jdbc:derby:memory:nowhere"},
        {"query": "SELECT nothing FROM nowhere"},
        {"numPartitions": "many"},
        {"driver": "no.Driver"},
    ],
)
def test_a_rejection_shows_no_password(server: Server, spark: SparkSession, wrong: dict[str, str]) -> None:
    with pytest.raises((SamzaError, PySparkException)) as caught:
        read_source(spark, request({"jdbc": {"url": URL, "query": QUERY, **wrong}}), LOGIN).collect()
    assert PASSWORD not in str(caught.value)
    assert encoded(PASSWORD) not in str(caught.value)
    assert_hidden(server)


def test_a_settings_alphabet_is_gone_when_the_view_is_there(spark: SparkSession) -> None:
    before = set(spark.conf.getAll)
    read_hidden(spark, "jdbc", {"url": URL, "query": QUERY, **LOGIN})
    assert set(spark.conf.getAll) - before <= {"spark.sql.redaction.options.regex"}


def test_a_function_of_the_user_that_reads_with_a_password_is_rejected(spark: SparkSession) -> None:
    frame = spark.read.format("jdbc").options(url=URL, query=QUERY, **LOGIN).load().filter("tier = 'gold'")
    with pytest.raises(ConfigError) as caught:
        reject_secrets(spark, frame, "members, the function of from_dataframe 'members' (apps/shop.py:9)")
    compare_with_page(rows_connect.READS_WITH_PASSWORD, str(caught.value))
    hidden = read_hidden(spark, "jdbc", {"url": URL, "query": QUERY, **LOGIN}).filter("tier = 'gold'")
    reject_secrets(spark, hidden, "The function")
    assert hidden.count() == 1


def staged() -> Staged:
    return Staged("topic", {}, "member_id bigint, tier string", 1, ("writer", 1))


def test_a_table_of_a_database_is_written_and_the_password_is_in_no_plan(server: Server, spark: SparkSession) -> None:
    url = "jdbc:derby:memory:written;create=true"
    # A table comes about in a session of the test's own, with no password: this database asks for none.
    spark.createDataFrame([(1, "tin")], "member_id bigint, tier string").write.jdbc(
        url, "tiers", "overwrite", {"user": "reader"}
    )
    table = SparkTable("tiers", "db", format="jdbc", table="tiers", options={"url": url, **LOGIN})
    _write(spark.createDataFrame([("gold", 7)], "tier string, member_id bigint"), table, staged())
    rows = read_table(spark, table)
    assert sorted((row["member_id"], row["tier"]) for row in rows.collect()) == [(1, "tin"), (7, "gold")]
    _write(
        spark.createDataFrame([(8, "iron")], "member_id bigint, tier string"),
        dataclasses.replace(table, mode="overwrite"),
        staged(),
    )
    assert [(row["member_id"], row["tier"]) for row in read_table(spark, table).collect()] == [(8, "iron")]
    with pytest.raises(SchemaError) as caught:
        _write(spark.createDataFrame([(9,)], "member_id bigint"), table, staged())
    compare_with_page(rows_connect.OTHER_COLUMNS, str(caught.value))
    server.left_behind(rows)
    assert_hidden(server)


def test_a_writer_whose_secret_only_a_plan_could_carry_is_rejected(spark: SparkSession) -> None:
    for table in (
        SparkTable("out", "hive", table="t", options={"sfPassword": PASSWORD}),
        SparkTable("out", "lake", format="parquet", path="/data/out", options={"api_key": PASSWORD}),
    ):
        with pytest.raises(ConfigError) as caught:
            _write(spark.range(1).toDF("member_id"), table, staged())
    compare_with_page(rows_connect.WRITES_WITH_SECRET, str(caught.value))


def test_several_paths_with_a_secret_are_rejected(spark: SparkSession) -> None:
    with pytest.raises(PushError) as caught:
        read_source(spark, request({"path": ["/a", "/b"]}), {"token": PASSWORD})
    compare_with_page(rows_connect.SEVERAL_PATHS, str(caught.value))


def tells(bindings: Mapping[str, Any]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """A function for workers, which have no tests: it says how long the token is that it sees."""

    def told(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        from airflow_samza.spark.sealed_bindings import unsealed_bindings

        for batch in batches:
            length = len(str(unsealed_bindings(bindings)["lake"]["options"].get("token", "")))
            yield pa.RecordBatch.from_pydict({"length": pa.array([length] * batch.num_rows, pa.int32())})

    return told


def test_secrets_of_systems_reach_workers_and_are_in_no_plan(server: Server, spark: SparkSession) -> None:
    token = "a-token-that-only-workers-see"
    lake = {"lake": SystemBinding("log", {"root": "/data", "token": token}, frozenset({"token"}))}
    known = server.driver.for_workers(spark, lake)
    assert server.driver.for_workers(spark, lake) is known
    frame = spark.range(0, 10, 1, 2).mapInArrow(tells(known), "length int")
    assert {row["length"] for row in frame.collect()} == {len(token)}
    server.left_behind(frame)
    assert_hidden(server, token)


def test_a_secret_that_nobody_marked_is_sealed_by_its_name(server: Server, spark: SparkSession) -> None:
    known = server.driver.for_workers(spark, {"lake": SystemBinding("log", {"root": "/data", "api_key": PASSWORD})})
    assert PASSWORD not in str(known)
    assert known["lake"] == {"kind": "log", "options": {"root": "/data"}, "secret": ["api_key"]}

"""Peculiarities of Spark Connect.

A server that others started, with settings of its own, that goes away and comes back.
"""

from __future__ import annotations

import json
import os
import pickle
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_samza.application.loader import load_application
from airflow_samza.errors import ConfigError, InvalidApplication, SamzaError, StageFailed, StageLost, UnsupportedShape
from airflow_samza.launch.code_shipping import packed_package
from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.runs.stages.stage_state import FAILED
from airflow_samza.spark.catalyst import reject_wide
from airflow_samza.spark.datasource import register
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import SystemBinding
from tests.e2e.bad_input import rows_connect
from tests.e2e.bad_input.rows_connect import compare_with_page
from tests.spark.clusters.sessions import Place, Session
from tests.spark.conftest import APPS
from tests.spark.connect.connect_server import ConnectServer, connect_server, start_server
from tests.spark.connect.tls_proxy import HOST, tls_proxy
from tests.support.files_with import files_with
from tests.support.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# A server is up in seconds, and in a minute where eight people share two cores.
pytestmark = [pytest.mark.extended, pytest.mark.spark, pytest.mark.timeout(900)]

APPLICATION = "samza_spark_apps.connected:connected"
TOKEN = "a-token-that-no-file-shows"

# What another team may have made the defaults of its server; stages must not care.
FOREIGN = {
    "spark.connect.authenticate.token": TOKEN,
    "spark.sql.session.timeZone": "Asia/Tokyo",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.adaptive.enabled": "true",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    with connect_server(tmp_path_factory.mktemp("server"), FOREIGN) as running:
        yield running


@contextmanager
def session_over(server: ConnectServer, folder: Path, *, idle_seconds: float = 600, url: str = "") -> Iterator[Session]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    for name in ("data/marks", "files"):
        (folder / name).mkdir(parents=True)
    for number in range(2):
        pq.write_table(
            pa.Table.from_pylist([{"number": number, "folder": str(folder / "files")}]),
            folder / "data" / "marks" / f"{number}.parquet",
        )
    place = Place(url or f"{server.url}/;token={TOKEN}")
    lake = SystemBinding("files", {"root": str(folder / "data")})
    runtime = SparkRuntime(str(folder / "root"), {"lake": lake}, master=place.master, idle_seconds=idle_seconds)
    session = Session("connect", folder, place, runtime, runtime.prepare(RunRequest(APPLICATION, "run 1")))
    try:
        yield session
    finally:
        runtime.close(session.run, wait_seconds=60)
        for process in session.runners():
            process.kill()


@pytest.fixture(scope="module")
def shared(server: ConnectServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with session_over(server, tmp_path_factory.mktemp("connect")) as session:
        yield session


@pytest.fixture
def session(shared: Session) -> Session:
    shared.forget()
    return shared


@pytest.fixture
def spark(server: ConnectServer) -> Iterator[SparkSession]:
    """A client's session in this process, which stays able to have a classic one."""
    from pyspark.sql.connect.session import SparkSession as RemoteSession

    made: Any = RemoteSession.builder.remote(f"{server.url}/;token={TOKEN}").create()
    made.conf.set("spark.sql.adaptive.enabled", "false")
    yield made
    made.stop()


@pytest.mark.nightly
def test_stages_do_not_depend_on_the_servers_own_defaults(session: Session) -> None:
    session.runtime.run_stage(session.run, "zoned")
    assert session.rows("zoned") == [{"number": 0, "zone": "UTC"}, {"number": 1, "zone": "UTC"}]
    with pytest.raises(StageFailed, match="CAST_INVALID_INPUT"):  # without ANSI it would be null
        session.runtime.run_stage(session.run, "cast")


def test_the_token_is_in_no_file(session: Session) -> None:
    session.runtime.run_stage(session.run, "zoned")
    assert files_with(session.folder / "root", "")
    assert files_with(session.folder / "root", TOKEN) == []


@pytest.mark.nightly
def test_several_sections_in_catalyst_make_one_stage(session: Session) -> None:
    result = session.runtime.run_stage(session.run, "sections")
    assert session.rows("sections") == [{"number": 0, "word": "c"}, {"number": 1, "word": "c"}]
    assert result.inputs[0].messages == 2


@pytest.mark.nightly
def test_names_that_a_transform_registers_are_its_own(session: Session) -> None:
    session.runtime.run_stage(session.run, "viewed")
    session.runtime.run_stage(session.run, "viewed-too")
    assert (
        session.rows("viewed")
        == session.rows("viewed-too")
        == [{"number": 10, "sees": "own"}, {"number": 11, "sees": "own"}]
    )


@pytest.mark.nightly
def test_a_cache_is_rejected_and_spoils_nothing_for_others(session: Session) -> None:
    for generation in (1, 2):  # what the first registered with the server must not change what the second is told
        with pytest.raises(InvalidApplication, match=r"transform 'in-a-cache'.* reads its DataFrame from a cache"):
            session.runtime.run_stage(session.run, "cached", generation=generation)
    session.runtime.run_stage(session.run, "zoned", generation=2)  # Catalyst is given the same columns here
    assert len(session.rows("zoned")) == 2


@pytest.mark.nightly
def test_a_setting_of_the_server_is_rejected_before_anything_starts(session: Session) -> None:
    with pytest.raises(ConfigError, match=r"spark\.executor\.memory is fixed when a Spark Connect server starts"):
        session.runtime.submit(session.run, "held", generation=9, spark_conf={"spark.executor.memory": "2g"})
    with pytest.raises(ConfigError) as caught:
        session.runtime.run_stage(
            session.run, "zoned", generation=9, spark_conf={"spark.sql.sources.disabledJdbcConnProviderList": "derby"}
        )
    compare_with_page(rows_connect.STATIC_SQL, str(caught.value))
    session.runtime.run_stage(session.run, "zoned", generation=10, spark_conf={"spark.sql.shuffle.partitions": "7"})


@pytest.mark.nightly
def test_two_submitters_at_once_make_one_job(server: ConnectServer, tmp_path: Path) -> None:
    program = (
        "import pickle, sys; runtime, run = pickle.load(sys.stdin.buffer); runtime.wait(runtime.submit(run, 'held'))"
    )
    path = os.pathsep.join([str(APPS), os.getcwd()])
    with session_over(server, tmp_path) as session:
        submitters = [
            subprocess.Popen(
                [sys.executable, "-c", program], stdin=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path}
            )
            for _ in range(2)
        ]
        for submitter in submitters:
            assert submitter.stdin is not None
            pickle.dump((session.runtime, session.run), submitter.stdin)
        for submitter in submitters:
            assert submitter.stdin is not None
            submitter.stdin.close()  # only now both have all that they wait for
        until(session.holders)
        session.go.touch()
        assert [submitter.wait() for submitter in submitters] == [0, 0]
        assert len(session.holders()) == 1
        assert [row["number"] for row in session.rows("held")] == [0, 1]
        assert len(session.runtime.live_runners(session.run)) == 1


@pytest.mark.nightly
def test_an_idle_runner_ends(server: ConnectServer, tmp_path: Path) -> None:
    with session_over(server, tmp_path, idle_seconds=0.2) as session:
        session.runtime.run_stage(session.run, "zoned")
        (runner,) = list((tmp_path / "root").rglob("claim.json"))
        until(lambda: not session.runtime.live_runners(session.run))
        assert json.loads(runner.with_name("closed.json").read_bytes())["why"] == "idle"


def test_a_server_behind_tls_is_reached_with_its_token(
    server: ConnectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tls_proxy(tmp_path, server.port) as proxy:
        monkeypatch.setenv("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", str(proxy.certificate))
        url = f"sc://{HOST}:{proxy.port}/;use_ssl=true;token={TOKEN}"
        with session_over(server, tmp_path, url=url) as session:
            session.runtime.run_stage(session.run, "zoned")
            assert len(session.rows("zoned")) == 2


def rejected(url: str, tmp_path: Path) -> SamzaError:
    lake = SystemBinding("files", {"root": str(tmp_path)})
    runtime = SparkRuntime(str(tmp_path / "root"), {"lake": lake}, master=url)
    (tmp_path / "marks").mkdir()
    run = runtime.prepare(RunRequest(APPLICATION, "run 1"))
    with pytest.raises(SamzaError) as caught:
        runtime.run_stage(run, "zoned")
    runtime.close(run, wait_seconds=60)
    return caught.value


def test_a_server_that_is_not_there_is_said_in_one_sentence(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        error = rejected(f"sc://localhost:{free.getsockname()[1]}/;token={TOKEN}", tmp_path)
    assert isinstance(error, StageFailed)
    assert "Connection refused" in error.sentence
    assert TOKEN not in str(error)


@pytest.mark.nightly
def test_another_service_at_the_port_is_said_in_one_sentence(tmp_path: Path) -> None:
    def answer(listener: socket.socket) -> None:
        while True:
            try:
                with listener.accept()[0] as connection:
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            except OSError:
                return

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=answer, args=(listener,), daemon=True).start()
        error = rejected(f"sc://127.0.0.1:{listener.getsockname()[1]}", tmp_path)
    assert isinstance(error, StageFailed)
    assert "does not answer as one" in error.sentence


def test_a_certificate_that_is_not_trusted_is_named_with_what_makes_it_trusted(
    server: ConnectServer, tmp_path: Path
) -> None:
    with tls_proxy(tmp_path, server.port) as proxy:
        error = rejected(f"sc://{HOST}:{proxy.port}/;use_ssl=true;token={TOKEN}", tmp_path)
    assert isinstance(error, StageFailed)
    assert "CERTIFICATE_VERIFY_FAILED" in error.sentence
    assert "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH" in error.hint


def test_a_wrong_token_is_rejected(server: ConnectServer, tmp_path: Path) -> None:
    error = rejected(f"{server.url}/;token=another", tmp_path)
    assert isinstance(error, ConfigError)
    assert "another" not in str(error)
    compare_with_page(rows_connect.WRONG_TOKEN, str(error))


NARROW: dict[str, Callable[[DataFrame], DataFrame]] = {
    "a projection": lambda frame: frame.selectExpr("upper(country) AS country"),
    "rows made of one": lambda frame: frame.selectExpr("explode(array(1, 2)) AS n"),
    "a sort within": lambda frame: frame.sortWithinPartitions("country"),
    "a broadcast join": lambda frame: frame.join(
        frame.sparkSession.range(9).withColumnRenamed("id", "n").hint("broadcast"), "n"
    ),
    "a subquery of another table": lambda frame: frame.where("n < (SELECT max(id) FROM range(9))"),
    "a function over batches": lambda frame: frame.mapInArrow(lambda batches: batches, "country string, n int"),
}

WIDE: dict[str, tuple[Callable[[DataFrame], DataFrame], str]] = {
    "an aggregation": (
        lambda frame: frame.groupBy("country").count(),
        "moves rows between partitions .*hashpartitioning.country",
    ),
    "a sort": (lambda frame: frame.orderBy("country"), "moves rows between partitions .*rangepartitioning.country"),
    "a limit": (lambda frame: frame.limit(3), "does not keep the partitions as they are .CollectLimit"),
    "a limit in between": (lambda frame: frame.limit(3).where("n > 1"), "moves rows between partitions"),
    "a coalesce": (lambda frame: frame.coalesce(1), "does not keep the partitions as they are .Coalesce"),
    "a repartition": (lambda frame: frame.repartition(2), "moves rows between partitions"),
    "a union": (lambda frame: frame.union(frame), "reads its DataFrame twice"),
    "a union with others": (
        lambda frame: frame.union(frame.sparkSession.sql("SELECT 'a', 1")),
        "does not keep the partitions as they are .Union",
    ),
    "a join with itself": (lambda frame: frame.join(frame.hint("broadcast"), "n"), "reads its DataFrame twice"),
    "a subquery of itself": (
        lambda frame: frame.sparkSession.sql("SELECT * FROM {it} WHERE n < (SELECT max(n) FROM {it})", it=frame),
        "reads its DataFrame twice",
    ),
    "the small side of a join": (
        lambda frame: frame.sparkSession.range(9).withColumnRenamed("id", "n").join(frame.hint("broadcast"), "n"),
        "moves rows between partitions .*Broadcast",
    ),
    "an outer join that adds rows": (
        lambda frame: frame.hint("broadcast").join(
            frame.sparkSession.range(9).hint("broadcast"), how="full", on=frame.n < 3
        ),
        "moves rows|does not keep the partitions",
    ),
    "a cartesian product": (
        lambda frame: frame.join(frame.sparkSession.range(9).hint("shuffle_replicate_nl")),
        "does not keep the partitions as they are .CartesianProduct",
    ),
    "a cache": (lambda frame: frame.cache(), "reads its DataFrame from a cache"),
    "another frame": (lambda frame: frame.sparkSession.sql("SELECT 1"), "reads its DataFrame not at all"),
}


def source(spark: SparkSession, number: int) -> DataFrame:
    def rows(batches: Any) -> Any:
        return (batch for batch in batches if number < 0)  # a function of its own for each, so that no cache is met

    return spark.range(0, 2, 1, 2).mapInArrow(rows, "country string, n int")


@pytest.mark.nightly
def test_what_keeps_rows_in_their_partitions_is_let_through(spark: SparkSession) -> None:
    operator = load_application(APPLICATION).spec().operator("connected-1-transform-in-a-cache")
    for number, function in enumerate(NARROW.values()):
        reject_wide(function(source(spark, number)), operator)


def test_what_moves_rows_or_reads_them_twice_is_rejected(spark: SparkSession) -> None:
    operator = load_application(APPLICATION).spec().operator("connected-1-transform-in-a-cache")
    for number, (function, sentence) in enumerate(WIDE.values()):
        frame = function(source(spark, 100 + number))
        with pytest.raises((UnsupportedShape, InvalidApplication), match=sentence):
            reject_wide(frame, operator)


@pytest.mark.nightly
def test_the_format_samza_reads_and_writes_over_spark_connect(spark: SparkSession, tmp_path: Path) -> None:
    import pyarrow as pa

    log = LogSystem("log", SystemBinding("log", {"root": str(tmp_path)}))
    log.append("words", pa.table({"word": ["a", "b", "c"], "n": [1, 2, 3]}), key=["word"], partitions=2)
    register(spark)
    frame = spark.read.format("samza").options(root=str(tmp_path), topic="words", metadata="true").load()
    assert sorted((row.word, row.n) for row in frame.collect()) == [("a", 1), ("b", 2), ("c", 3)]
    rows = frame.where("n > 1").select("word", "n").write.format("samza").mode("append")
    rows.options(root=str(tmp_path), topic="more", key="word", partitions="2").save()
    assert spark.read.format("samza").options(root=str(tmp_path), topic="more").load().count() == 2


@pytest.mark.nightly
def test_a_topic_is_followed_over_spark_connect_where_the_server_has_the_package(tmp_path: Path) -> None:
    import pyarrow as pa
    from pyspark.sql.connect.session import SparkSession as RemoteSession

    log = LogSystem("log", SystemBinding("log", {"root": str(tmp_path / "root")}))
    log.append("words", pa.table({"word": ["a", "b", "c"], "n": [1, 2, 3]}), key=["word"], partitions=2)
    package = tmp_path / "airflow_samza.zip"
    package.write_bytes(packed_package())
    server = start_server(tmp_path / "server", FOREIGN, python_path=str(package))
    try:
        made: Any = RemoteSession.builder.remote(f"{server.url}/;token={TOKEN}").create()
        register(made)
        topic = {"root": log.filesystem.root, "topic": "words", "metadata": "true"}
        written = made.readStream.format("samza").options(**topic).load().writeStream.format("parquet")
        written = written.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        written.start(str(tmp_path / "rows")).awaitTermination()
        read = made.read.parquet(str(tmp_path / "rows"))
        batch = made.read.format("samza").options(**topic).load()
        assert sorted(map(tuple, read.collect())) == sorted(map(tuple, batch.collect()))
        assert read.count() == 3
        made.stop()
    finally:
        server.daemon.stop()


@pytest.mark.nightly
def test_a_dataframe_comes_in_and_a_table_goes_out_over_spark_connect(server: ConnectServer, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    bindings = {"warehouse": SystemBinding("spark", {"root": str(tmp_path / "data")})}
    runtime = SparkRuntime(str(tmp_path / "root"), bindings, master=f"{server.url}/;token={TOKEN}", idle_seconds=60)
    runtime.run_application(RunRequest("samza_spark_apps.spark_system:thirds_to_files", "r1"))
    rows = sorted(pq.read_table(tmp_path / "data/thirds").to_pylist(), key=repr)
    assert rows == [{"third": third, "count": 30} for third in range(3)]


@pytest.mark.nightly
def test_a_server_that_dies_loses_the_stage_and_a_retry_when_it_is_back_succeeds(
    server: ConnectServer, session: Session
) -> None:
    handle = session.runtime.submit(session.run, "held")
    until(session.holders)
    (runner,) = session.runners()
    server.java().kill()
    server.daemon.process.wait()
    assert session.runtime.wait(handle).state == FAILED
    with pytest.raises(StageLost) as caught:
        session.runtime.finish(handle)
    compare_with_page(rows_connect.GOES_AWAY, str(caught.value))
    until(lambda: not runner.is_running())
    session.go.touch()
    server.daemon = start_server(server.daemon.log.parent, FOREIGN, port=server.port).daemon
    result = session.runtime.run_stage(session.run, "held")
    assert result.outputs[0].messages == 2
    assert [row["number"] for row in session.rows("held")] == [0, 1]
    assert session.runtime.status(handle).attempt == 2

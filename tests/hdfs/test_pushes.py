"""Tables pushed from HDFS, Hive and a database to a root on HDFS; a push that dies there, and two that race there."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_samza.errors import ConcurrentPush
from airflow_samza.launch.code_shipping import code_of, ship_code
from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.runs.failpoints import VARIABLE
from airflow_samza.runs.records.folders import RunFolder
from airflow_samza.runs.tables import versions
from airflow_samza.spark.sessions.classic_session import ClassicSession
from airflow_samza.spark.sessions.driver_session import DriverSession
from airflow_samza.systems.filesystems.local_copies import local_copy
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import SystemBinding
from tests.spark.conftest import APPS
from tests.spark.test_table_push import Pusher
from tests.support.budgets import nightly_but
from tests.support.spark_sources import Database, end_java, hive_conf, source_conf

if TYPE_CHECKING:
    from demo.hdfs import Hdfs

pytestmark = [pytest.mark.extended, pytest.mark.hdfs, pytest.mark.spark, pytest.mark.timeout(900)]

APPLICATION = "samza_spark_apps.pushed:pushed"
ROWS = "SELECT id AS member_id, IF(id % 3 = 0, 'gold', 'iron') AS tier FROM range(300)"
BY_ID = {number: "iron" if number % 3 else "gold" for number in range(300)}


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DriverSession]:
    """A Spark with Hive, Avro and the database's driver, that takes code from a root on HDFS."""
    folder = tmp_path_factory.mktemp("session")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(APPS))
        patch.setenv("PYTHONPATH", str(APPS), prepend=os.pathsep)
        import samza_spark_apps.pushed

        end_java()
        opened = ClassicSession("pushes", "local[2]", {**source_conf(), **hive_conf(folder)})
        files = open_filesystem(str(folder))
        code = ship_code(files, RunFolder("shared", "code"), code_of(sys.modules[samza_spark_apps.pushed.__name__]))
        opened.ship([local_copy(files, code.path)], ())
        yield opened
        opened.stop()


@pytest.fixture
def pusher(session: DriverSession, cluster: Hdfs, place: str, tmp_path: Path) -> Pusher:
    found = Pusher(session, tmp_path)
    root = f"{cluster.webhdfs}{place}/samza"
    found.files, found.log = open_filesystem(root), LogSystem("log", SystemBinding("log", {"root": root}))
    return found


def run_sql(pusher: Pusher, *statements: str) -> None:
    with pusher.session.stage_session({}, own=False) as spark:
        for statement in statements:
            spark.sql(statement)


@pytest.mark.parametrize("kind", nightly_but(["parquet"], ["parquet", "orc", "avro"]))
def test_rows_come_from_files_on_hdfs(pusher: Pusher, cluster: Hdfs, place: str, kind: str) -> None:
    path = f"{cluster.hdfs}{place}/members"
    with pusher.session.stage_session({}, own=False) as spark:
        spark.sql(ROWS).write.format(kind).save(path)
    version = pusher.push({"path": path, "format": kind})
    assert (version.number, version.rows, pusher.rows(version)) == (1, 300, BY_ID)


@pytest.mark.nightly
def test_rows_come_from_a_hive_table_whose_files_are_on_hdfs(pusher: Pusher, cluster: Hdfs, place: str) -> None:
    where = f"{cluster.hdfs}{place}/warehouse"
    run_sql(pusher, "CREATE DATABASE crm", f"CREATE TABLE crm.members STORED AS ORC LOCATION '{where}' AS {ROWS}")
    version = pusher.push({"table": "crm.members"})
    assert (version.rows, pusher.rows(version)) == (300, BY_ID)
    run_sql(pusher, "INSERT INTO crm.members VALUES (7, 'lead')")
    changed = pusher.push({"query": "SELECT * FROM crm.members WHERE tier = 'lead'"}, mode="incremental")
    assert (changed.number, pusher.rows(changed)) == (2, {**BY_ID, 7: "lead"})
    run_sql(pusher, "DROP DATABASE crm CASCADE")


@pytest.mark.nightly
def test_rows_come_from_a_database_and_its_password_lies_in_no_file(pusher: Pusher, tmp_path: Path) -> None:
    database = Database(tmp_path)
    try:
        database.run("CREATE TABLE members AS SELECT x - 1 AS id, CASE WHEN MOD(x, 3) = 1 THEN 'gold' ELSE 'iron' END "
                     "AS tier "
                     "FROM system_range(1, 300)")  # fmt: skip
        source = {"jdbc": database.options("members")}
        version = pusher.push(
            source, columns={"member_id": "ID", "tier": "TIER"}, secrets={"password": database.password}
        )
    finally:
        database.stop()
    assert (version.rows, pusher.rows(version)) == (300, BY_ID)
    assert not [path for path in everything(pusher) if database.password.encode() in pusher.files.read(path)]


def everything(pusher: Pusher, directory: str = "") -> Iterator[str]:
    """Every file under the root."""
    for name in pusher.files.list(directory or "."):
        path = f"{directory}/{name}".lstrip("/")
        below = pusher.files.list(path)
        if below:
            yield from everything(pusher, path)
        elif pusher.files.size(path):
            yield path


def test_of_two_pushes_that_race_on_hdfs_one_becomes_the_version_and_the_other_is_told(
    pusher: Pusher, cluster: Hdfs, place: str
) -> None:
    sources = {tier: {"query": f"SELECT id AS member_id, '{tier}' AS tier FROM range(300)"} for tier in ("red", "blue")}
    made: dict[str, Any] = {}
    begun = threading.Barrier(2)

    def push(tier: str) -> None:
        begun.wait()
        try:
            made[tier] = pusher.push(sources[tier], tier)
        except ConcurrentPush as error:
            made[tier] = error

    racing = [threading.Thread(target=push, args=(tier,)) for tier in sources]
    for each in racing:
        each.start()
    for each in racing:
        each.join()
    (lost,) = [tier for tier in sources if isinstance(made[tier], ConcurrentPush)]
    (won,) = set(sources) - {lost}
    assert made[won].number == 1
    assert pusher.rows(made[won]) == dict.fromkeys(range(300), won)
    assert [version.push_id for version in versions.versions(pusher.files, "log", "t0-push")] == [won]


@pytest.mark.nightly
@pytest.mark.parametrize(
    "point", nightly_but(["push-after-publish"], ["push-task-after-manifest", "push-after-publish"])
)
def test_a_push_that_is_killed_on_hdfs_shows_nothing_and_a_retry_completes_it(
    cluster: Hdfs, place: str, point: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(APPS))
    root = f"{cluster.webhdfs}{place}/samza"
    runtime = SparkRuntime(root, master="local[2]", spark_conf={"spark.task.maxFailures": "1"})
    monkeypatch.setenv(VARIABLE, f"{point}@{tmp_path / 'struck'}")
    handle = runtime.push(APPLICATION, "t0", {"query": ROWS}, "monday")
    runtime.wait(handle, timeout=600)
    files = open_filesystem(root)
    assert (tmp_path / "struck").exists()
    assert versions.newest(files, "log", "t0-push") is None
    monkeypatch.delenv(VARIABLE)
    runtime.wait(runtime.push(APPLICATION, "t0", {"query": ROWS}, "monday"))
    done = runtime.finish_push(handle)
    assert (done.number, done.rows) == (1, 300)
    assert len(versions.versions(files, "log", "t0-push")) == 1

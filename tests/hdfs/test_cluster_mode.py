"""Drivers that start in a cluster whose hosts share nothing with the submitter but the root, which is no folder.

The cluster's processes see none of the submitter's folders, and no copy of this package.
"""

from __future__ import annotations

import getpass
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_samza.launch.masters import SubmitOptions
from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.runs.records.folders import RunFolder
from airflow_samza.runs.stages.stage_runners import all_runners
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.filesystems.root_access import NO_ACCESS, RootAccess
from airflow_samza.systems.system import SystemBinding
from demo.spark_cluster import spark_home, standalone_cluster
from tests.spark.clusters.sessions import SECRET, SMALL, told
from tests.spark.clusters.yarn import yarn_cluster
from tests.support.files_with import files_with
from tests.support.namespaces import folders_of_our_package, without_folders
from tests.support.waiting import until

if TYPE_CHECKING:
    from demo.hdfs import Hdfs
    from demo.store_servers import S3Server

pytestmark = [pytest.mark.hdfs, pytest.mark.spark, pytest.mark.nightly, pytest.mark.timeout(600)]

APPLICATION = "samza_spark_apps.contract:contract"
ROOT_SECRET = "a key to the root that no file shows"


@dataclass(frozen=True)
class Elsewhere:
    """A cluster on other machines: its master, the settings of its Spark, and the folder of its files."""

    master: str
    conf: dict[str, str]
    folder: Path


@pytest.fixture(scope="module")
def submitter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the submitter's files; its folder for temporary files is in it, too."""
    folder = tmp_path_factory.mktemp("submitter")
    (folder / "temporary").mkdir()
    (folder / "contract_rules.py").write_text('RULE = "shipped"\n')
    (folder / "word.txt").write_text("unpacked\n")
    with tarfile.open(folder / "words.tar.gz", "w:gz") as archive:
        archive.add(folder / "word.txt", "word.txt")
    return folder


@pytest.fixture
def at_the_submitter(submitter: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(submitter / "temporary"))
    monkeypatch.setenv("TMPDIR", str(submitter / "temporary"))
    return submitter


def elsewhere(submitter: Path) -> list[str]:
    return without_folders([submitter, *folders_of_our_package()])


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory, submitter: Path) -> Iterator[Elsewhere]:
    folder = tmp_path_factory.mktemp("standalone")
    with standalone_cluster(folder, workers=2, elsewhere=elsewhere(submitter)) as cluster:
        yield Elsewhere(cluster.master, {**SMALL, **told(folder)}, folder)


@contextmanager
def yarn(folder: Path, hdfs: Hdfs, submitter: Path) -> Iterator[Elsewhere]:
    (folder / "conf").mkdir(parents=True)
    for name in ("core-site.xml", "hdfs-site.xml"):
        shutil.copy(hdfs.conf_dir / name, folder / "conf")
    jars = {"spark.yarn.jars": f"local:{spark_home()}/jars/*", "spark.executor.instances": "1"}
    with yarn_cluster(folder, hdfs.hdfs, elsewhere(submitter)):
        yield Elsewhere("yarn", {**SMALL, **jars, **told(folder)}, folder)


def lake_in(folder: Path) -> Path:
    (folder / "marks").mkdir(parents=True)
    for number in range(2):
        rows = [{"number": number, "folder": "nowhere"}]
        pq.write_table(pa.Table.from_pylist(rows), folder / "marks" / f"{number}.parquet")
    return folder


def jar_in(folder: Path) -> str:
    """A jar of the user's with nothing in it."""
    path = folder / "extra.jar"
    path.write_bytes(b"PK\x05\x06" + bytes(18))
    return f"file:{path}"


def check(cluster: Elsewhere, root: str, folder: Path, submitter: Path, access: RootAccess = NO_ACCESS) -> None:
    """Runs stages that show what has come to driver and executors, and looks for what must not be seen."""
    lake = lake_in(folder / "lake")
    vault = {"root": f"local://{lake}", "password": SECRET}
    runtime = SparkRuntime(
        root,
        {
            "lake": SystemBinding("files", {"root": str(lake)}),
            "vault": SystemBinding("files", vault, frozenset({"password"})),
        },
        master=cluster.master,
        submit=SubmitOptions("cluster", start_seconds=120),
        spark_conf={**cluster.conf, "spark.jars": jar_in(cluster.folder)},
        py_modules=[str(submitter / "contract_rules.py")],
        archives=[f"{submitter / 'words.tar.gz'}#lookup"],
        idle_seconds=600,
        access=access,
    )
    run = runtime.prepare(RunRequest(APPLICATION, "run 1"))
    files = open_filesystem(root)
    try:
        for stage in ("counted", "by-number", "shipped"):
            runtime.run_stage(run, stage)
        shown = [" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])]
        assert not [line for line in shown if SECRET in line or ROOT_SECRET in line]
    finally:
        runtime.close(run, wait_seconds=60)
    (runner,) = all_runners(files, RunFolder(run.application, run.run_id))
    until(lambda: files.exists(runner.closed))
    counted = pq.read_table(lake / "out" / "counted").to_pylist()
    assert sorted(counted, key=repr) == [{"number": 0, "marks": 1}, {"number": 1, "marks": 1}]
    shipped = pq.read_table(lake / "out" / "shipped").to_pylist()
    assert [(row["rule"], row["word"]) for row in shipped] == [("shipped", "unpacked")] * 2
    assert all(".zip/airflow_samza/" in row["package"] for row in shipped)
    until(lambda: b"Spark is up after" in files.read(runner.log))
    assert [name for name in files.list(runner.path.rpartition("/")[0]) if "handover" in name] == []
    # Of the application's jars, which its log of events names, only the user's own reach executors.
    assert files_with(cluster.folder / "events", "extra.jar")
    assert files_with(cluster.folder / "events", "/code/driver-") == []
    for place in (cluster.folder, submitter / "temporary"):
        assert files_with(place, SECRET) == files_with(place, ROOT_SECRET) == []


@pytest.mark.parametrize("scheme", ["webhdfs", "hdfs"])
def test_a_driver_that_shares_only_a_root_on_hdfs_gets_code_settings_and_secrets(
    scheme: str,
    hdfs: Hdfs,
    place: str,
    standalone: Elsewhere,
    tmp_path: Path,
    at_the_submitter: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HADOOP_USER_NAME", getpass.getuser())
    if scheme == "hdfs":  # which Hadoop's own client fetches
        monkeypatch.setenv("HADOOP_CONF_DIR", str(hdfs.conf_dir))
    address = hdfs.webhdfs if scheme == "webhdfs" else hdfs.hdfs
    check(standalone, f"{address}{place}/samza", tmp_path, at_the_submitter)
    assert files_with(hdfs.folder / "data", "")
    assert files_with(hdfs.folder / "data", SECRET) == []


def test_a_driver_that_shares_only_a_bucket_gets_the_access_to_it_too(
    s3: S3Server, standalone: Elsewhere, tmp_path: Path, at_the_submitter: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The access is the submitter's connection's: the environment holds none."""
    for name in s3.environment:
        monkeypatch.delenv(name, raising=False)
    options = {
        "endpoint": s3.endpoint,
        "region": "us-east-1",
        "access_key_id": "somebody",
        "secret_access_key": ROOT_SECRET,
    }
    check(standalone, s3.url(tmp_path.name), tmp_path, at_the_submitter, RootAccess(options))


@pytest.mark.nightly
@pytest.mark.parametrize("scheme", ["webhdfs", "hdfs"])
def test_a_driver_on_yarn_that_shares_only_the_root_gets_code_settings_and_secrets(
    scheme: str, hdfs: Hdfs, place: str, tmp_path: Path, at_the_submitter: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_USER_NAME", getpass.getuser())
    address = hdfs.webhdfs if scheme == "webhdfs" else hdfs.hdfs
    with yarn(tmp_path / "yarn", hdfs, at_the_submitter) as cluster:
        check(cluster, f"{address}{place}/samza", tmp_path, at_the_submitter)

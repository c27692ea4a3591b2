"""Archives of Spark's classes with a real Java.

It maps them, beside whatever options users have, and is silent about what does not fit.
"""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_samza.launch.class_archive import java_options
from airflow_samza.launch.class_archive_maker import make
from airflow_samza.launch.java.installed_java import find_java
from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.runs.stages.stage_runners import all_runners
from airflow_samza.systems.filesystems.opening import open_filesystem
from demo.spark_cluster import SHORT_LIVED
from tests.conftest import CLASS_ARCHIVES

pytestmark = [pytest.mark.extended, pytest.mark.spark, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def archive() -> str:
    """The archives that `make test` has made; made here by who calls pytest itself (a minute, once)."""
    path = make(CLASS_ARCHIVES)
    assert path is not None
    return path


@pytest.mark.usefixtures("archive")
@pytest.mark.nightly
def test_a_local_runner_maps_the_archive_beside_all_options_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-Dof.the.user=1")
    monkeypatch.setenv(
        "SPARK_SUBMIT_OPTS", SHORT_LIVED
    )  # the archive was made by another collector: its classes serve all the same
    loaded = tmp_path / "loaded.txt"
    conf = {"spark.driver.extraJavaOptions": f"-Xlog:class+load:file={loaded}"}
    root = str(tmp_path / "root")
    runtime = SparkRuntime(root, master="local[2]", spark_conf=conf, class_archives=CLASS_ARCHIVES)
    pq.write_table(pa.table({"member_id": [1, 2], "tier": ["gold", None]}), tmp_path / "members.parquet")
    handle = runtime.push("samza_spark_apps.pushed:pushed", "t0", str(tmp_path / "members.parquet"), "push-1")
    runtime.wait(handle)
    assert runtime.finish_push(handle).rows == 2
    sources = loaded.read_text(errors="replace")
    assert sources.count("source: shared objects file (top)") > 10 * sources.count("source: file:")
    files = open_filesystem(root)
    (runner,) = all_runners(files, handle.run)
    log = files.read(runner.log).decode()
    assert "Spark is up" in log
    assert "[cds" not in log


@pytest.mark.parametrize("what", ["another class path", "no archive", "nothing"])
def test_java_says_nothing_of_an_archive_that_does_not_fit(archive: str, what: str, tmp_path: Path) -> None:
    path = archive if what == "another class path" else str(tmp_path / "other archive.jsa")
    if what != "another class path":
        Path(path).write_bytes(b"no archive" * 1000 if what == "no archive" else b"")
    command = [find_java().path, *shlex.split(java_options(path)), "-version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    plain = subprocess.run([command[0], "-version"], capture_output=True, text=True, check=True)
    assert done.stdout == plain.stdout
    assert done.stderr.replace(", sharing", "") == plain.stderr.replace(", sharing", "")

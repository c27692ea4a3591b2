"""A Spark in a container that has little: its root filesystem is read-only, /dev/shm tiny, there is no ps and no home."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.containers import REPOSITORY, Container, need_containers

pytestmark = [pytest.mark.extended, pytest.mark.spark, pytest.mark.timeout(300)]

PROGRAM = """
import os, sys
sys.path.insert(0, sys.argv[2])
try:
    open("/written", "w")
except OSError as error:
    print("read-only:", error.strerror)
from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.systems.system import SystemBinding
volume = sys.argv[1]
runtime = SparkRuntime(f"{volume}/root", {"lake": SystemBinding("files", {"root": f"{volume}/lake"})}, master="local[1]")
for result in runtime.run_application(RunRequest("samza_spark_apps.views:two_stages", "run 1")):
    print("stage", result.stage_id, "done")
"""


def test_a_run_needs_only_a_folder_for_temporary_files_that_can_be_written(tmp_path: Path) -> None:
    need_containers()
    (tmp_path / "lake" / "views").mkdir(parents=True)
    views = [{"member_id": number, "country": "nl", "dwell_ms": number * 100} for number in range(20)]
    pq.write_table(pa.Table.from_pylist(views), tmp_path / "lake" / "views" / "0.parquet")
    container = Container([tmp_path], "samza-task", read_only=True, environment={"HOME": "/"})
    apps = REPOSITORY / "tests" / "spark" / "apps"
    code, said = container.run(sys.executable, "-c", PROGRAM, str(tmp_path), str(apps))
    assert code == 0, said
    assert "read-only: Read-only file system" in said
    assert said.count(" done") == 2

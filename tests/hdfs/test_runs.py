"""Whole runs with their root on HDFS.

Topics, records, code and the runner's log lie there, as do the files that they read and write.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.runs.records.folders import RunFolder
from airflow_samza.runs.stages.stage_runners import all_runners
from airflow_samza.systems.files.location import open_location
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.system import SystemBinding
from airflow_samza.testing import TestDriver

if TYPE_CHECKING:
    from demo.hdfs import Hdfs

pytestmark = [pytest.mark.hdfs, pytest.mark.spark]

APPLICATION = "samza_spark_apps.views:two_stages"
VIEWS: list[dict[str, Any]] = [
    {"member_id": number, "country": ("nl", "de", "fr", "us")[number % 4], "dwell_ms": (number * 7) % 3000}
    for number in range(1000)
]
SCHEMA = pa.schema([("member_id", "int64"), ("country", "string"), ("dwell_ms", "int64")])


@pytest.mark.parametrize("mode", [pytest.param("staged", marks=pytest.mark.extended), "pipelined"])
def test_a_run_on_hdfs_gives_what_the_test_driver_gives(cluster: Hdfs, place: str, mode: str) -> None:
    lake = open_location(f"{cluster.hdfs}{place}/lake")
    for part in range(2):
        lake.filesystem.create_dir(f"{lake.path}/views")
        pq.write_table(
            pa.Table.from_pylist(VIEWS[part::2], SCHEMA),
            f"{lake.path}/views/{part}.parquet",
            filesystem=lake.filesystem,
        )
    root = f"{cluster.webhdfs}{place}/samza"
    runtime = SparkRuntime(
        root, {"lake": SystemBinding("files", {"root": f"{cluster.hdfs}{place}/lake"})}, master="local[2]"
    )

    run = runtime.prepare(RunRequest(APPLICATION, "run 1", mode=mode))
    runtime.run_application(RunRequest(APPLICATION, "run 1", mode=mode))

    written = pq.read_table(f"{lake.path}/out/per-country", filesystem=lake.filesystem).to_pylist()
    driven = TestDriver(APPLICATION).pipe("views", VIEWS).run().output_table("per-country").to_pylist()
    assert sorted(written, key=repr) == sorted(driven, key=repr)
    files = open_filesystem(root)
    (runner,) = all_runners(files, RunFolder(run.application, run.run_id))
    until_over = time.monotonic() + 60
    while runner.is_alive(files) and time.monotonic() < until_over:
        time.sleep(0.2)
    assert b"by-country@1.1@1: succeeded after" in files.read(runner.log)

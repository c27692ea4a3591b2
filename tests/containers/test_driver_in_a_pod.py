"""The step that spark-submit takes inside a driver's pod on Kubernetes: it fetches the program, and Python runs it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_samza.launch.drivers.driver_files import driver_left
from airflow_samza.launch.drivers.spark_submit import find_spark_submit
from airflow_samza.launch.masters import SubmitOptions
from airflow_samza.launch.runner_settings import RunnerSettings
from airflow_samza.runs.records.folders import RunFolder
from airflow_samza.systems.filesystems.opening import open_filesystem

if TYPE_CHECKING:
    from demo.store_servers import S3Server

pytestmark = [pytest.mark.spark, pytest.mark.nightly, pytest.mark.timeout(300)]

RUN = RunFolder("views", "run-1")


def test_a_driver_that_is_fetched_by_a_signed_link_runs_in_client_mode(s3: S3Server, tmp_path: Path) -> None:
    """Without its key it ends at once, with the sentence that says so: it has come as far as its own code."""
    files = open_filesystem(s3.url(tmp_path.name))
    settings = RunnerSettings(files.root, {}, master="k8s://https://here", submit=SubmitOptions("cluster"))
    with driver_left(files, RUN, settings) as (driver, log):
        pass
    assert driver.program.startswith("http")
    done = subprocess.run(
        [find_spark_submit(""), "--master", "local[1]", "--deploy-mode", "client", driver.program, *driver.arguments],
        capture_output=True,
        text=True,
        cwd="/",
        check=False,
    )
    assert done.returncode != 0
    assert "was started without SPARK_SAMZA_HANDOVER_SECRET" in done.stdout + done.stderr
    assert b"was started without" in files.read(log)

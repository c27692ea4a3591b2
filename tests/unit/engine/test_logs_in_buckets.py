"""Logs of runners whose root is a bucket: there when a task looks for the reason of a failure."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_samza.engine.heartbeat import RunnerHeartbeat
from airflow_samza.engine.runner_records import RunnerRecords
from airflow_samza.errors import StageFailed
from airflow_samza.provider.failures import log_runner
from airflow_samza.runs.records.folders import RunFolder
from airflow_samza.runs.stages.runner_log import last_lines
from airflow_samza.runs.stages.stage_runners import RunnerFolder
from airflow_samza.systems.filesystems.opening import open_filesystem
from demo.store_servers import S3Server

pytestmark = pytest.mark.extended


def test_the_lines_before_a_failure_are_in_the_bucket_and_in_the_tasks_log(s3: S3Server, tmp_path: Path) -> None:
    files = open_filesystem(s3.url(tmp_path.name))
    folder = RunnerFolder(RunFolder("page-views", "run-1"), "key", 1)
    output = tmp_path / "driver.log"
    heart = RunnerHeartbeat(files, folder, RunnerRecords(files, folder), str(output))
    said: list[str] = []
    log = SimpleNamespace(info=lambda event, *args: said.append(event % args if args else event))
    service: Any = SimpleNamespace(last_lines=lambda path: last_lines(files, path))

    heart.bring_log()  # nothing is printed yet
    for line in ("Spark is up", "OutOfMemoryError: Java heap space"):
        with output.open("a") as printed:
            printed.write(f"{line}\n")
        heart.bring_log()
    log_runner(service, log, StageFailed("It broke.", log=folder.log))
    assert said == [
        f"::group::The last 2 lines of the runner and its driver ({folder.log}, under the root)",
        "Spark is up",
        "OutOfMemoryError: Java heap space",
        "::endgroup::",
    ]


def test_a_slow_copy_of_the_log_does_not_replace_a_newer_one(s3: S3Server, tmp_path: Path) -> None:
    files = open_filesystem(s3.url(tmp_path.name))
    slow, go_on = threading.Event(), threading.Event()

    class SlowAtFirst:
        """The same bucket, whose first write waits."""

        def __getattr__(self, name: str) -> object:
            return getattr(files, name)

        def put(self, path: str, data: bytes) -> None:
            if not slow.is_set():
                slow.set()
                go_on.wait(30)
            files.put(path, data)

    folder = RunnerFolder(RunFolder("page-views", "run-1"), "key", 1)
    output = tmp_path / "driver.log"
    heart = RunnerHeartbeat(SlowAtFirst(), folder, RunnerRecords(files, folder), str(output))  # type: ignore[arg-type]
    output.write_text("Spark is up\n")
    first = threading.Thread(target=heart.bring_log)
    first.start()
    assert slow.wait(30)
    output.write_text("Spark is up\nIt broke\n")
    second = threading.Thread(target=heart.bring_log)
    second.start()
    second.join(1)
    go_on.set()
    first.join()
    second.join()
    assert last_lines(files, folder.log) == ["Spark is up", "It broke"]

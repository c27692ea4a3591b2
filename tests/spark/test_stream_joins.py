"""Joins of two streams on a real Spark.

What waits for a partner is kept from epoch to epoch, and outlives its runner.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.runs.records.folders import read
from airflow_samza.runs.stages.stage_runners import Claim
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import MessageRun, OffsetRange, StreamSpec, SystemBinding, SystemStreamPartition
from airflow_samza.testing import TestDriver
from tests.support.waiting import until

pytestmark = [pytest.mark.extended, pytest.mark.spark, pytest.mark.timeout(900)]

APPLICATION = "samza_spark_apps.joins:joins"
VIEWS = [{"member_id": number % 40, "page": number, "seen": number * 700} for number in range(300)]
CLICKS = [{"who": number % 50, "button": number, "clicked": number * 900 + number % 3 * 100} for number in range(250)]


def table(messages: list[dict[str, Any]], **kinds: str) -> pa.Table:
    return pa.Table.from_pylist(messages, pa.schema([(name, kinds.get(name, "int64")) for name in messages[0]]))


def rows(log: LogSystem, topic: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    heads = log.metadata([StreamSpec(topic)])[topic].head
    consumer = log.consumer(StreamSpec(topic))
    for partition, head in enumerate(heads):
        for envelope in consumer.read(SystemStreamPartition("log", topic, partition), OffsetRange(0, head)):
            found += envelope.batch.to_pylist() if isinstance(envelope, MessageRun) else []
    return sorted(found, key=repr)


@pytest.mark.nightly
def test_joins_in_epochs_equal_those_in_memory_also_when_the_runner_is_killed(tmp_path: Path) -> None:
    root = str(tmp_path / "root")
    log = LogSystem("log", SystemBinding("log", {"root": root}))
    log.append("views", table(VIEWS, page="int32"), key=["page"], partitions=2)
    log.append("clicks", table(CLICKS, button="int32"), key=["button"], partitions=2)
    runtime = SparkRuntime(root, {}, master="local[2]")
    run = runtime.prepare(RunRequest(APPLICATION, "run", mode="pipelined", config={"job.epoch.max.messages": "60"}))
    files = open_filesystem(root)
    try:
        handles = [runtime.submit(run, stage.stage_id) for stage in run.plan.stages]
        until(
            lambda: (
                files.exists(handles[-1].folder.commit(1)) or all(runtime.status(handle).is_final for handle in handles)
            )
        )
        for runner in runtime.live_runners(run):
            claim = read(files, runner.claim, Claim)
            assert claim is not None
            os.kill(claim.pid, signal.SIGKILL)
        until(lambda: all(runtime.status(handle).is_final for handle in handles))
        results = runtime.run_stages(run)
    finally:
        runtime.close(run, wait_seconds=60)
    assert results[-1].epochs >= 2
    driver = TestDriver(APPLICATION, partitions=2).pipe("views", VIEWS).pipe("clicks", CLICKS).run()
    for stream in ("all", "lags"):
        expected = sorted(driver.output_table(stream).to_pylist(), key=repr)
        assert len(expected) > 20
        assert rows(log, stream) == expected
    told = sorted(letter["message"] for letter in rows(log, "bad"))
    assert told == sorted(letter.message for letter in driver.output("bad"))
    assert told

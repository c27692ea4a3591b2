"""Low-level tasks and coroutine functions in Spark's Python workers, epoch after epoch."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.runs.records.folders import read
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.stage_runners import Claim
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import MessageRun, OffsetRange, StreamSpec, SystemBinding, SystemStreamPartition

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

VISITS = [(number % 7, ("nl", "de")[number % 2]) for number in range(400)]


class Visits:
    """A root with visits in a topic, and one run over them."""

    def __init__(self, folder: Path) -> None:
        self.root = str(folder / "root")
        self.log = LogSystem("log", SystemBinding("log", {"root": self.root}))
        rows = pa.table({"member_id": [member for member, _ in VISITS], "country": [country for _, country in VISITS]})
        self.log.append("visits", rows, key=["member_id"], partitions=2)
        self.runtime = SparkRuntime(self.root, {}, master="local[2]")
        self.prepared: RunPlan | None = None

    def run(self, application: str) -> list[int]:
        """Runs it; how many epochs each stage had."""
        self.prepared = self.runtime.prepare(
            RunRequest(f"samza_spark_apps.tasks:{application}", "run", mode="pipelined")
        )
        return [result.epochs for result in self.runtime.run_stages(self.prepared)]

    def rows(self, topic: str) -> list[tuple[Any, ...]]:
        (consumer, found) = self.log.consumer(StreamSpec(topic)), self.log.metadata([StreamSpec(topic)])[topic]
        rows: list[tuple[Any, ...]] = []
        for partition in range(found.partitions):
            place = SystemStreamPartition("log", topic, partition)
            for envelope in consumer.read(place, OffsetRange(found.oldest[partition], found.head[partition])):
                rows += (
                    [tuple(row.values()) for row in envelope.batch.to_pylist()]
                    if isinstance(envelope, MessageRun)
                    else []
                )
        consumer.close()
        return sorted(rows)

    def close(self) -> None:
        if self.prepared is None:
            return
        self.runtime.close(self.prepared, wait_seconds=30)
        for runner in self.runtime.live_runners(self.prepared):
            claim = read(open_filesystem(self.root), runner.claim, Claim)
            assert claim is not None
            os.kill(claim.pid, signal.SIGKILL)


@pytest.fixture
def visits(tmp_path: Path) -> Iterator[Visits]:
    made = Visits(tmp_path)
    yield made
    made.close()


@pytest.mark.extended
def test_a_task_of_coroutines_keeps_its_store_and_timers_from_job_to_job(visits: Visits) -> None:
    (epochs,) = visits.run("counting")
    assert epochs >= 4
    totals = {member: sum(1 for m, _ in VISITS if m == member) for member in range(7)}
    expected = [(member, nth) for member, total in totals.items() for nth in range(1, total + 1)]
    assert visits.rows("counted") == sorted([*expected, *((-member, total) for member, total in totals.items())])


@pytest.mark.nightly
def test_coroutine_functions_run_in_spark_s_workers(visits: Visits) -> None:
    assert min(visits.run("calling")) >= 4
    assert visits.rows("loud") == sorted((member, country.upper()) for member, country in VISITS)

"""Scheduled catch-up and an application over two Dags, on a real Spark.

Windows go on from run to run, sections end in the topic.
"""

from __future__ import annotations

import datetime
import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_samza.errors import SectionOpen
from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.runs.records.folders import read
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.stage_runners import Claim
from airflow_samza.runs.state_history.folder import StateHistory
from airflow_samza.runs.state_history.versions import newest_number
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import SystemBinding
from tests.support.topic_rows import topic_rows

pytestmark = [pytest.mark.extended, pytest.mark.spark, pytest.mark.timeout(600)]

COUNTING = "samza_spark_apps.two_dags:counting"
SUMMING = "samza_spark_apps.two_dags:summing"
START = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)


class TwoDags:
    """A root with visits, one every ten seconds, and runs of both applications."""

    def __init__(self, folder: Path) -> None:
        self.root = str(folder)
        self.files = open_filesystem(self.root)
        self.log = LogSystem("log", SystemBinding("log", {"root": self.root}))
        self.runtime = SparkRuntime(self.root, master="local[2]")
        self.runs: list[RunPlan] = []

    def visits(self, first: int, count: int) -> None:
        import pyarrow as pa

        schema = pa.schema([("member_id", "int64"), ("country", "string"), ("at", pa.timestamp("us", "UTC"))])
        rows = [
            {"member_id": n, "country": ("nl", "de")[n % 2], "at": START + datetime.timedelta(seconds=10 * n)}
            for n in range(first, first + count)
        ]
        self.log.append("visits", pa.Table.from_pylist(rows, schema), partitions=1)

    def run(self, application: str, run_id: str, **more: Any) -> RunPlan:
        plan = self.runtime.prepare(RunRequest(application, run_id, **more))
        self.runs.append(plan)
        for stage in plan.plan.stages:
            self.runtime.run_stage(plan, stage.stage_id)
        self.runtime.close(plan)
        return plan

    def rows(self, topic: str) -> list[dict[str, Any]]:
        return topic_rows(self.log, topic)


@pytest.fixture
def dags(tmp_path: Path) -> Iterator[TwoDags]:
    made = TwoDags(tmp_path)
    yield made
    for run in made.runs:
        made.runtime.close(run, wait_seconds=30)
        for runner in made.runtime.live_runners(run):
            claim = read(made.files, runner.claim, Claim)
            assert claim is not None
            os.kill(claim.pid, signal.SIGKILL)


@pytest.mark.nightly
def test_windows_go_on_from_run_to_run_and_the_consumer_ends_by_the_end_of_stream_in_the_topic(dags: TwoDags) -> None:
    dags.visits(0, 20)  # until 3 minutes 10 s: with a minute's delay the windows of the first two minutes are complete
    monday = dags.run(COUNTING, "monday")
    with pytest.raises(SectionOpen, match="The run 'tuesday' has not written its section"):
        dags.runtime.prepare(RunRequest(SUMMING, "of-tuesday", sections={"minutes": "tuesday"}))
    first = dags.run(SUMMING, "of-monday", sections={"minutes": monday.run_id})
    assert sorted((row["country"], row["minutes"], row["visits"]) for row in dags.rows("totals")) == [
        ("de", 2, 6),
        ("nl", 2, 6),
    ]
    assert first.stream("minutes").slice is not None
    dags.visits(20, 20)
    dags.run(COUNTING, "tuesday")
    dags.run(SUMMING, "of-tuesday", sections={"minutes": "tuesday"})
    minutes = Counter((row["country"], row["visits"]) for row in dags.rows("minutes"))
    assert minutes == {
        ("nl", 3): 5,
        ("de", 3): 5,
    }  # every minute once and whole, also the one that both runs have visits of
    assert newest_number(dags.files, StateHistory("counting-visits")) == 2
    totals = Counter(dict.fromkeys(("nl", "de"), 0))
    for row in dags.rows("totals"):
        totals[row["country"]] += row["visits"]
    assert totals == {"nl": 15, "de": 15}

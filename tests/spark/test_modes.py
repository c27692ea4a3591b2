"""Pipelined and continuous runs on a real Spark.

Stages at the same time, killed and resumed, equal to the test driver's.
"""

from __future__ import annotations

import datetime
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.runs.failpoints import VARIABLE
from airflow_samza.runs.records.folders import read
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.stage_runners import Claim
from airflow_samza.runs.stages.stage_state import LOST, StageHandle
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import SystemBinding
from airflow_samza.testing import TestDriver
from tests.support.topic_rows import topic_rows
from tests.support.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

FIVE_STAGES = "samza_spark_apps.modes:five_stages"
BY_CATALYST = "samza_spark_apps.modes:by_catalyst"
FLOWING = "samza_spark_apps.modes:flowing"

MANY_PARTITIONS = {"job.intermediate.stream.partitions": "16"}
"""So many that small tasks share one of Spark's."""

START = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)


def visits(first: int, count: int) -> list[dict[str, Any]]:
    return [
        {
            "member_id": number,
            "country": ("nl", "de", "fr")[number % 3],
            "dwell_ms": number % 100,
            "at": START + datetime.timedelta(seconds=number),
        }
        for number in range(first, first + count)
    ]


class Flow:
    """A root with visits in a topic, and runs over them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = str(folder / "root")
        self.files = open_filesystem(self.root)
        self.log = LogSystem("log", SystemBinding("log", {"root": self.root}))
        self.runtime = SparkRuntime(
            self.root, {"lake": SystemBinding("files", {"root": str(folder / "data")})}, master="local[2]"
        )
        self.runs: list[RunPlan] = []

    def send(self, rows: list[dict[str, Any]]) -> None:
        import pyarrow as pa

        schema = pa.schema(
            [("member_id", "int64"), ("country", "string"), ("dwell_ms", "int64"), ("at", pa.timestamp("us", "UTC"))]
        )
        self.log.append("visits", pa.Table.from_pylist(rows, schema), key=["member_id"], partitions=2)

    def prepare(self, application: str, run_id: str, mode: str, **config: str) -> RunPlan:
        run = self.runtime.prepare(RunRequest(application, run_id, mode=mode, config=config))
        self.runs.append(run)
        return run

    def rows(self, topic: str) -> list[dict[str, Any]]:
        return sorted(topic_rows(self.log, topic), key=repr)

    def kill_runner(self, run: RunPlan) -> None:
        for runner in self.runtime.live_runners(run):
            claim = read(self.files, runner.claim, Claim)
            assert claim is not None
            os.kill(claim.pid, signal.SIGKILL)

    def epochs(self, handle: StageHandle) -> int:
        return len(self.files.list(handle.folder.epochs))


@pytest.fixture
def flow(tmp_path: Path) -> Iterator[Flow]:
    made = Flow(tmp_path)
    yield made
    for run in made.runs:
        made.runtime.close(run, wait_seconds=30)
        made.kill_runner(run)


def handle(run: RunPlan, stage_id: str) -> StageHandle:
    return StageHandle(run.application, run.run_id, stage_id, Generation(run.generation, 1))


@pytest.mark.nightly
def test_five_stages_progress_together_whoever_dies(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = visits(0, 1200)
    flow.send(sent)
    run = flow.prepare(FIVE_STAGES, "run", "pipelined", **{"job.epoch.max.messages": "100", **MANY_PARTITIONS})
    died = flow.folder / "worker-died"
    monkeypatch.setenv(VARIABLE, f"task-before-manifest*3@{died}")
    stages = [stage.stage_id for stage in run.plan.stages]
    handles = {
        stage_id: flow.runtime.submit(run, stage_id) for stage_id in reversed(stages)
    }  # a consumer waits for its producer
    until(lambda: flow.epochs(handles["hop-2"]) >= 2)
    flow.kill_runner(run)
    until(lambda: all(flow.runtime.status(found).is_final for found in handles.values()))
    assert flow.runtime.status(handles["hop-3"]).state == LOST
    results = {result.stage_id: result for result in flow.runtime.run_stages(run)}
    assert died.exists()
    assert min(result.epochs for result in results.values()) >= 4

    driver = TestDriver(FIVE_STAGES, partitions=2).pipe("visits", sent).run()
    import pyarrow.parquet as pq

    counted = sorted(pq.read_table(flow.folder / "data" / "out" / "per-member").to_pylist(), key=repr)
    assert counted == sorted(driver.output_table("per-member").to_pylist(), key=repr)
    assert flow.rows("hopped") == sorted(driver.output_table("hopped").to_pylist(), key=repr)
    assert results["visits"].inputs[0].messages == results["hop-3"].inputs[0].messages == len(sent)


@pytest.mark.nightly
def test_a_stage_with_catalyst_in_its_middle_keeps_state_from_epoch_to_epoch(flow: Flow) -> None:
    sent = visits(0, 300)
    flow.send(sent)
    run = flow.prepare(BY_CATALYST, "run", "pipelined", **{"job.epoch.max.messages": "40"})
    handles = [flow.runtime.submit(run, stage.stage_id) for stage in run.plan.stages]
    until(lambda: flow.epochs(handles[1]) >= 2)
    flow.kill_runner(run)
    until(lambda: all(flow.runtime.status(found).is_final for found in handles))
    results = {result.stage_id: result for result in flow.runtime.run_stages(run)}
    assert results["by-country"].epochs >= 2
    minutes = {(visit["country"], visit["at"].minute) for visit in sent}
    places = {"nl": "Nl", "de": "de"}
    expected = [
        {
            "place": place,
            "minutes": sum(country == name for name, _ in minutes),
            "visits": sum(country == visit["country"] for visit in sent),
        }
        for country, place in places.items()
    ]
    assert flow.rows("per-place") == sorted(expected, key=repr)


def test_a_continuous_run_gives_windows_as_time_goes_and_the_rest_when_drained(flow: Flow) -> None:
    flow.send(visits(0, 150))
    run = flow.prepare(FLOWING, "run", "continuous", **MANY_PARTITIONS)
    handles = [flow.runtime.submit(run, stage.stage_id) for stage in run.plan.stages]
    until(lambda: len(flow.rows("hopped")) == 150)
    until(lambda: len(flow.rows("per-minute")) == 2 * 3)  # two whole minutes of three countries
    flow.send(visits(150, 100))
    until(lambda: len(flow.rows("hopped")) == 250)
    flow.kill_runner(run)
    until(lambda: all(flow.runtime.status(found).is_final for found in handles))
    handles = [flow.runtime.submit(run, stage.stage_id) for stage in run.plan.stages]
    flow.send(visits(250, 50))
    until(lambda: len(flow.rows("hopped")) == 300)
    status = flow.runtime.status(handles[0])
    assert status.progress is not None
    until(lambda: "300 messages" in str(flow.runtime.status(handles[0])))
    flow.runtime.drain(run, "a test")
    for found in handles:
        flow.runtime.wait(found, timeout=600)
        assert flow.runtime.finish(found).epochs > 1

    driver = TestDriver(FLOWING, partitions=2).pipe("visits", visits(0, 300))
    driver.drain()
    assert flow.rows("per-minute") == sorted(driver.output_table("per-minute").to_pylist(), key=repr)
    assert flow.rows("hopped") == sorted(driver.output_table("hopped").to_pylist(), key=repr)


@pytest.mark.parametrize("before", [True, False], ids=["before the producer", "after it"])
@pytest.mark.few(1)
def test_a_run_follows_the_run_of_another_application_on_a_spark_of_its_own(flow: Flow, before: bool) -> None:
    sent = visits(0, 600)
    flow.send(sent)
    telling = flow.prepare("samza_spark_apps.modes:telling", "told", "pipelined")
    request = RunRequest(
        "samza_spark_apps.modes:listening", "heard", mode="pipelined", sections={"told": "telling@latest"}
    )
    listening = flow.runtime.prepare(request)
    flow.runs.append(listening)
    assert (listening.stream("told").slice or {})["follows"]["run_id"] == "told"
    handles = {}
    for run in (listening, telling) if before else (telling, listening):
        for stage in run.plan.stages:
            handles[run.run_id, stage.stage_id] = flow.runtime.submit(run, stage.stage_id)
    until(lambda: all(flow.runtime.status(found).is_final for found in handles.values()))
    results = {name: flow.runtime.finish(found) for name, found in handles.items()}
    assert max(result.epochs for (run_id, _), result in results.items() if run_id == "told") >= 3
    expected: dict[str, tuple[int, int]] = {}
    for row in sent:
        seen, dwell = expected.get(row["country"], (0, 0))
        expected[row["country"]] = (seen + 1, dwell + row["dwell_ms"])
    assert {row["country"]: (row["visits"], row["dwell"]) for row in flow.rows("heard")} == expected

"""Stages of low-level tasks and of coroutine functions, by the code of the stage runner; only Spark is left out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_samza.runs.records.stage_result import StageResult
from tests.support.looping import Place
from tests.support.without_spark import run_stage

pytestmark = pytest.mark.timeout(60)

APPLICATION = """
import asyncio

from airflow_samza import AsyncStreamTask, RequestScope, StreamTask, stream_application, task_application

LINE = "word string, n bigint, at timestamp"
COUNT = "word string, n bigint, nth bigint"


class Counting:
    def init(self, context):
        self.counts = context.get_store("counts")
        self.timers = context.timers

    def count(self, message, collector, coordinator):
        nth = (self.counts.get(message.word) or 0) + 1
        self.counts.put(message.word, nth)
        self.timers.set(message.word, 4_000_000_000_000)
        collector.send("copy", {"word": message.word, "n": message.n, "nth": nth})
        if message.n % 10 == 9:
            coordinator.commit()
        if message.word == "stop":
            coordinator.shutdown(RequestScope.ALL_TASKS)

    def on_timer(self, key, time, collector, coordinator):
        collector.send("copy", {"word": "timer " + key, "n": 0, "nth": self.counts.get(key)})


class InOrder(Counting, StreamTask):
    def process(self, envelope, collector, coordinator):
        self.count(envelope.message, collector, coordinator)


class Waiting(Counting, AsyncStreamTask):
    async def process(self, envelope, collector, coordinator):
        await asyncio.sleep(0.001)
        self.count(envelope.message, collector, coordinator)


def counting(task, bounded, backend="memory"):
    def describe(app):
        app.input_stream("lines", system="log", schema=LINE, partitions=2, timestamp="at", bounded=bounded)
        app.output_stream("copy", system="log", schema=COUNT, partitions=2, key="word")
        app.store("counts", key="string", value="bigint", backend=backend)
        app.task(task)

    return task_application("counting", config={"task.max.concurrency": "4"})(describe)


in_order, waiting, unbounded = counting(InOrder, True), counting(Waiting, True), counting(InOrder, False)
on_disk = counting(InOrder, True, "rocksdb")


async def doubled(line):
    await asyncio.sleep(0.001)
    return {"word": line.word, "n": 2 * line.n, "at": line.at}


@stream_application("doubling")
def doubling(app):
    lines = app.input_stream("lines", system="log", schema=LINE, partitions=2)
    lines.map_async(doubled, concurrency=8).send_to(app.output_stream("copy", system="log", schema=LINE, partitions=2, key="word"))
"""


@pytest.fixture
def place(place_of: Callable[[str], Place]) -> Place:
    made = place_of(APPLICATION)
    made.send(0, 60)
    return made


def ran(place: Place, name: str, mode: str) -> StageResult:
    run = place.prepare(name, mode)
    (stage,) = run.plan.stages
    run_stage(place.runtime, run, stage.stage_id, 1, {})
    return place.runtime.finish(place.folder_of(run, stage.stage_id))


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("in_order", "staged"),
        ("in_order", "pipelined"),
        ("waiting", "staged"),
        ("waiting", "pipelined"),
        ("on_disk", "staged"),
        ("on_disk", "pipelined"),
    ],
)
def test_stores_and_timers_go_through_epochs_and_commits(
    place: Place, name: str, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # where a host keeps stores
    result = ran(place, name, mode)
    counted = sorted((row["word"], row["nth"]) for row in place.rows("copy"))
    fired = [(f"timer {word}", 20) for word in "abc"]
    assert counted == [(word, nth) for word in "abc" for nth in range(1, 21)] + fired
    assert (result.epochs > 4) is (mode == "pipelined")


def test_a_task_ends_all_tasks_of_a_run_that_nobody_ends(place: Place) -> None:
    at = pa.array([0], pa.timestamp("us", "UTC"))
    place.log.append("lines", pa.table({"word": ["stop"], "n": pa.array([60], pa.int64()), "at": at}), key=["word"])
    place.send(61, 1000)
    ran(place, "unbounded", "continuous")
    rows = place.rows("copy")
    assert [row["n"] for row in rows if row["word"] == "stop"] == [60]
    counts = {word: sorted(row["nth"] for row in rows if row["word"] == word) for word in "abc"}
    assert all(found == list(range(1, len(found) + 1)) for found in counts.values())
    assert len(rows) < 500


@pytest.mark.parametrize("mode", ["staged", "pipelined"])
def test_coroutine_functions_give_every_message_once(place: Place, mode: str) -> None:
    ran(place, "doubling", mode)
    assert place.copied() == sorted((word, 2 * n) for word, n in place.sent)

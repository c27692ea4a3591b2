"""Ends of tasks: the prose cases "lifecycle" by their names.

The one that waits for what is in flight stands with the async tasks.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from airflow_samza import StreamTask, count, session, stream_application, task_application, tumbling
from airflow_samza.control.messages import EndOfStreamMessage
from airflow_samza.planner.planner import ExecutionPlanner
from airflow_samza.systems.memory.system import MemorySystem
from airflow_samza.systems.system import ControlEnvelope, Envelope, MessageRun, SystemStreamPartition
from airflow_samza.task.checkpoint import TaskStart
from airflow_samza.task.loop.reading import TaskInput
from airflow_samza.task.loop.run_loop import SectionRun
from airflow_samza.task.program.stage_program import StageProgram, compile_stage
from airflow_samza.testing import TestDriver

CALLS: list[str] = []


class Recording(StreamTask):
    """Says what is called, task by task."""

    def init(self, context: Any) -> None:
        self.name = context.task_name

    def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
        CALLS.append(f"{self.name} {envelope.stream}")

    def on_end_of_stream(self, collector: Any, coordinator: Any) -> None:
        CALLS.append(f"{self.name} end of stream")
        collector.send("ends", {"task": self.name})
        coordinator.commit()


@task_application("lifecycle")
def application(app: Any) -> None:
    app.input_stream("A", schema="n bigint")
    app.input_stream("B", schema="n bigint")
    app.output_stream("ends", schema="task string")
    app.task(Recording)


@pytest.fixture(autouse=True)
def _no_calls() -> None:
    CALLS.clear()


class Writing:
    """The place of a task's output."""

    def write(self, partition: int, batch: pa.RecordBatch) -> None: ...


class TwoTasks:
    """Task 0 with the partitions 0 of A and B, task 1 with the partitions 1; an epoch for every envelope."""

    def __init__(self) -> None:
        spec = application.spec()
        plan = ExecutionPlanner({}, {"A": 2, "B": 2}).plan(spec)
        self.program: StageProgram = compile_stage(spec, plan, plan.stages[0].stage_id)
        self.starts: dict[int, TaskStart] = {}
        self.ended: dict[int, bool] = {0: False, 1: False}

    def deliver(self, stream: str, partition: int, *, end: bool = False) -> None:
        start = self.starts.get(partition)
        offset = (start.checkpoint.offset(stream, partition) if start is not None else None) or 0
        place = SystemStreamPartition("memory", stream, partition)
        envelope: Envelope = MessageRun(place, offset, pa.record_batch({"n": [1]}))
        if end:
            envelope = ControlEnvelope(place, offset, EndOfStreamMessage(None, 0, final=True))
        run = SectionRun(self.program, 0, partition, {"ends": Writing()}, start=start, whole=False)
        assert list(run.run([TaskInput(stream, partition, [envelope], offset)])) == []
        self.starts[partition] = TaskStart(run.report.checkpoint, run.state)
        self.ended[partition] = run.report.ended


def test_run_loop_two_tasks() -> None:
    tasks = TwoTasks()
    sequence = [("A", 0), ("A", 1), ("B", 0), ("B", 1)]
    for stream, partition in sequence:
        tasks.deliver(stream, partition)
    ended = []
    for stream, partition in [("A", 0), ("B", 0), ("B", 1), ("A", 1)]:
        tasks.deliver(stream, partition, end=True)
        ended.append((f"eos {stream}{partition}", dict(tasks.ended)))
    assert ended == [
        ("eos A0", {0: False, 1: False}),
        ("eos B0", {0: True, 1: False}),
        ("eos B1", {0: True, 1: False}),
        ("eos A1", {0: True, 1: True}),
    ]
    assert CALLS == ["task-0 A", "task-1 A", "task-0 B", "task-1 B", "task-0 end of stream", "task-1 end of stream"]


def driver_of() -> TestDriver:
    driver = TestDriver(application, partitions=2)
    for stream in ("A", "B"):
        for partition in (0, 1):
            driver.pipe(stream, [{"n": 1}], partition=partition)
    return driver


def test_commit_after_callback(monkeypatch: pytest.MonkeyPatch) -> None:
    publish = MemorySystem.publish

    def publishing(system: MemorySystem, stream: Any, publication: Any) -> Any:
        if stream.name == "ends":
            CALLS.append("commit")
        return publish(system, stream, publication)

    monkeypatch.setattr(MemorySystem, "publish", publishing)
    driver = driver_of().run()
    assert [call for call in CALLS if "end" in call or call == "commit"] == [
        "task-0 end of stream",
        "task-1 end of stream",
        "commit",
    ]
    assert len(driver.output("ends")) == 2  # what the callback sent is in that commit


@pytest.mark.parametrize("mode", ["staged", "pipelined"])
def test_all_tasks_then_container_then_job(mode: str) -> None:
    driver = driver_of().run(mode=mode)
    assert [report.ended for report in driver.reports()] == [True, True]
    assert CALLS.count("task-0 end of stream") == CALLS.count("task-1 end of stream") == 1


def test_integration_eos() -> None:
    def describe(app: Any) -> None:
        views = app.input_stream("PageView", schema="n bigint").map(lambda view: view)
        views.partition_by("n", id="by-n").sink(received.append)

    received: list[Any] = []
    driver = TestDriver(stream_application("integration")(describe), partitions=4)
    for partition in range(4):
        driver.pipe("PageView", [{"n": 10 * partition + number} for number in range(10)], partition=partition)
    driver.run()
    assert len(received) == 40
    assert all(report.ended for report in driver.reports())


def windowed(window: Any, *key: str) -> TestDriver:
    def describe(app: Any) -> None:
        numbers = app.input_stream("numbers", schema="n int", key="n", bounded=False)
        numbers.window(window, id="w", **({"key": key} if key else {}), size=count()).send_to(
            app.output_stream("panes")
        )

    return TestDriver(stream_application("windowed")(describe))


def messages(driver: TestDriver, *numbers: int) -> TestDriver:
    return driver.pipe("numbers", [{"n": number} for number in numbers])


def sizes(driver: TestDriver) -> list[int]:
    return [row.size for row in driver.output("panes")]


def test_eos_flushes_tumbling_with_early_trigger() -> None:
    driver = messages(windowed(tumbling(1000, time="processing", early_every=2)), 1, 2, 1, 2, 1).step()
    assert sizes(driver) == [2, 2]
    assert sizes(driver.advance(1000).drain()) == [2, 2, 1]
    assert all(report.ended for report in driver.reports())


def test_eos_flushes_session_after_default_trigger() -> None:
    driver = messages(windowed(session(500, time="processing"), "n"), 1, 1).step()
    assert sizes(driver.advance(1000).step()) == [2]
    assert sizes(messages(driver, 1, 1).drain()) == [2, 2]


def test_eos_flushes_session_no_trigger_yet() -> None:
    assert sizes(messages(windowed(session(500, time="processing"), "n"), 1, 1, 1, 1).drain()) == [4]

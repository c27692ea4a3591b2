"""Ends of streams, tasks and stages (rules C2, C7).

The prose cases "sending" and "lifecycle", through the test driver.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from airflow_samza import StreamTask, count, stream_application, task_application
from airflow_samza.testing import TestDriver


@dataclass(frozen=True)
class PageView:
    member_id: int


def repartitioned(app: Any) -> None:
    views = app.input_stream("page-views", schema=PageView)
    views.map(lambda view: view).partition_by("member_id", id="by-member").send_to(app.output_stream("seen"))


@pytest.mark.parametrize(("producers", "partitions"), [(3, 4), (5, 1)])
def test_each_producer_task_writes_its_end_to_every_partition(producers: int, partitions: int) -> None:
    driver = TestDriver(
        stream_application("sending")(repartitioned),
        config={"job.intermediate.stream.partitions": str(partitions)},
        partitions={"page-views": producers},
    )
    driver.pipe("page-views", [PageView(number) for number in range(10)]).run()
    (first, second) = driver.plan.stages
    assert driver.plan.stream("by-member").partitions == partitions
    sent = [report.outputs["by-member"].end_of_stream for report in driver.reports(first.stage_id)]
    assert sorted(end.task_name or "" for end in sent if end) == [f"task-{number}" for number in range(producers)]
    assert {end.task_count for end in sent if end} == {producers}
    received = [report.inputs["by-member"].control_messages for report in driver.reports(second.stage_id)]
    assert received == [producers] * partitions  # n·m in all


def test_a_pipeline_with_a_repartition_receives_everything_and_finishes() -> None:
    driver = TestDriver(stream_application("integration")(repartitioned), partitions={"page-views": 4})
    for partition in range(4):
        driver.pipe("page-views", [PageView(partition * 10 + number) for number in range(10)], partition=partition)
    assert len(driver.run().output("seen")) == 40
    assert all(report.final for report in driver.reports())


def test_an_aggregation_is_flushed_before_the_end_is_sent_on() -> None:
    def describe(app: Any) -> None:
        views = app.input_stream("page-views", schema=PageView)
        counted = views.partition_by("member_id", id="by-member").aggregate("member_id", views=count(), id="counted")
        counted.partition_by("views", id="by-views").send_to(app.output_stream("out"))

    driver = TestDriver(stream_application("flush")(describe), partitions={"page-views": 2})
    driver.pipe("page-views", [PageView(number % 3) for number in range(9)])
    assert sorted((row.member_id, row.views) for row in driver.run().output("out")) == [(0, 3), (1, 3), (2, 3)]


class Recorder(StreamTask):
    """Tells what is called, task by task."""

    calls: list[tuple[str, str]] = []  # noqa: RUF012 (one list for all tasks of the test)

    def init(self, context: Any) -> None:
        self.name = context.task_name

    def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
        self.calls.append((self.name, "process"))

    def on_end_of_stream(self, collector: Any, coordinator: Any) -> None:
        self.calls.append((self.name, "end of stream"))
        collector.send("ends", {"task": self.name})
        coordinator.commit()

    def close(self) -> None:
        self.calls.append((self.name, "close"))


def test_a_task_ends_once_when_all_its_partitions_have_and_only_then() -> None:
    def describe(app: Any) -> None:
        app.input_stream("a", schema=PageView)
        app.input_stream("b", schema=PageView)
        app.output_stream("ends", schema="task string")
        app.task(Recorder)

    Recorder.calls.clear()
    driver = TestDriver(task_application("two-tasks")(describe), partitions=2)
    for stream in ("a", "b"):
        for partition in (0, 1):
            driver.pipe(stream, [PageView(partition)], partition=partition)
    driver.run()
    for task in ("task-0", "task-1"):
        assert [call for name, call in Recorder.calls if name == task] == [
            "process",
            "process",
            "end of stream",
            "close",
        ]
    assert sorted(row.task for row in driver.output("ends")) == ["task-0", "task-1"]  # it may still send


def test_a_plain_input_carries_no_control_messages() -> None:
    """Prose case "plain-input-has-no-type-byte": outputs and sources hold user messages only."""
    driver = TestDriver(stream_application("plain")(repartitioned), partitions={"page-views": 2})
    driver.pipe("page-views", [PageView(1), PageView(2)]).run()
    assert driver.output_table("seen").column_names == ["member_id"]
    assert len(driver.output("seen")) == 2

"""The low-level API: one task over all inputs, described like every other application."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_samza import (
    ClosableTask,
    EndOfStreamListenerTask,
    IncomingMessageEnvelope,
    InitableTask,
    StreamTask,
    TaskApplication,
    WindowableTask,
    task_application,
)
from airflow_samza.application.operator_specs import TaskSpec
from airflow_samza.errors import InvalidApplication


class Enrich(StreamTask, InitableTask, WindowableTask, EndOfStreamListenerTask, ClosableTask):
    def init(self, context: Any) -> None:
        self.profiles = context.get_table("profiles")

    def process(self, envelope: IncomingMessageEnvelope, collector: Any, coordinator: Any) -> None:
        collector.send("enriched", self.profiles.get(envelope.key))

    def window(self, collector: Any, coordinator: Any) -> None:
        coordinator.commit()

    def on_end_of_stream(self, collector: Any, coordinator: Any) -> None:
        collector.send("enriched", {"end": True})

    def close(self) -> None:
        self.profiles = None


class Enriching(TaskApplication):
    name = "enriching"

    def describe(self, app: Any) -> None:
        app.input_stream("views", schema="member_id bigint", key="member_id")
        app.task(Enrich)
        app.input_stream("clicks", schema="member_id bigint", key="member_id")
        app.pushed_table("profiles", key="member_id", schema="member_id bigint, tier string")
        app.output_stream("enriched")


@task_application("enriching")
def enriching(app: Any) -> None:
    Enriching().describe(app)


@pytest.mark.parametrize("application", [Enriching(), enriching])
def test_one_task_over_all_inputs_whatever_the_order_declared(application: TaskApplication) -> None:
    spec = application.spec()
    task = spec.operators[-1]
    assert isinstance(task, TaskSpec)
    assert task.op_id == "enriching-1-task-task"
    assert task.factory is Enrich
    assert [source.name for source in task.inputs] == ["views", "clicks"]
    assert [stream.stream_id for stream in task.outputs] == ["enriched"]
    assert [table.table_id for table in task.tables] == ["profiles"]
    assert task.location is not None
    assert spec.next_operators(task.inputs[1]) == (task,)


def test_a_factory_function_will_do() -> None:
    application = task_application("a")(lambda app: app.task(lambda: Enrich()))
    assert isinstance(application.spec().operators[-1], TaskSpec)


class Empty:
    pass


class Unfinished(StreamTask, ClosableTask):
    def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
        collector.send("o", envelope.message)


class Demanding(Enrich):
    def __init__(self, limit: int) -> None:
        self.limit = limit


@pytest.mark.parametrize(
    ("describe", "sentence"),
    [
        (lambda app: app.input_stream("i"), "has no task"),
        (lambda app: (app.task(Enrich), app.task(Enrich)), "said twice"),
        (lambda app: app.task(Enrich()), "is made already"),
        (lambda app: app.task(Empty), "no method process"),
        (lambda app: app.task(Unfinished), "does not define close"),
        (lambda app: app.task(Demanding), "with 0 values"),
        (lambda app: app.task("Enrich"), "takes a Python callable"),
        (lambda app: app.task(lambda config: Enrich()), "with 0 values"),
        (lambda app: app.input_stream("i").map(lambda message: message), "map was called in the low-level application"),
        (
            lambda app: app.input_stream("i").partition_by("k", id="p"),
            "partition_by was called in the low-level application",
        ),
    ],
)
def test_rejects(describe: Any, sentence: str) -> None:
    with pytest.raises(InvalidApplication, match=sentence) as caught:
        task_application("low")(describe).spec()
    assert caught.value.hint


def test_a_high_level_application_has_no_task() -> None:
    from airflow_samza import stream_application

    with pytest.raises(InvalidApplication, match=r"raised AttributeError: .*'task' \(.*test_task_api\.py:\d+\)"):
        stream_application("high")(lambda app: app.task(Enrich)).spec()

"""Streams that an operator writes beside its results, and windows without a key, as the planner sees them."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_samza import count, stream_application, tumbling
from airflow_samza.errors import InvalidApplication
from airflow_samza.planner.explain import explain
from airflow_samza.planner.plan import ExecutionPlan
from airflow_samza.planner.planner import ExecutionPlanner, plan_shape

SCHEMA = "at timestamp, country string"


def plan(describe: Any) -> ExecutionPlan:
    return ExecutionPlanner({}, {"views": 4}).plan(stream_application("test")(describe).spec())


def late(app: Any) -> None:
    views = app.input_stream("views", schema=SCHEMA, timestamp="at").partition_by("country", id="by-country")
    windows = views.window(
        tumbling("1 minute"), key="country", n=count(), id="w", late_to=app.output_stream("late", schema=SCHEMA)
    )
    windows.send_to(app.output_stream("out"))


def test_a_side_output_is_an_output_of_the_stage_and_the_operator_its_writer() -> None:
    made = plan(late)
    assert made.stages[1].outputs == ("late", "out")
    assert made.stream("late").writers == ("test-1-window-w",)


def test_a_plan_shows_side_outputs() -> None:
    made = plan(late)
    assert ("side_outputs", "late") in made.operator("test-1-window-w").details
    assert "late" in explain(made)


def test_late_messages_must_fit_the_stream_that_they_go_to() -> None:
    def describe(app: Any) -> None:
        views = app.input_stream("views", schema=SCHEMA, timestamp="at")
        views.window(
            tumbling(5), key="country", n=count(), id="w", late_to=app.output_stream("late", schema="country bigint")
        )

    with pytest.raises(InvalidApplication, match="cannot be written to output stream 'late'"):
        plan(describe)


@pytest.mark.parametrize(
    ("window", "late_to", "sentence"),
    [(tumbling(5), "late", "late_to='late'"), (tumbling(5, time="processing"), None, "nothing is late")],
)
def test_what_makes_no_sense_as_late_to_is_rejected(window: Any, late_to: Any, sentence: str) -> None:
    def describe(app: Any) -> None:
        views = app.input_stream("views", schema=SCHEMA, timestamp="at")
        views.window(window, key="country", n=count(), id="w", late_to=late_to or app.output_stream("late"))

    with pytest.raises(InvalidApplication, match=sentence):
        plan(describe)


def unkeyed(app: Any) -> None:
    views = app.input_stream("views", schema=SCHEMA, timestamp="at")
    views.window(tumbling(5), n=count(), id="w").send_to(app.output_stream("out"))


def test_a_window_without_a_key_is_made_by_each_task_and_the_plan_warns_of_it() -> None:
    (warning,) = plan(unkeyed).warnings
    assert "has no key, so each task makes its own result of what it reads: 'views' has 4 partitions" in warning
    assert ".broadcast(id=" in warning


def test_a_window_without_a_key_is_fine_behind_a_broadcast_and_when_nobody_has_counted() -> None:
    def describe(app: Any) -> None:
        views = app.input_stream("views", schema=SCHEMA, timestamp="at").broadcast(id="together")
        views.window(tumbling(5), n=count(), id="w").send_to(app.output_stream("out"))

    assert plan(describe).stages[1].task_count == 1
    assert not plan(describe).warnings
    assert plan_shape(stream_application("test")(unkeyed).spec()).stages

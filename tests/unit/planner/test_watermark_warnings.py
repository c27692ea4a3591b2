"""Operators that hold everything until their input ends are named by the plan."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_samza import bounded_delay, count, stream_application, tumbling
from airflow_samza.planner.planner import ExecutionPlanner


def warnings(time: str = "event", **said: Any) -> list[str]:
    def describe(app: Any) -> None:
        views = app.input_stream("views", schema="k string, at timestamp", timestamp="at", **said).partition_by(
            "k", id="by-k"
        )
        views.window(tumbling("1 minute", time=time), key="k", n=count(), id="w").send_to(app.output_stream("out"))

    plan = ExecutionPlanner({}, {"views": 4}).plan(stream_application("test")(describe).spec())
    return [warning for warning in plan.warnings if "watermarks" in warning]


def test_a_window_behind_an_input_without_end_and_watermarks_is_warned_of() -> None:
    (warning,) = warnings(bounded=False)
    assert warning.startswith(
        "window w goes by event time, and the input 'views', which has no end, makes no watermarks"
    )


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"bounded": False, "max_delay": "1 s"},
        {"bounded": False, "watermarks": bounded_delay(0)},
        {"bounded": False, "time": "processing"},
    ],
)
def test_other_windows_are_not(said: dict[str, Any]) -> None:
    assert warnings(**said) == []

"""Operators that hold everything until their input ends are named by the plan."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from airflow_samza import bounded_delay, count, stream_application, system_time, tumbling
from airflow_samza.errors import PlanError
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


SHARED: dict[str, Any] = {"key": "k"}


@pytest.mark.parametrize(
    ("how", "held"), [("inner", "it lets go of messages"), ("left", "messages without a partner leave it")]
)
def test_a_join_behind_an_input_without_end_and_watermarks_is_warned_of(how: str, held: str) -> None:
    def describe(app: Any, **watermarks: str) -> None:
        left, right = (
            app.input_stream(
                name, schema=f"k string, {at} timestamp", timestamp=at, key="k", bounded=False, **watermarks
            )
            for name, at in (("left", "a"), ("right", "b"))
        )
        left.join(right, key="k", how=how, ttl="1 minute", id="both").send_to(app.output_stream("out"))

    (warning,) = (text for text in warnings_of(describe, "left", "right") if "watermarks" in text)
    assert f"makes no watermarks: {held} only when the application is drained" in warning
    assert not any("no watermarks" in text for text in warnings_of(partial(describe, max_delay="1 s"), "left", "right"))


@pytest.mark.parametrize(
    "said",
    [{"slice": "checkpoint"}, {"bounded": False}, SHARED, {"timestamp": system_time()}],
)
def test_an_aggregation_behind_an_input_without_end_is_warned_of(said: dict[str, Any]) -> None:
    said = {"bounded": False, **said} if "timestamp" in said else said

    def describe(app: Any, **said: Any) -> None:
        declare = app.shared_stream if said == SHARED else app.input_stream
        views = declare("views", schema="k string, read_at timestamp", system="log", **said)
        others = app.input_stream("others", schema="k string, read_at timestamp")
        counts = views.where("k > ''").merge(others).partition_by("k", id="by-k").aggregate("k", n=count(), id="counts")
        counts.select("n").aggregate("n", keys=count(), id="again", assume_partitioned_by="n").send_to(
            app.output_stream("out")
        )
        others.aggregate("k", n=count(), id="whole", assume_partitioned_by="k").send_to(app.output_stream("whole"))

    texts = [text for text in warnings_of(partial(describe, **said), "views", "others") if "end of its input" in text]
    assert [text.partition(" emits")[0] for text in texts] == [
        "aggregate counts of the stage 'by-k'",
        "aggregate again of the stage 'by-k'",
    ]
    assert all("the input 'views' has no end" in text and "Use a window" in text for text in texts)
    assert not any("end of its input" in text for text in warnings_of(describe, "views", "others"))


def warnings_of(describe: Callable[[Any], None], *inputs: str) -> tuple[str, ...]:
    """The warnings of an application's plan; its inputs have four partitions."""
    return ExecutionPlanner({}, dict.fromkeys(inputs, 4)).plan(stream_application("test")(describe).spec()).warnings


def meeting(made: Callable[[Any, Any], Any], *, config: dict[str, str] | None = None, **said: Any) -> list[str]:
    """The warnings of silent inputs for two inputs that meet; ``said`` is of the second one."""

    def describe(app: Any) -> None:
        first, second = (
            app.input_stream(name, schema="k string, at timestamp", timestamp="at", key="k", partitions=1, **kept)
            for name, kept in (("views", UNBOUNDED), ("clicks", {**UNBOUNDED, **said}))
        )
        made(first, second).send_to(app.output_stream("out"))

    plan = ExecutionPlanner(config).plan(stream_application("test")(describe).spec(config or {}))
    return [warning for warning in plan.warnings if "silent" in warning]


UNBOUNDED: dict[str, Any] = {"bounded": False, "max_delay": "1 s"}
MINUTES: dict[str, Any] = {"n": count(), "id": "w"}


def merged(first: Any, second: Any) -> Any:
    return first.merge(second, id="all").window(tumbling("1 minute"), key="k", **MINUTES)


def merged_behind_topics(first: Any, second: Any) -> Any:
    both = first.partition_by("k", id="one").merge(second.partition_by("k", id="two"), id="all")
    return both.partition_by("k", id="three").window(tumbling("1 minute"), key="k", **MINUTES)


def joined(first: Any, second: Any) -> Any:
    return first.join(second, key="k", ttl="1 minute", id="pairs", function=lambda left, right: left)


@pytest.mark.parametrize(
    ("made", "name"),
    [(merged, "merge all"), (merged_behind_topics, "merge all"), (joined, "join pairs")],
    ids=["merged", "behind topics", "joined"],
)
def test_a_merge_or_join_of_an_input_that_may_fall_silent_is_warned_of(made: Any, name: str) -> None:
    (warning,) = meeting(made)
    assert warning == (
        f"{name} goes by the slowest of its inputs: while one of 'views' and 'clicks' is silent, windows and joins "
        "wait. Set task.watermark.idle.timeout.ms to the time after which a silent input is left out."
    )


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (merged, {"config": {"task.watermark.idle.timeout.ms": "60000"}}),
        (merged, {"bounded": True, "max_delay": None}),
        (lambda first, second: first.merge(second, id="all"), {}),
        (lambda first, _: first.window(tumbling("1 minute"), key="k", **MINUTES), {}),
        (
            lambda first, _: first.merge(first.select("*"), id="all").window(tumbling("1 minute"), key="k", **MINUTES),
            {},
        ),
        (
            lambda first, second: first.merge(second, id="all").window(
                tumbling("1 minute", time="processing"), key="k", **MINUTES
            ),
            {},
        ),
    ],
)
def test_where_no_input_can_hold_event_time_back_nothing_is_warned_of(made: Any, said: dict[str, Any]) -> None:
    assert meeting(made, **said) == []


def test_of_merges_one_behind_the_other_each_that_adds_an_input_is_warned_of_once() -> None:
    def describe(app: Any) -> None:
        streams = [app.input_stream(n, schema="k string, at timestamp", timestamp="at", **UNBOUNDED) for n in "abc"]
        two = streams[0].merge(streams[1], id="two")
        three = two.where("k <> ''").merge(two.where("k = ''"), id="again").merge(streams[2], id="three")
        three.window(tumbling("1 minute"), **MINUTES).send_to(app.output_stream("out"))

    plan = ExecutionPlanner({}, dict.fromkeys("abc", 1)).plan(stream_application("test")(describe).spec())
    named = [re.findall(r"^(.*) goes|'(.)'", warning) for warning in plan.warnings]
    assert ["".join(found) for each in named for found in each] == ["merge two", "a", "b", "merge three", "a", "c"]


@pytest.mark.parametrize(("retain", "endless", "errors"), [(None, True, 1), ("1 day", True, 0), (None, False, 0)])
def test_a_join_as_of_event_times_that_would_keep_every_row_for_ever_is_rejected(
    retain: str | None, endless: bool, errors: int
) -> None:
    def describe(app: Any) -> None:
        changes = app.side_input("changes", schema="k string, v int, at timestamp", key="k", timestamp="at")
        names = app.table("names", key="k", side_inputs=[changes], **({"retain": retain} if retain else {}))
        views = app.input_stream(
            "views", schema="k string, seen timestamp", key="k", timestamp="seen", max_delay="1 s", bounded=not endless
        )
        joined = views.join(names, key="k", as_of="event time", wait="1 hour", id="j")
        joined.send_to(app.output_stream("out"))

    planner = ExecutionPlanner({}, {"views": 2, "changes": 2})
    spec = stream_application("test")(describe).spec()
    if errors:
        with pytest.raises(PlanError, match="table 'names' has no retain=, and the input 'views' has no end"):
            planner.plan(spec)
    else:
        planner.plan(spec)

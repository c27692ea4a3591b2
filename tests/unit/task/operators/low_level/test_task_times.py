"""Timers, window(), commits and shutdown of low-level tasks.

What is called when, and that nothing of it is lost between epochs.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import pytest

from airflow_samza import RequestScope, StreamTask, bounded_delay, task_application
from airflow_samza.errors import ConfigError, MessageError, StageError
from airflow_samza.task.operators.low_level import timers
from airflow_samza.testing import TestDriver

NOW = 1_767_225_600_000  # where the driver's clock begins: 2026-01-01
OFF = {"task.window.ms": "-1"}


class Telling(StreamTask):
    """Sends what it is called with; ``acts`` say what it does for a message."""

    acts: dict[str, Act] = {}  # noqa: RUF012 (one for all tasks of a test)

    def init(self, context: Any) -> None:
        self.context = context

    def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
        self.collector, self.coordinator = collector, coordinator
        self.tell(collector, envelope.message.word)
        act = self.acts.get(envelope.message.word)
        if act is not None:
            act(self, self.context)

    def on_timer(self, key: Any, time: int, collector: Any, coordinator: Any) -> None:
        self.collector, self.coordinator = collector, coordinator
        self.tell(collector, f"{key}@{time}")
        act = self.acts.get(f"timer {key}")
        if act is not None:
            act(self, self.context)

    def window(self, collector: Any, coordinator: Any) -> None:
        self.tell(collector, f"window@{self.context.now_ms() - NOW}")

    def on_end_of_stream(self, collector: Any, coordinator: Any) -> None:
        self.tell(collector, "end")
        act = self.acts.get("end")
        if act is not None:
            self.collector, self.coordinator = collector, coordinator
            act(self, self.context)

    def tell(self, collector: Any, text: str) -> None:
        collector.send("out", {"text": text})


@pytest.fixture(autouse=True)
def _no_acts() -> Any:
    Telling.acts = {}
    yield
    Telling.acts = {}


def driver_of(
    *, bounded: bool = False, config: dict[str, str] = OFF, task: type = Telling, partitions: int = 1
) -> TestDriver:
    def describe(app: Any) -> None:
        more = {} if bounded else {"watermarks": bounded_delay(0)}
        app.input_stream("words", schema="word string, at timestamp", timestamp="at", bounded=bounded, **more)
        app.output_stream("out", schema="text string")
        app.task(task)

    return TestDriver(task_application("telling")(describe), config=config, partitions=partitions)


def at(ms: int, *words: str) -> list[dict[str, Any]]:
    return [{"word": word, "at": datetime.fromtimestamp(ms / 1000, timezone.utc)} for word in words]


def told(driver: TestDriver) -> list[str]:
    return [row.text for row in driver.output("out")]


Act = Callable[[Telling, Any], None]


def sets(*times: int, kind: str = "event", key: str = "k") -> Act:
    """Sets a timer for each time, named after it."""

    def act(task: Telling, context: Any) -> None:
        for time in times:
            context.timers.set(f"{key}{time}", time, kind=kind)

    return act


def both(one: Act, other: Act) -> Act:
    def act(task: Telling, context: Any) -> None:
        one(task, context)
        other(task, context)

    return act


# -- event timers ------------------------------------------------------------------------------------------------------


def test_event_timers_fire_when_the_watermark_reaches_them_in_order_of_time() -> None:
    Telling.acts = {"a": sets(900, 300, 600)}
    driver = driver_of().pipe("words", at(100, "a")).step()
    assert told(driver) == ["a"]
    driver.pipe("words", at(600, "b")).step()
    assert told(driver) == ["a", "b", "k300@300", "k600@600"]
    driver.pipe("words", at(901, "c")).step()
    assert told(driver)[4:] == ["c", "k900@900"]


def test_timers_of_one_time_fire_in_order_of_their_keys() -> None:
    keys: list[Any] = [("b", 1), "b", 10, "a", 9, ("a", 2)]

    def act(task: Telling, context: Any) -> None:
        for key in keys:
            context.timers.set(key, 5)

    Telling.acts = {"a": act}
    driver = driver_of(bounded=True).pipe("words", at(0, "a")).run()
    assert told(driver)[1:-1] == ["9@5", "10@5", "a@5", "b@5", "('a', 2)@5", "('b', 1)@5"]


@pytest.mark.parametrize("epoch_messages", [1, None])
def test_timers_are_kept_from_epoch_to_epoch_and_over_the_end_of_a_slice(epoch_messages: int | None) -> None:
    Telling.acts = {"a": sets(500), "p": sets(NOW + 10, kind="processing")}
    driver = driver_of().pipe("words", at(100, "a", "p", "x")).stop(epoch_messages=epoch_messages)
    assert told(driver) == ["a", "p", "x"]  # the end of a slice fires nothing
    driver.pipe("words", at(600, "b")).advance(10).step(epoch_messages=epoch_messages)
    assert sorted(told(driver)[3:]) == ["b", "k1767225600010@1767225600010", "k500@500"]


def test_a_timer_for_a_time_that_has_passed_is_due_after_the_call_also_in_the_next_epoch() -> None:
    Telling.acts = {"late": sets(50)}
    driver = driver_of().pipe("words", at(100, "a")).step()
    driver.pipe("words", at(100, "late", "b")).step()
    assert told(driver) == ["a", "late", "k50@50", "b"]


def test_setting_moves_a_timer_and_cancelling_takes_it_back() -> None:
    said = []

    def act(task: Telling, context: Any) -> None:
        context.timers.set("moved", 10)
        context.timers.set("moved", 30)
        context.timers.set("gone", 20)
        said.extend(
            [
                context.timers.cancel("gone"),
                context.timers.cancel("gone"),
                context.timers.cancel("moved", kind="processing"),
            ]
        )

    Telling.acts = {"a": act}
    assert told(driver_of(bounded=True).pipe("words", at(0, "a")).run()) == ["a", "moved@30", "end"]
    assert said == [True, False, False]


def test_a_datetime_with_a_zone_is_a_time() -> None:
    Telling.acts = {
        "a": lambda task, context: context.timers.set("k", datetime(2026, 1, 1, 0, 0, 0, 1999, timezone.utc))
    }
    assert told(driver_of(bounded=True).pipe("words", at(0, "a")).run()) == ["a", f"k@{NOW + 1}", "end"]


def test_at_the_final_end_event_timers_fire_before_on_end_of_stream_and_processing_timers_never() -> None:
    Telling.acts = {
        "a": both(sets(10**15, key=""), sets(NOW + 5, kind="processing")),
        f"timer {10**15}": lambda task, context: context.timers.set("then", 2 * 10**15),
    }
    expected = ["a", f"{10**15}@{10**15}", f"then@{2 * 10**15}", "end"]
    assert told(driver_of(bounded=True).pipe("words", at(0, "a")).run()) == expected
    driver = driver_of().pipe("words", at(0, "a")).drain()
    assert told(driver) == expected


def test_a_timer_that_is_always_set_again_is_told_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timers, "_MOST", 50)
    Telling.acts = {"a": sets(60, key=""), "timer 60": lambda task, context: context.timers.set("60", 60)}
    with pytest.raises(StageError, match="the timer '60' has fired 50 times since, set again each time") as caught:
        driver_of(bounded=True).pipe("words", at(0, "a")).run()
    assert "context.timers.ending" in caught.value.hint
    Telling.acts["timer 60"] = lambda task, context: None if context.timers.ending else context.timers.set("60", 60)
    assert told(driver_of(bounded=True).pipe("words", at(0, "a")).run()) == ["a", "60@60", "end"]


@pytest.mark.parametrize("kind", ["event", "processing"])
def test_a_timer_that_is_always_set_again_for_a_time_that_has_passed_is_told(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timers, "_MOST", 50)
    again = sets(0, kind=kind)
    Telling.acts = {"a": again, "timer k0": again}
    with pytest.raises(StageError, match="The timer 'k0' has fired 50 times in a row, set again each time"):
        driver_of().pipe("words", at(100, "a", "b")).step()


@pytest.mark.parametrize("mode", ["staged", "pipelined"])
def test_modes_fire_the_same_timers(mode: str) -> None:
    Telling.acts = {"a": sets(10, 30), "timer k10": sets(20, key="again")}
    driver = (
        driver_of(bounded=True)
        .pipe("words", at(0, "a", "b"))
        .run(mode=mode, epoch_messages=None if mode == "staged" else 1)
    )
    assert told(driver) == ["a", "b", "k10@10", "again20@20", "k30@30", "end"]


# -- processing timers and window() ------------------------------------------------------------------------------------


def test_processing_timers_fire_when_the_clock_reaches_them() -> None:
    Telling.acts = {"a": sets(NOW + 1000, NOW + 500, kind="processing")}
    driver = driver_of().pipe("words", at(0, "a")).step()
    driver.advance(499).step()
    assert told(driver) == ["a"]
    driver.advance(1).step()
    assert told(driver) == ["a", f"k{NOW + 500}@{NOW + 500}"]
    driver.advance(5000).step()
    assert told(driver)[2:] == [f"k{NOW + 1000}@{NOW + 1000}"]


def test_window_is_called_when_its_time_has_passed_whatever_the_epochs() -> None:
    driver = driver_of(config={"task.window.ms": "1000"}).pipe("words", at(0, "a")).step()
    for ms in (600, 399):
        driver.advance(ms).step()
    assert told(driver) == ["a"]
    driver.advance(1).step()
    assert told(driver) == ["a", "window@1000"]
    driver.advance(5500).step()  # once, however many were missed; the next a whole period later
    driver.advance(999).step()
    assert told(driver)[2:] == ["window@6500"]
    driver.advance(1).step()
    assert told(driver)[3:] == ["window@7500"]


def test_window_comes_between_messages() -> None:
    driver = driver_of(config={"task.window.ms": "1000"}, bounded=True)

    def act(task: Telling, context: Any) -> None:
        driver.advance(1000)

    Telling.acts = {"slow": act}
    assert told(driver.pipe("words", at(0, "a", "slow", "b")).run()) == ["a", "slow", "window@1000", "b", "end"]


def test_window_without_a_time_is_rejected_and_off_means_never() -> None:
    with pytest.raises(
        ConfigError, match=r"has window\(\), and task.window.ms is not set: it would never be called"
    ) as caught:
        driver_of(config={}).pipe("words", at(0, "a")).step()
    assert '"-1" for never' in caught.value.hint
    driver = driver_of(config=OFF).pipe("words", at(0, "a")).step()
    assert told(driver.advance("1 day").step()) == ["a"]


def test_only_a_task_that_waits_for_time_wants_epochs_without_messages() -> None:
    Telling.acts = {"p": sets(NOW + 5, kind="processing"), "e": sets(5)}
    waits = []
    for word, config in (("a", OFF), ("e", OFF), ("p", OFF), ("a", {"task.window.ms": "1000"})):
        (report,) = driver_of(config=config).pipe("words", at(0, word)).step().reports()
        waits.append(report.follows_clock)
    assert waits == [False, False, True, True]


# -- commit and shutdown -----------------------------------------------------------------------------------------------


def test_a_shutdown_ends_the_task_after_the_call_and_calls_nothing_more() -> None:
    Telling.acts = {"stop": both(sets(5), lambda task, context: task.coordinator.shutdown())}
    driver = driver_of(bounded=True).pipe("words", at(0, "a", "stop", "b")).run()
    assert told(driver) == ["a", "stop"]
    assert driver.reports()[0].shut_down


def test_a_scope_is_one_of_two() -> None:
    Telling.acts = {"stop": lambda task, context: task.coordinator.shutdown(RequestScope.ALL_TASKS)}
    assert told(driver_of(bounded=True).pipe("words", at(0, "stop", "b")).run()) == ["stop"]
    Telling.acts = {"stop": lambda task, context: task.coordinator.commit("all")}
    with pytest.raises(StageError, match=r"calls commit with the scope 'all' \(.*test_task_times\.py:\d+\)"):
        driver_of(bounded=True).pipe("words", at(0, "stop")).run()


def test_all_tasks_end_after_the_epoch_in_which_one_asks_for_it() -> None:
    Telling.acts = {"stop": lambda task, context: task.coordinator.shutdown(RequestScope.ALL_TASKS)}
    driver = driver_of(partitions=2)
    driver.pipe("words", at(0, "a", "b"), partition=0).pipe("words", at(0, "stop", "c"), partition=1).step()
    assert [[row.text for row in driver.output("out", partition=partition)] for partition in (0, 1)] == [
        ["a", "b"],
        ["stop"],
    ]
    assert [(report.shut_down, report.ended) for report in driver.reports()] == [(True, True), (True, True)]
    driver.pipe("words", at(0, "d"), partition=0).step()
    assert sorted(told(driver)) == ["a", "b", "stop"]


def test_a_commit_ends_the_epoch_after_the_message_and_the_next_goes_on_behind_it() -> None:
    epochs: list[list[str]] = []

    class Counting(Telling):
        def init(self, context: Any) -> None:
            super().init(context)
            epochs.append([])

        def tell(self, collector: Any, text: str) -> None:
            epochs[-1].append(text)
            super().tell(collector, text)

    Telling.acts = {"commit": lambda task, context: task.coordinator.commit()}
    driver = driver_of(task=Counting).pipe("words", at(0, "a", "commit", "b", "c", "commit", "d")).step()
    assert [words for words in epochs if words] == [["a", "commit"], ["b", "c", "commit"], ["d"]]
    assert told(driver) == ["a", "commit", "b", "c", "commit", "d"]
    assert driver.reports()[0].inputs["words"].next_offsets == {0: 6}


def test_what_is_left_after_a_commit_does_not_move_the_watermark() -> None:
    Telling.acts = {"a": both(sets(50), lambda task, context: task.coordinator.commit())}
    driver = driver_of().pipe("words", at(0, "a") + at(10, "b") + at(60, "c")).step()
    assert told(driver) == ["a", "b", "c", "k50@50"]


# -- bad input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("act", "sentence"),
    [
        (lambda timers: timers.set("k", 1, kind="wall"), "sets a timer of the kind 'wall'"),
        (lambda timers: timers.cancel("k", kind=None), "cancels a timer of the kind None"),
        (lambda timers: timers.set("k", -5), "sets a timer for -5, which is no time"),
        (lambda timers: timers.set("k", 1.5), "sets a timer for 1.5, which is no time"),
        (lambda timers: timers.set("k", 2**63 - 1), "sets a timer for 9223372036854775807, which is no time"),
        (lambda timers: timers.set("k", 2**63), "sets a timer for 9223372036854775808, which is no time"),
        (lambda timers: timers.set("k", True), "sets a timer for True, which is no time"),
        (lambda timers: timers.set("k", datetime(2026, 1, 1)), "a time without a zone"),
        (
            lambda timers: timers.set("k", datetime(1969, 12, 31, tzinfo=timezone.utc)),
            "for datetime.*, which is no time",
        ),
        (lambda timers: timers.set(1.5, 1), "The key of a timer is 1.5"),
        (lambda timers: timers.set(("a", None), 1), "The key of a timer is None"),
    ],
)
def test_wrong_timers_are_said_with_the_line(act: Any, sentence: str) -> None:
    Telling.acts = {"a": lambda task, context: act(context.timers)}
    with pytest.raises(StageError, match=sentence + r".* \(.*test_task_times\.py:\d+\)\.") as caught:
        driver_of(bounded=True).pipe("words", at(0, "a")).run()
    assert caught.value.hint


def test_a_task_without_on_timer_cannot_set_one() -> None:
    class Deaf(StreamTask):
        def init(self, context: Any) -> None:
            context.timers.set("k", 1)

        def process(self, envelope: Any, collector: Any, coordinator: Any) -> None: ...

    with pytest.raises(StageError, match="sets a timer, and has no method on_timer"):
        driver_of(bounded=True, task=Deaf).run()


def test_a_timer_that_raises_is_named() -> None:
    Telling.acts = {"a": sets(5), "timer k5": lambda task, context: context.timers.set("k", 1 // 0)}
    with pytest.raises(MessageError, match=r"Telling.on_timer in task 'task' failed with ZeroDivisionError"):
        driver_of(bounded=True).pipe("words", at(0, "a")).run()

"""A low-level task gives the same wherever its run is cut into epochs, and whenever it asks for commits.

Its stores, timers, messages.
"""

from __future__ import annotations

import random
from datetime import datetime, timezone
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from airflow_samza import StreamTask, bounded_delay, task_application
from airflow_samza.testing import TestDriver

Message = tuple[int, str, str, int]
"""A message: time, key, action, and number."""

ACTS = ("put", "delete", "set", "cancel", "commit", "look")

messages = st.lists(
    st.tuples(st.integers(0, 50), st.sampled_from("abc"), st.sampled_from(ACTS), st.integers(0, 60)), max_size=25
)


class Acting(StreamTask):
    """Does what messages say, and tells what it sees."""

    def init(self, context: Any) -> None:
        self.store = context.get_store("numbers")
        self.timers = context.timers

    def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
        message = envelope.message
        if message.act == "put":
            self.store.put(message.key, message.n)
        elif message.act == "delete":
            self.store.delete(message.key)
        elif message.act == "set":
            self.timers.set((message.key, message.timer), message.n)
        elif message.act == "cancel":
            self.timers.cancel((message.key, message.timer))
        elif message.act == "commit":
            coordinator.commit()
        else:
            collector.send("out", {"text": repr((message.key, list(self.store.all())))})

    def on_timer(self, key: Any, time: int, collector: Any, coordinator: Any) -> None:
        collector.send("out", {"text": f"timer {key}"})
        if key[1] < 1000:  # once more, later
            self.timers.set((key[0], key[1] + 1000), time + 5)
        elif key[1] % 2:
            coordinator.commit()

    def on_end_of_stream(self, collector: Any, coordinator: Any) -> None:
        collector.send("out", {"text": f"end {list(self.store.all())}"})


def driver_of(said: list[Message], *, bounded: bool) -> TestDriver:
    def describe(app: Any) -> None:
        more = {} if bounded else {"watermarks": bounded_delay(10)}
        app.input_stream(
            "in",
            schema="key string, act string, n int, timer int, at timestamp",
            timestamp="at",
            bounded=bounded,
            **more,
        )
        app.output_stream("out", schema="text string")
        app.store("numbers", key="string", value="int")
        app.task(Acting)

    driver = TestDriver(task_application("acting")(describe))
    return driver if not bounded else driver.pipe("in", rows(said))


def rows(said: list[Message], timers: range | None = None) -> list[dict[str, Any]]:
    """The messages; ``timers`` names their timers, else those of equal numbers are one."""
    numbers = [n % 6 for *_, n in said] if timers is None else timers
    return [
        {"key": key, "act": act, "n": n, "timer": timer, "at": datetime.fromtimestamp(at / 1000, timezone.utc)}
        for (at, key, act, n), timer in zip(said, numbers, strict=True)
    ]


def told(driver: TestDriver) -> list[str]:
    return [row.text for row in driver.output("out")]


@settings(deadline=None)
@given(messages, st.integers(1, 6), st.integers(0, 10**6))
@pytest.mark.extended
def test_a_bounded_run_gives_the_same_in_epochs_as_in_one_go(
    said: list[Message], epoch_messages: int, seed: int
) -> None:
    driver = driver_of(said, bounded=True)
    expected = told(driver.run())
    assert told(driver.run(mode="pipelined", epoch_messages=epoch_messages, shuffle=random.Random(seed))) == expected


@settings(deadline=None)
@given(messages, st.lists(st.integers(0, 8), max_size=6), st.booleans())
def test_a_run_that_ends_for_good_fires_every_timer_once_wherever_it_was_cut(
    said: list[Message], cuts: list[int], stops: bool
) -> None:
    driver = driver_of([], bounded=False)
    done = 0
    for size in cuts:
        part = said[done : done + size]
        driver.pipe("in", rows(part, range(done, done + len(part))))
        done += len(part)
        driver.stop(epoch_messages=3) if stops else driver.step(epoch_messages=3)
    driver.pipe("in", rows(said[done:], range(done, len(said)))).drain()
    expected = [
        (key, number + more) for number, (_, key, act, _) in enumerate(said) if act == "set" for more in (0, 1000)
    ]
    assert sorted(text for text in told(driver) if text.startswith("timer")) == sorted(
        f"timer {timer}" for timer in expected
    )

"""Rule C8 in running applications: inputs that fall silent, in merges and joins, and what comes when they wake up."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from airflow_samza import count, stream_application, tumbling
from airflow_samza.testing import TestDriver

NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
MESSAGE = "k string, at timestamp"


def inputs(app: Any) -> list[Any]:
    return [
        app.input_stream(name, schema=MESSAGE, timestamp="at", max_delay="0 s", bounded=False, partitions=1, key="k")
        for name in ("spoken", "silent")
    ]


def merged(app: Any) -> Any:
    spoken, silent = inputs(app)
    return spoken.merge(silent, id="both").window(tumbling("1 minute"), n=count(), id="minutes")


def merged_behind_topics(app: Any) -> Any:
    spoken, silent = (stream.partition_by("k", id=f"by-{place}") for place, stream in enumerate(inputs(app)))
    return spoken.merge(silent, id="both").window(tumbling("1 minute"), key="k", n=count(), id="minutes")


def joined(app: Any) -> Any:
    spoken, silent = inputs(app)
    return spoken.join(silent, key="k", ttl="30 seconds", how="left", id="pairs", function=lambda left, right: left)


def driver_of(made: Callable[[Any], Any], timeout: str | None = "5000") -> TestDriver:
    def describe(app: Any) -> None:
        made(app).send_to(app.output_stream("out"))

    config = {} if timeout is None else {"task.watermark.idle.timeout.ms": timeout}
    return TestDriver(stream_application("silence")(describe), config=config)


def at(minute: float) -> dict[str, Any]:
    return {"k": "a", "at": NOON + timedelta(minutes=minute)}


def speak(driver: TestDriver, first: int, last: int) -> list[Any]:
    """Have one input go on for a second at a time."""
    for minute in range(first, last):
        driver.pipe("spoken", [at(minute)]).advance("1 second").step()
    return driver.output("out")


@pytest.mark.parametrize("made", [merged, merged_behind_topics, joined], ids=lambda made: made.__name__)
def test_a_silent_input_holds_no_window_and_no_join_open_for_ever(made: Callable[[Any], Any]) -> None:
    driver = driver_of(made)
    driver.pipe("silent", [at(0)]).step()
    before = len(driver.output("out"))
    assert len(speak(driver, 1, 4)) == before
    assert len(speak(driver, 4, 20)) > before


@pytest.mark.parametrize("made", [merged, merged_behind_topics], ids=lambda made: made.__name__)
def test_without_the_time_out_a_silent_input_holds_windows_open(made: Callable[[Any], Any]) -> None:
    driver = driver_of(made, None)
    driver.pipe("silent", [at(0)]).step()
    assert speak(driver, 1, 30) == []


def test_an_input_that_never_spoke_is_left_out_too() -> None:
    assert len(speak(driver_of(merged), 1, 20)) > 8


def test_an_input_that_is_ahead_holds_others_back_for_the_time_out_before_it_is_left_out() -> None:
    driver = driver_of(merged)
    driver.pipe("silent", [at(30)]).step()
    assert len(speak(driver, 1, 30)) == 28  # 29 seconds: silent for long, and it has held nothing back
    driver.pipe("spoken", [at(40)]).step()
    driver.pipe("silent", [at(31)]).step()
    driver.pipe("silent", [at(50)]).step()
    ended = [row.window_end.minute for row in driver.output("out")]
    assert 32 in ended  # its message of 31 was not late


def test_an_input_that_wakes_up_holds_back_again_and_its_old_messages_are_late() -> None:
    driver = driver_of(merged)
    driver.pipe("silent", [at(0)]).step()
    found = len(speak(driver, 1, 20))
    driver.pipe("silent", [at(2), at(19)]).step()
    assert len(speak(driver, 20, 23)) <= found + 2
    driver.drain()
    rows = {row.window_start.minute: row.n for row in driver.output("out")}
    assert rows[2] == 1
    assert rows[19] == 2


def test_when_all_inputs_are_silent_time_stands_still() -> None:
    driver = driver_of(merged)
    driver.pipe("silent", [at(3)]).pipe("spoken", [at(3)]).step()
    found = len(driver.output("out"))
    for _ in range(30):
        driver.advance("1 second").step()
    assert len(driver.output("out")) == found


def test_an_input_of_which_scheduled_runs_find_nothing_is_left_out_in_the_next_one() -> None:
    driver = driver_of(merged)
    driver.pipe("silent", [at(0)]).pipe("spoken", [at(minute) for minute in range(4)]).catch_up()
    assert driver.output("out") == []
    driver.advance("1 hour").pipe("spoken", [at(minute) for minute in range(4, 8)]).catch_up()
    assert [row.window_start.minute for row in driver.output("out")] == list(range(7))


def test_an_input_whose_range_a_scheduled_run_has_read_is_not_silent_while_others_are_read() -> None:
    driver = driver_of(merged)
    driver.pipe("silent", [at(0)]).pipe("spoken", [at(0)]).catch_up()
    driver.advance("1 hour").pipe("silent", [at(1)]).pipe("spoken", [at(minute) for minute in range(1, 8)])
    driver.catch_up(epoch_messages=1)
    assert [row.window_start.minute for row in driver.output("out")] == [0]

"""Callables with their own word on watermarks.

The prose cases "operator_watermark" of functions, in running applications.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import pytest

from airflow_samza import bounded_delay, stream_application
from airflow_samza.errors import InvalidApplication, MessageError
from airflow_samza.testing import TestDriver


class Behind:
    """Stands behind the operator, and emits every watermark that reaches it."""

    def __call__(self, message: Any) -> Any:
        return message

    def process_watermark(self, timestamp: int) -> list[dict[str, Any]]:
        return [{"n": -timestamp}]

    def get_output_watermark(self) -> int | None:
        return None


class Said(Behind):
    """Says what it was told to say for each watermark."""

    def __init__(self, says: dict[int, int | None]) -> None:
        self.says = says
        self.reached = -1

    def process_watermark(self, timestamp: int) -> Any:
        self.reached = timestamp

    def get_output_watermark(self) -> int | None:
        return self.says.get(self.reached)


def driver_of(function: Any, *, word: str = "map", partitions: int = 1) -> TestDriver:
    def describe(app: Any) -> None:
        numbers = app.input_stream(
            "numbers", schema="n bigint, at timestamp", timestamp="at", bounded=False, watermarks=bounded_delay(0)
        )
        called = getattr(numbers.select("n"), word)(function, id="own")
        called.map(Behind(), id="behind").send_to(app.output_stream("out"))

    return TestDriver(stream_application("marks")(describe), partitions=partitions)


def seen(function: Any, *times: int, word: str = "map", apart: bool = True) -> list[int]:
    """The operator's input, a message ``n`` and its watermark as ``-n``, when messages of these times are read."""
    driver = driver_of(function, word=word)
    messages = [{"n": time, "at": datetime.fromtimestamp(time / 1000, timezone.utc)} for time in times]
    for batch in [[message] for message in messages] if apart else [messages]:
        driver.pipe("numbers", batch).step()
    return [row.n for row in driver.output("out")]


def test_without_a_function_the_input_is_passed_on() -> None:
    assert seen(lambda message: message, 10, 12) == [10, -10, 12, -12]


@pytest.mark.parametrize("apart", [True, False])
def test_user_watermark_function(apart: bool) -> None:
    function = Said({10: 8, 12: None, 13: 6, 14: 9})
    assert seen(function, 10, 12, 13, 14, apart=apart) == ([10, -8, 12, 13, 14, -9] if apart else [10, 12, 13, 14, -9])


class Follows(Said):
    """Data moves it on."""

    def __call__(self, message: Any) -> Any:
        self.says = {self.reached: message.n + 100}
        return message


def test_user_function_checked_after_each_message() -> None:
    # 105 is said as soon as the message has come, before the watermark 5 has.
    assert seen(Follows({}), 5, 7) == [5, -105, 7, -107]


def test_what_the_function_makes_of_a_watermark_goes_on_before_the_watermark() -> None:
    class Emits(Behind):
        reached = -1

        def process_watermark(self, timestamp: int) -> list[dict[str, Any]]:
            self.reached = timestamp
            return [{"n": 1000 + timestamp}]

        def get_output_watermark(self) -> int | None:
            return self.reached

    assert seen(Emits(), 10) == [10, 1010, -10]


def test_what_a_generator_refills_between_its_messages_is_copied() -> None:
    class Refills(Behind):
        def process_watermark(self, timestamp: int) -> Any:
            row = {"n": 0}
            for n in (1, 2, 3):
                row["n"] = n
                yield row

    assert seen(Refills(), 10) == [10, 1, 2, 3]


@pytest.mark.parametrize("word", ["map", "filter", "flat_map"])
def test_all_callables_per_message_may_have_one(word: str) -> None:
    class Any_(Said):
        def __call__(self, message: Any) -> Any:
            return [message] if word == "flat_map" else message

    assert seen(Any_({10: 4}), 10, word=word) == [10, -4]


def test_an_output_never_goes_back_from_epoch_to_epoch() -> None:
    assert seen(Said({10: 20, 12: 15, 30: 25}), 10, 12, 30) == [10, -20, 12, 30, -25]


def test_tasks_do_not_share_what_it_keeps() -> None:
    driver = driver_of(Follows({}), partitions=2)
    for partition, n in ((0, 50), (1, 5)):
        driver.pipe("numbers", [{"n": n, "at": datetime.fromtimestamp(n / 1000, timezone.utc)}], partition=partition)
    driver.step()
    assert [[row.n for row in driver.output("out", partition=partition)] for partition in (0, 1)] == [
        [50, -150],
        [5, -105],
    ]


def of(**methods: Callable[..., Any]) -> Any:
    return type("Own", (Said,), methods)({})


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (
            of(process_watermark=lambda self, timestamp: 7),
            r"returned 7, on the message 'the watermark 10'; expected: an iterable of",
        ),
        (of(process_watermark=lambda self, timestamp: [{"m": 1}]), r"it lacks n and it has also m"),
        (of(process_watermark=lambda self, timestamp: 1 // 0), r"failed with ZeroDivisionError"),
        (of(get_output_watermark=lambda self: 1.5), r"returned 1.5; expected: ms since 1970 in UTC \(up to"),
        (
            of(get_output_watermark=lambda self: 1_767_225_600_000_000),
            r"returned 1767225600000000; expected: ms since 1970",
        ),
        (of(get_output_watermark=lambda self: 1 // 0), r"failed with ZeroDivisionError"),
    ],
)
def test_what_it_does_wrong_is_named(function: Any, sentence: str) -> None:
    with pytest.raises(MessageError, match=r"in map 'own' .*" + sentence):
        seen(function, 10)


def test_one_method_of_two_is_rejected() -> None:
    class Half:
        def __call__(self, message: Any) -> Any:
            return message

        def process_watermark(self, timestamp: int) -> None: ...

    with pytest.raises(
        InvalidApplication, match=r"map got .*Half, which has process_watermark and no get_output_watermark"
    ) as caught:
        driver_of(Half())
    assert caught.value.hint == "A callable with its own word on watermarks has both."

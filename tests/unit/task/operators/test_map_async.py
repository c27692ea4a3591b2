"""map_async: a loop over the messages by coroutines, bounded, in order or not, and never overtaken by a watermark or an end."""

from __future__ import annotations

import asyncio
import functools
import random
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any

import pytest

from airflow_samza import bounded_delay, stream_application
from airflow_samza.application.message_stream import MessageStream
from airflow_samza.application.operator_specs import MapAsyncSpec
from airflow_samza.errors import InvalidApplication, MessageError
from airflow_samza.planner.explain import explain
from airflow_samza.schema import Schema
from airflow_samza.task.messages.messages import MessageReader, MessageWriter
from airflow_samza.task.operators.map_async import MapAsync
from airflow_samza.task.tables.async_calls import AsyncCalls, TaskLoop
from airflow_samza.testing import TestDriver


@dataclass(frozen=True)
class Number:
    n: int


@dataclass(frozen=True)
class Square:
    n: int
    square: int


async def squared(number: Number) -> Square:
    await asyncio.sleep(random.random() / 1000)
    return Square(number.n, number.n**2)


def driver_of(function: Any, *, bounded: bool = True, partitions: int = 1, **options: Any) -> TestDriver:
    def describe(app: Any) -> None:
        numbers = app.input_stream("numbers", schema=Number, bounded=bounded)
        numbers.map_async(function, id="call", **options).send_to(app.output_stream("out"))

    return TestDriver(stream_application("calling")(describe), partitions=partitions)


NUMBERS = [Number(n) for n in range(5000)]


def test_in_order_it_is_a_loop_over_the_messages() -> None:
    driver = driver_of(squared, concurrency=50).pipe("numbers", NUMBERS)
    assert driver.run().output("out") == [Square(n, n**2) for n in range(5000)]


def test_unordered_gives_the_same_messages_as_their_calls_end() -> None:
    async def slow_first(number: Number) -> Square:
        await asyncio.sleep(0.05 if number.n == 0 else 0)
        return Square(number.n, 0)

    out = driver_of(slow_first, ordered=False).pipe("numbers", NUMBERS[:100]).run().output("out")
    assert sorted(square.n for square in out) == list(range(100))
    assert out[0].n != 0


@pytest.mark.parametrize(("epoch_messages", "ordered"), [(1, True), (7, True), (7, False)])
def test_epochs_give_the_same(epoch_messages: int, ordered: bool) -> None:
    driver = driver_of(squared, ordered=ordered, partitions=2).pipe("numbers", NUMBERS[:50])
    out = driver.run(mode="pipelined", epoch_messages=epoch_messages).output("out")
    assert sorted(out, key=lambda square: square.n) == [Square(n, n**2) for n in range(50)]


@pytest.mark.parametrize("bounded", [True, False])
def test_what_is_in_flight_at_the_end_comes_out_whether_it_is_final_or_not(bounded: bool) -> None:
    assert len(driver_of(squared, bounded=bounded).pipe("numbers", NUMBERS[:9]).run().output("out")) == 9


class Gauge:
    """Counts the calls that are in flight; all are held until it is opened."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self.threads: set[str] = set()
        self.open = threading.Event()

    async def __call__(self, number: Number) -> Number:
        self.threads.add(threading.current_thread().name)
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            while not self.open.is_set():
                await asyncio.sleep(0.001)
        finally:
            self.now -= 1
        return number


def operator_of(function: Any, **options: Any) -> MapAsync:
    schema = Schema.of(Number)
    spec = MapAsyncSpec(op_id="a-1-map_async-call", name="call", function=function, **{"concurrency": 3, **options})
    operator = MapAsync(spec, schema, schema, "task-0")
    operator.start()
    return operator


def given(operator: MapAsync, *numbers: int) -> list[int]:
    batch = MessageWriter(operator.input).write([Number(n) for n in numbers])
    return came(operator.process(batch))


def came(batches: Any) -> list[int]:
    return [message.n for batch in batches for message in MessageReader(Schema.of(Number)).read(batch)]


@pytest.fixture
def gauge() -> Iterator[Gauge]:
    gauge = Gauge()
    yield gauge
    gauge.open.set()


def test_calls_stay_in_flight_from_batch_to_batch_up_to_the_bound(gauge: Gauge) -> None:
    operator = operator_of(gauge)
    assert [given(operator, n) for n in (1, 2, 3)] == [[], [], []]
    while gauge.now < 3:
        gauge.open.wait(0.001)
    threading.Timer(0.02, gauge.open.set).start()
    assert given(operator, 4, 5) + came(operator.settle()) == [1, 2, 3, 4, 5]  # it waited for room
    operator.close()
    assert (gauge.most, gauge.now) == (3, 0)
    assert gauge.threads == {"task-0-calls"}  # one loop per task


@pytest.mark.parametrize("passes", ["on_watermark", "settle", "flush"])
def test_neither_a_watermark_nor_an_end_overtakes_a_message_in_flight(gauge: Gauge, passes: str) -> None:
    operator = operator_of(gauge)
    assert given(operator, 1, 2) == []
    threading.Timer(0.02, gauge.open.set).start()
    arguments = (5,) if passes == "on_watermark" else ()
    assert came(getattr(operator, passes)(*arguments)) == [1, 2]
    operator.close()


def test_watermarks_of_an_application_wait_as_well() -> None:
    async def slow(number: Any) -> Any:
        await asyncio.sleep(0.01)
        return number

    def describe(app: Any) -> None:
        numbers = app.input_stream(
            "numbers", schema="n bigint, at timestamp", timestamp="at", bounded=False, watermarks=bounded_delay(0)
        )
        numbers.map_async(slow).map(Late()).send_to(app.output_stream("out"))

    class Late:
        """Fails when a message comes behind a watermark that has passed it."""

        def __init__(self) -> None:
            self.reached = -1

        def __call__(self, message: Any) -> Any:
            assert message.n > self.reached
            return message

        def process_watermark(self, timestamp: int) -> None:
            self.reached = timestamp

        def get_output_watermark(self) -> int:
            return self.reached

    driver = TestDriver(stream_application("waiting")(describe))
    for n in range(1, 4):
        driver.pipe("numbers", [{"n": n, "at": datetime.fromtimestamp(n / 1000, timezone.utc)}])
    assert [row.n for row in driver.step(epoch_messages=1).output("out")] == [1, 2, 3]


def test_results_that_wait_for_an_earlier_one_are_bounded(gauge: Gauge) -> None:
    async def first_waits(number: Number) -> Number:
        return await gauge(number) if number.n == 0 else number

    operator = operator_of(first_waits)
    given(operator, *range(2000))
    threading.Timer(0.05, gauge.open.set).start()
    assert given(operator, *range(2000, 3000))[-1] > 2000  # it waited for the first
    assert gauge.open.is_set()
    operator.close()


# -- failures ----------------------------------------------------------------------------------------------------------


async def divided(number: Number) -> Number:
    await asyncio.sleep(0)
    return Number(10 // (number.n - 7))


def test_a_call_that_raises_is_named_with_its_message() -> None:
    with pytest.raises(
        MessageError,
        match=r"divided in map_async 'call' failed with ZeroDivisionError: .*, on the message Number\(n=7\)",
    ) as caught:
        driver_of(divided).pipe("numbers", NUMBERS[:20]).run()
    assert str(caught.value.facts["file"]).endswith("test_map_async.py")


def test_a_call_that_takes_too_long_is_an_error() -> None:
    async def stuck(number: Number) -> Number:
        await asyncio.sleep(60)
        return number

    with pytest.raises(
        MessageError,
        match=r"stuck in map_async 'call' failed with TimeoutError: it gave no result within 30 ms, on the .*n=0",
    ):
        driver_of(stuck, timeout=30).pipe("numbers", NUMBERS[:20]).run()


@pytest.mark.parametrize(
    ("result", "sentence"),
    [
        (None, r"returned None \(a message is a dataclass instance, a Row or a dict\), on the message Number\(n=0\)"),
        (Number("x"), r"n is 'x', which is no bigint"),  # type: ignore[arg-type]
    ],
)
def test_a_result_of_another_shape_is_named(result: Any, sentence: str) -> None:
    async def wrong(number: Number) -> Number:
        return result  # type: ignore[no-any-return]

    with pytest.raises(MessageError, match=sentence):
        driver_of(wrong).pipe("numbers", NUMBERS[:3]).run()


@pytest.mark.parametrize("error", [StopIteration("x"), asyncio.CancelledError(), SystemExit(3)])
def test_whatever_is_raised_ends_the_task_and_hangs_nothing(error: BaseException) -> None:
    async def raising(number: Number) -> Number:
        raise error

    with pytest.raises(MessageError, match=type(error).__name__):
        driver_of(raising).pipe("numbers", NUMBERS[:3]).run()


def test_after_a_failure_what_is_in_flight_is_cancelled_and_the_thread_ends(gauge: Gauge) -> None:
    async def one_fails(number: Number) -> Number:
        if number.n == 2:
            raise ValueError("two")
        return await gauge(number)

    operator = operator_of(one_fails)
    with pytest.raises(MessageError, match="two"):
        given(operator, 0, 1, 2) + came(operator.settle())
    operator.close()
    assert gauge.now == 0
    assert not any(thread.name == "task-0-calls" for thread in threading.enumerate())


def test_closing_at_once_leaves_no_thread() -> None:
    for _ in range(50):
        loop = TaskLoop("hasty")
        AsyncCalls(loop, squared, 2).submit(NUMBERS[:3])
        loop.close()
    assert not any(thread.name == "hasty-calls" for thread in threading.enumerate())


def test_it_runs_where_the_thread_has_a_loop_already() -> None:
    async def as_in_a_notebook() -> list[Any]:
        return driver_of(squared).pipe("numbers", NUMBERS[:5]).run().output("out")

    assert len(asyncio.run(as_in_a_notebook())) == 5


# -- what is said when it is called ------------------------------------------------------------------------------------


class Caller:
    def __init__(self, add: int) -> None:
        self.add = add

    async def __call__(self, number: Number) -> Number:
        return replace(number, n=number.n + self.add)

    async def method(self, number: Number) -> Number:
        return await self(number)


async def adding(add: int, number: Number) -> Number:
    return await Caller(add)(number)


@pytest.mark.parametrize("function", [Caller(1), Caller(1).method, functools.partial(adding, 1)])
def test_objects_methods_and_partials_are_coroutine_functions_too(function: Any) -> None:
    assert driver_of(function).pipe("numbers", NUMBERS[:2]).run().output("out") == [Number(1), Number(2)]


async def yielding(number: Number) -> Any:
    yield number


async def two(number: Number, other: Number) -> Number:
    return number


async def perhaps(number: Number) -> Number | None:
    return number


@pytest.mark.parametrize(
    ("function", "options", "sentence"),
    [
        (lambda number: number, {}, "which is not async: it would block all other calls"),
        ("squared", {}, "takes a coroutine function, not the text 'squared'"),
        (7, {}, "takes a coroutine function, not 7"),
        (yielding, {}, "which yields"),
        (two, {}, "with 1 value, which it does not accept"),
        (perhaps, {}, "which may return None"),
        (squared, {"concurrency": 0}, "concurrency=0"),
        (squared, {"concurrency": True}, "concurrency=True"),
        (squared, {"ordered": "no"}, "ordered='no'"),
        (squared, {"timeout": "soon"}, "'soon' is not a length of time"),
        (squared, {"timeout": 0}, "0"),
    ],
)
def test_rejects(function: Any, options: Any, sentence: str) -> None:
    with pytest.raises(InvalidApplication, match=sentence) as caught:
        driver_of(function, **options)
    assert caught.value.hint
    assert "test_map_async.py" in str(caught.value)


def test_plain_callables_point_to_it() -> None:
    def describe(app: Any) -> None:
        app.input_stream("numbers", schema=Number).map(squared)

    with pytest.raises(InvalidApplication, match="which is async") as caught:
        stream_application("plain")(describe).spec()
    assert "map_async takes a coroutine function" in caught.value.hint


def test_the_plan_shows_how_it_is_called() -> None:
    text = explain(driver_of(squared, concurrency=4, ordered=False).plan)
    assert "map_async call" in text
    assert "squared, up to 4 at a time, as they end" in text


def test_the_shape_is_that_of_the_return_annotation() -> None:
    streams: list[MessageStream[Any]] = []

    def describe(app: Any) -> None:
        streams.append(app.input_stream("numbers", schema=Number).map_async(squared))

    stream_application("shape")(describe).spec()
    assert streams[0].schema == Schema.of(Square)

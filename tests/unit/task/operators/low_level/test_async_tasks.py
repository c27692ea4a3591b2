"""Tasks whose process is a coroutine: bounded concurrency, and nothing in flight when anything else is called."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from datetime import datetime, timezone
from typing import Any

import pytest

from airflow_samza import AsyncStreamTask, StreamTask, bounded_delay, task_application
from airflow_samza.errors import MessageError
from airflow_samza.task.messages.messages import CHUNK
from airflow_samza.task.operators.low_level.context import Output
from airflow_samza.testing import TestDriver


class Calling(AsyncStreamTask):
    """Tells what is in flight when it is called; ``acts`` say what it awaits for a message."""

    acts: dict[int, Callable[[Calling], Awaitable[Any]]] = {}  # noqa: RUF012 (one for all tasks of a test)
    made: list[Calling] = []  # noqa: RUF012

    def __init__(self) -> None:
        self.in_flight = self.most = 0
        self.life: list[str] = []
        self.loops: set[int] = set()
        self.made.append(self)

    async def init(self, context: Any) -> None:
        self.context = context
        self._on("init")

    async def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
        self.coordinator = coordinator
        self.loops.add(id(asyncio.get_running_loop()))
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        number = envelope.message.n
        act = self.acts.get(number)
        await (asyncio.sleep(0.002) if act is None else act(self))
        collector.send("out", {"n": number})
        store = self.context.get_store("counts")
        store.put("all", (store.get("all") or 0) + 1)
        self.in_flight -= 1

    def on_timer(self, key: Any, time: int, collector: Any, coordinator: Any) -> None:
        self._on(f"timer {key}")

    def window(self, collector: Any, coordinator: Any) -> None:
        self._on("window")

    async def on_end_of_stream(self, collector: Any, coordinator: Any) -> None:
        self._on(f"end, {self.context.get_store('counts').get('all')} done")

    async def close(self) -> None:
        self.loops.add(id(asyncio.get_running_loop()))
        self._on("close")

    def _on(self, what: str) -> None:
        self.life.append(what if not self.in_flight else f"{what} with {self.in_flight} in flight")


@pytest.fixture(autouse=True)
def _anew() -> Any:
    Calling.acts = {}
    Calling.made.clear()
    yield
    Calling.acts = {}


def driver_of(task: Any = Calling, *, inputs: int = 1, bounded: bool = True, **config: str) -> TestDriver:
    def describe(app: Any) -> None:
        more = {} if bounded else {"watermarks": bounded_delay(0)}
        for number in range(inputs):
            app.input_stream(f"in-{number}", schema="n bigint, at timestamp", timestamp="at", bounded=bounded, **more)
        app.output_stream("out", schema="n bigint")
        app.store("counts", key=str, value=int)
        app.task(task)

    keys = {
        f"task.{name.replace('_', '.')}": value
        for name, value in {"max_concurrency": "4", "window_ms": "-1", **config}.items()
    }
    return TestDriver(task_application("async")(describe), config=keys)


def numbers(*values: int) -> list[dict[str, Any]]:
    return [{"n": n, "at": datetime.fromtimestamp(n / 1000, timezone.utc)} for n in values]


def sent(driver: TestDriver) -> list[int]:
    return [row.n for row in driver.output("out")]


def test_messages_are_in_flight_up_to_the_bound_and_all_arrive() -> None:
    driver = driver_of().pipe("in-0", numbers(*range(100))).run()
    (task,) = Calling.made
    assert sorted(sent(driver)) == list(range(100))
    assert task.most == 4
    assert len(task.loops) == 1


def test_what_coroutines_send_is_written_by_the_thread_of_the_task_however_much_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    writing: list[str] = []
    as_it_is = Output.flush

    def flush(self: Output) -> None:
        writing.append(threading.current_thread().name)
        as_it_is(self)

    class Multiplying(AsyncStreamTask):
        async def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
            for _ in range(2 * CHUNK + 1):
                collector.send("out", {"n": envelope.message.n})

    monkeypatch.setattr(Output, "flush", flush)
    assert len(sent(driver_of(Multiplying).pipe("in-0", numbers(1)).run())) == 2 * CHUNK + 1
    assert set(writing) == {threading.current_thread().name}


def test_one_at_a_time_unless_said_otherwise() -> None:
    driver = driver_of(max_concurrency="1").pipe("in-0", numbers(*range(20))).run()
    assert (sent(driver), Calling.made[0].most) == (list(range(20)), 1)


def test_messages_of_several_inputs_are_in_flight_together() -> None:
    driver = driver_of(inputs=3)
    for number in range(3):
        driver.pipe(f"in-{number}", numbers(*range(number * 10, number * 10 + 10)))
    assert sorted(sent(driver.run())) == list(range(30))
    assert Calling.made[0].most == 4


def test_waits_for_in_flight() -> None:
    """The prose case of that name: on_end_of_stream is called when no message of the task is in flight."""
    driver_of(max_concurrency="2").pipe("in-0", numbers(*range(7))).run()
    assert Calling.made[0].life == ["init", "end, 7 done", "close"]


def test_nothing_is_in_flight_when_timers_and_window_are_called_or_an_epoch_ends() -> None:
    async def sets_timers(task: Calling) -> None:
        task.context.timers.set("event", 3)
        await asyncio.sleep(0.01)

    Calling.acts = {1: sets_timers}
    driver = driver_of(bounded=False, window_ms="1000").pipe("in-0", numbers(1, 2)).step()
    driver.pipe("in-0", numbers(3, 4, 5)).advance(1000).step()
    assert [call for task in Calling.made for call in task.life if call not in ("init", "close")] == [
        "window",
        "timer event",
    ]
    assert sorted(sent(driver)) == [1, 2, 3, 4, 5]


def test_the_end_of_a_slice_waits_as_well() -> None:
    assert sorted(sent(driver_of(bounded=False).pipe("in-0", numbers(*range(9))).stop())) == list(range(9))


def test_a_commit_leaves_what_has_not_begun_to_the_next_epoch() -> None:
    async def commits(task: Calling) -> None:
        task.coordinator.commit()

    Calling.acts = {3: commits}
    driver = driver_of(bounded=False).pipe("in-0", numbers(*range(30))).step()
    assert sorted(sent(driver)) == list(range(30))
    assert len(Calling.made) > 2


def test_a_shutdown_leaves_what_has_not_begun_unread() -> None:
    async def stops(task: Calling) -> None:
        task.coordinator.shutdown()

    Calling.acts = {3: stops}
    driver = driver_of(max_concurrency="2").pipe("in-0", numbers(*range(30))).run()
    assert 4 <= len(sent(driver)) <= 5
    assert Calling.made[0].life == ["init", "close"]
    assert driver.reports()[0].inputs["in-0"].next_offsets == {0: len(sent(driver))}


def test_a_failure_names_the_message_and_everything_is_closed() -> None:
    async def fails(task: Calling) -> None:
        raise ValueError("five")

    Calling.acts = {5: fails}
    with pytest.raises(
        MessageError, match=r"Calling.process in task 'task' failed with ValueError: five, on the message Row\(n=5, "
    ):
        driver_of().pipe("in-0", numbers(*range(30))).run()
    assert Calling.made[0].life[-1].startswith("close")
    assert not any(thread.name.endswith("-calls") for thread in threading.enumerate())


def test_a_message_that_takes_too_long_is_an_error() -> None:
    Calling.acts = {5: lambda task: asyncio.sleep(60)}
    with pytest.raises(MessageError, match=r"TimeoutError: it gave no result within 40 ms, on the message Row\(n=5, "):
        driver_of(callback_timeout_ms="40").pipe("in-0", numbers(*range(9))).run()


def test_a_process_that_gives_a_coroutine_without_being_one_is_rejected() -> None:
    class Wrapped(StreamTask):
        def process(self, envelope: Any, collector: Any, coordinator: Any) -> Any:
            return asyncio.sleep(0)

    with pytest.raises(MessageError, match="it returned a coroutine, and is no async def"):
        driver_of(Wrapped).pipe("in-0", numbers(1)).run()


def test_calls_that_are_no_coroutines_are_called_as_ever() -> None:
    class Plain(Calling):
        def on_end_of_stream(self, collector: Any, coordinator: Any) -> None:  # type: ignore[override]
            collector.send("out", {"n": -1})

    assert sent(driver_of(Plain).pipe("in-0", numbers(1)).run()) == [1, -1]

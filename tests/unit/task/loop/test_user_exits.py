"""A callable that ends the process, or an iteration, or whose result somebody would have to await, has failed.

With its file and line.
"""

from __future__ import annotations

import asyncio
import functools
import signal
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import pytest

from airflow_samza import StreamApplicationDescriptor, StreamTask, stream_application, task_application, tumbling
from airflow_samza.application.application import StreamApplication
from airflow_samza.errors import SamzaError
from airflow_samza.testing import TestDriver

HERE = __file__


def leave() -> NoReturn:
    sys.exit("enough")


def interrupt() -> NoReturn:
    raise KeyboardInterrupt("enough")


def end_generator() -> NoReturn:
    raise GeneratorExit("enough")


EXITS = {"SystemExit": leave, "KeyboardInterrupt": interrupt, "GeneratorExit": end_generator}
Describe = Callable[[Any, Callable[[], NoReturn]], Any]


def generator(ends: Callable[[], NoReturn]) -> Any:
    def many(message: Any) -> Any:
        yield message
        ends()

    return many


async def raise_later(ends: Callable[[], NoReturn]) -> None:
    await asyncio.sleep(0)
    ends()


def awaiting(ends: Callable[[], NoReturn]) -> Any:
    async def call(message: Any) -> Any:
        await raise_later(ends)

    return call


class Moves:
    """A callable whose word on watermarks ends the process."""

    def __init__(self, ends: Callable[[], NoReturn]) -> None:
        self.ends = ends

    def __call__(self, message: Any) -> Any:
        return message

    def __deepcopy__(self, memo: object) -> Moves:
        return self

    def process_watermark(self, timestamp: int) -> Any:
        """Does not come back."""
        self.ends()

    def get_output_watermark(self) -> int | None:
        """Nothing."""
        return None


PLACES: dict[str, Describe] = {
    "filter": lambda stream, ends: stream.filter(lambda message: ends()),
    "map": lambda stream, ends: stream.map(lambda message: ends(), schema="id bigint"),
    "flat_map": lambda stream, ends: stream.flat_map(lambda message: ends(), schema="id bigint"),
    "a generator": lambda stream, ends: stream.flat_map(generator(ends)),
    "map_batches": lambda stream, ends: stream.map_batches(lambda batch: ends(), schema="id bigint"),
    "map_async": lambda stream, ends: stream.map_async(awaiting(ends), schema="id bigint"),
    "map_async in time": lambda stream, ends: stream.map_async(awaiting(ends), schema="id bigint", timeout="1 minute"),
    "a fold": lambda stream, ends: stream.window(
        tumbling("1 hour"), fold=lambda former, message: ends(), initial=0, schema="n bigint", id="w"
    ),
    "watermarks": lambda stream, ends: stream.map(Moves(ends)),
}


def application(describe: Describe, ends: Callable[[], NoReturn]) -> StreamApplication:
    @stream_application("exits")
    def app(app: StreamApplicationDescriptor) -> None:
        stream = app.input_stream(
            "in", schema="id bigint, at timestamp", timestamp="at", max_delay="1 ms", bounded=False
        )
        describe(stream, ends).send_to(app.output_stream("out"))

    return app


def run(app: Any, count: int = 1) -> TestDriver:
    import datetime

    noon = datetime.datetime(2026, 3, 1, 12)
    driver = TestDriver(app)
    return (
        driver.pipe("in", [{"id": number, "at": noon + datetime.timedelta(seconds=number)} for number in range(count)])
        .step()
        .drain()
    )


@pytest.mark.parametrize("kind", EXITS)
@pytest.mark.parametrize("place", PLACES)
def test_a_callable_that_ends_the_process_has_failed(place: str, kind: str) -> None:
    with pytest.raises(SamzaError) as raised:
        run(application(PLACES[place], EXITS[kind]))
    assert f"failed with {kind}: enough" in raised.value.sentence
    assert f"({HERE}:" in raised.value.sentence


@pytest.mark.parametrize("kind", EXITS)
def test_a_sink_that_ends_the_process_has_failed(kind: str) -> None:
    @stream_application("exits")
    def app(app: StreamApplicationDescriptor) -> None:
        app.input_stream("in", schema="id bigint, at timestamp", bounded=False).sink(lambda message: EXITS[kind]())

    with pytest.raises(SamzaError, match=f"failed with {kind}: enough"):
        run(app)


@pytest.mark.parametrize("kind", EXITS)
@pytest.mark.parametrize("method", ["init", "process", "on_end_of_stream", "close"])
def test_a_low_level_task_that_ends_the_process_has_failed(method: str, kind: str) -> None:
    def ends(*_: Any) -> NoReturn:
        EXITS[kind]()

    made = type("Leaves", (StreamTask,), {"process": lambda *_: None, method: ends})

    @task_application("exits")
    def app(app: Any) -> None:
        app.input_stream("in", schema="id bigint, at timestamp", bounded=False)
        app.task(made)

    with pytest.raises(SamzaError, match=f"failed with {kind}: enough"):
        run(app)


@pytest.mark.parametrize("kind", EXITS)
def test_a_description_that_ends_the_process_has_failed(kind: str) -> None:
    def describe(app: StreamApplicationDescriptor) -> None:
        EXITS[kind]()

    with pytest.raises(SamzaError, match=rf"raised {kind}: enough \(.*test_user_exits\.py:"):
        stream_application("exits")(describe).spec()


@pytest.mark.parametrize("kind", ["SystemExit", "KeyboardInterrupt", "GeneratorExit"])
def test_a_message_on_which_a_callable_ends_the_process_can_be_dropped(kind: str) -> None:
    def odd(message: Any) -> bool:
        return EXITS[kind]() if message.id % 2 else True

    app = application(lambda stream, ends: stream.filter(odd, on_error="drop"), EXITS[kind])
    assert [row.id for row in run(app, 4).output("out")] == [0, 2]


def test_an_interrupt_of_a_person_is_no_failure_of_the_callable() -> None:
    def pressed(message: Any) -> bool:
        signal.raise_signal(signal.SIGINT)
        return True

    with pytest.raises(KeyboardInterrupt):
        run(application(lambda stream, ends: stream.filter(pressed), interrupt))


def hidden(function: Any) -> Any:
    """A decorator as many write it."""

    @functools.wraps(function)
    def call(*values: Any) -> Any:
        return function(*values)

    return call


async def awaits(message: Any) -> bool:
    return False


@pytest.mark.parametrize("on_error", ["fail", "drop"])
@pytest.mark.parametrize(
    "function", [hidden(awaits), lambda message: awaits(message)], ids=["decorated", "in a lambda"]
)
@pytest.mark.parametrize("place", ["filter", "sink"])
def test_a_result_that_nobody_awaits_is_a_failure(place: str, function: Any, on_error: str) -> None:
    @stream_application("exits")
    def app(app: StreamApplicationDescriptor) -> None:
        stream = app.input_stream("in", schema="id bigint, at timestamp", bounded=False)
        if place == "sink":
            stream.sink(function, on_error=on_error)  # type: ignore[arg-type]
        else:
            stream.filter(function, on_error=on_error).send_to(app.output_stream("out"))  # type: ignore[arg-type]

    if on_error == "drop":
        driver = run(app, 3)
        assert place == "sink" or driver.output("out") == []
        return
    with pytest.raises(SamzaError, match="it returned a coroutine, which is never awaited"):
        run(app)


@pytest.mark.parametrize("kind", EXITS)
@pytest.mark.parametrize("where", ["reader", "async reader", "async reader in time", "join"])
def test_a_join_with_a_remote_table_that_ends_the_process_has_failed(where: str, kind: str) -> None:
    def read(key: Any) -> Any:
        return {"id": key, "tier": "gold"} if where == "join" else EXITS[kind]()

    async def read_later(key: Any) -> Any:
        await raise_later(EXITS[kind])

    @stream_application("exits")
    def app(app: StreamApplicationDescriptor) -> None:
        options: Any = {"timeout": "1 minute"} if "time" in where else {}
        reader: Any = read_later if "async" in where else read
        table = app.remote_table("tiers", key="id", reader=reader, schema="id bigint, tier string", **options)
        stream = app.input_stream("in", schema="id bigint, at timestamp", key="id", bounded=False)
        joined = stream.join(table, (lambda message, row: EXITS[kind]()) if where == "join" else None, id="j")
        joined.send_to(app.output_stream("out"))

    with pytest.raises(SamzaError, match=rf"{kind}: enough"):
        run(app)


@pytest.mark.parametrize("kind", EXITS)
@pytest.mark.parametrize("where", ["factory", "process"])
def test_a_processor_of_side_inputs_that_ends_the_process_has_failed(where: str, kind: str) -> None:
    class Processor:
        def __init__(self, config: Any, metrics: Any) -> None:
            if where == "factory":
                EXITS[kind]()

        def process(self, message: Any, store: Any) -> Any:
            EXITS[kind]()

    @stream_application("exits")
    def app(app: StreamApplicationDescriptor) -> None:
        app.side_input("side", schema="id bigint, tier string", key="id")
        table = app.table("tiers", key="id", schema="id bigint, tier string", side_inputs=["side"], processor=Processor)
        stream = app.input_stream("in", schema="id bigint, at timestamp", key="id")
        stream.join(table, id="j").send_to(app.output_stream("out"))

    driver = TestDriver(app).pipe("side", [{"id": 1, "tier": "gold"}]).pipe("in", [{"id": 1, "at": None}])
    with pytest.raises(SamzaError, match=rf"{kind}: enough"):
        driver.run()

"""A coroutine function is rejected at the call of every operator that takes a plain callable, in whatever form it comes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest

from airflow_samza import StreamApplicationDescriptor, punctuated, stream_application, tumbling
from airflow_samza.errors import InvalidApplication


async def awaits(*values: Any) -> Any:
    return True


async def yields(*values: Any) -> Any:
    yield True


class Awaits:
    """Forms that a class has."""

    async def __call__(self, *values: Any) -> Any:
        return True

    async def method(self, *values: Any) -> Any:
        return True

    @staticmethod
    async def static(*values: Any) -> Any:
        return True

    bound = functools.partialmethod(method)


FORMS: dict[str, Any] = {
    "a coroutine function": awaits,
    "an async generator": yields,
    "a partial": functools.partial(awaits),
    "a partial of a partial": functools.partial(functools.partial(yields)),
    "an object": Awaits(),
    "a partial of an object": functools.partial(Awaits()),
    "a method": Awaits().method,
    "a static method": Awaits.static,
    "a partial method": Awaits().bound,
    "a cached one": functools.lru_cache(awaits),
    "a cached partial": functools.cache(functools.partial(awaits)),
    "the call of a partial": functools.partial(awaits).__call__,
    "a mock": mock.AsyncMock(),
}


class Moves:
    """A callable with an async word on watermarks."""

    def __call__(self, message: Any) -> Any:
        return message

    async def process_watermark(self, timestamp: int) -> None:
        """Nothing."""

    def get_output_watermark(self) -> int | None:
        """Nothing."""


class Processes:
    """A processor of side inputs."""

    def __init__(self, config: Any, metrics: Any) -> None: ...

    async def process(self, message: Any, store: Any) -> Any:
        """Nothing."""


class Marks:
    """Watermarks of one's own."""

    async def on_event_time(self, time: int) -> int | None:
        """Nothing."""


Describe = Callable[[StreamApplicationDescriptor, Any], Any]
PLACES: dict[str, Describe] = {
    "filter": lambda app, given: views(app).filter(given),
    "map": lambda app, given: views(app).map(given, schema="id bigint"),
    "flat_map": lambda app, given: views(app).flat_map(given, schema="id bigint"),
    "map_batches": lambda app, given: views(app).map_batches(given, schema="id bigint"),
    "transform": lambda app, given: views(app).transform(given, schema="id bigint"),
    "sink": lambda app, given: views(app).sink(given),
    "a fold": lambda app, given: views(app).window(
        tumbling("1 minute"), fold=given, initial=0, schema="n bigint", id="w"
    ),
    "the beginning of a fold": lambda app, given: views(app).window(
        tumbling("1 minute"), fold=lambda former, message: former, initial=given, schema="n bigint", id="w"
    ),
    "a join with a table": lambda app, given: views(app).join(
        app.remote_table("t", key="id", reader=lambda key: None, schema="id bigint, tier string"),
        given,
        id="j",
        schema="id bigint",
    ),
    "a join of streams": lambda app, given: views(app).join(
        views(app, "others"), given, ttl="1 hour", id="j", schema="id bigint", key="id"
    ),
    "from_dataframe": lambda app, given: app.from_dataframe(given, id="frame", schema="id bigint"),
    "punctuated": lambda app, given: punctuated(given),
    "watermarks": lambda app, given: app.input_stream(
        "in", schema="id bigint, at timestamp", timestamp="at", bounded=False, watermarks=given
    ),
    "a processor's factory": lambda app, given: app.table(
        "t", key="id", schema="id bigint", side_inputs=["s"], processor=given
    ),
}


def views(app: StreamApplicationDescriptor, name: str = "views") -> Any:
    return app.input_stream(name, schema="id bigint, at timestamp", timestamp="at", key="id")


def rejected(describe: Describe, given: Any) -> str:
    @stream_application("async")
    def app(app: StreamApplicationDescriptor) -> None:
        describe(app, given)

    with pytest.raises(InvalidApplication) as raised:
        app.spec()
    return raised.value.sentence


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("place", PLACES)
def test_rejects_a_coroutine_function_where_a_plain_one_belongs(place: str, form: str) -> None:
    assert "which is async" in rejected(PLACES[place], FORMS[form])


@pytest.mark.parametrize(
    ("place", "given"),
    [("map", Moves()), ("a processor's factory", Processes), ("watermarks", Marks)],
    ids=["a watermark function", "a processor", "watermarks of one's own"],
)
def test_rejects_a_class_whose_method_is_async_where_a_plain_one_belongs(place: str, given: Any) -> None:
    assert "which is async" in rejected(PLACES[place], given)


def test_rejects_a_description_that_is_async() -> None:
    with pytest.raises(InvalidApplication, match="which is async"):
        stream_application("async")(awaits)  # type: ignore[arg-type]

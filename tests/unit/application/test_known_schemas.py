"""Columns that the application alone tells are known at author time.

Elsewhere they are unknown, never guessed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest

from airflow_samza import (
    Row,
    Schema,
    avg,
    collect,
    count,
    count_distinct,
    first,
    last,
    max_,
    min_,
    stream_application,
    sum_,
    tumbling,
)
from airflow_samza.errors import InvalidApplication

COLUMNS = "k string not null, i int not null, l bigint, f float, d double, m decimal(12,2), t timestamp, a array<int>"


@dataclass(frozen=True)
class Message:
    k: str
    n: int


@dataclass(frozen=True)
class Other:
    k: str
    price: Decimal | None


def made(use: Callable[[Any, Any], Any], schema: object = COLUMNS) -> Schema | None:
    found: list[Schema | None] = []

    def describe(app: Any) -> None:
        stream = app.input_stream("in", **({} if schema is None else {"schema": schema}))
        found.append(use(stream, app).schema)

    stream_application("app")(describe).spec()
    return found[0]


def ddl(use: Callable[[Any, Any], Any], schema: object = COLUMNS) -> str | None:
    found = made(use, schema)
    return None if found is None else found.ddl()


def to_other(message: Message) -> Other:
    return Other(message.k, None)


def as_list(message: Message) -> list[Other]:
    return []


def as_iterator(message: Message) -> Iterator[Other]:
    yield to_other(message)


def as_iterable(message: Message) -> Iterable[Other]:
    return []


def as_generator(message: Message) -> Generator[Other, None, None]:
    yield to_other(message)


def as_tuple(message: Message) -> tuple[Other, ...]:
    return ()


def to_row(message: Any) -> Row:
    return Row(message)


class Caller:
    def __call__(self, message: Message) -> Other:
        return to_other(message)

    def method(self, message: Message) -> Other:
        return to_other(message)


@functools.lru_cache
def cached(message: Message) -> Other:
    return to_other(message)


def with_more(more: int, message: Message) -> Other:
    return to_other(message)


@pytest.mark.parametrize("function", [to_other, Caller(), Caller().method, cached, functools.partial(with_more, 3)])
def test_a_return_annotation_says_the_shape(function: Any) -> None:
    schema = made(lambda stream, app: stream.map(function), Message)
    assert schema is not None
    assert schema.python_class is Other
    assert schema.ddl() == "k string not null, price decimal(38,18)"


@pytest.mark.parametrize("function", [as_list, as_iterator, as_iterable, as_generator, as_tuple])
def test_flat_map_reads_the_element_of_the_annotation(function: Any) -> None:
    schema = made(lambda stream, app: stream.flat_map(function), Message)
    assert schema is not None
    assert schema.python_class is Other


def test_an_annotation_may_name_a_class_of_the_function_around() -> None:
    @dataclass(frozen=True)
    class Local:
        x: int

    def to_local(message: Message) -> Local:
        return Local(1)

    schema = made(lambda stream, app: stream.map(to_local), Message)
    assert schema is not None
    assert schema.names == ("x",)


def test_an_annotation_that_cannot_be_resolved_is_rejected() -> None:
    def to_nowhere(message: Message) -> Nowhere:  # type: ignore[name-defined]  # noqa: F821
        return message

    with pytest.raises(InvalidApplication, match="cannot be resolved"):
        made(lambda stream, app: stream.map(to_nowhere), Message)
    assert ddl(lambda stream, app: stream.map(to_nowhere, schema="x int"), Message) == "x int"


@pytest.mark.parametrize("function", [lambda message: message, to_row, dict, Row])
def test_map_with_neither_keeps_the_inputs_schema(function: Any) -> None:
    schema = made(lambda stream, app: stream.map(function), Message)
    assert schema is not None
    assert schema.python_class is Message


def test_schema_wins_over_the_annotation() -> None:
    assert ddl(lambda stream, app: stream.map(to_other, schema="x int")) == "x int"


def test_a_class_makes_its_own_shape() -> None:
    @dataclass(frozen=True)
    class One:
        x: int

    assert ddl(lambda stream, app: stream.map(One)) == "x bigint not null"


@pytest.mark.parametrize(
    "use",
    [
        lambda stream, app: stream.where("i > 1"),
        lambda stream, app: stream.filter(bool),
        lambda stream, app: stream.partition_by("k", id="p"),
        lambda stream, app: stream.broadcast(id="b"),
        lambda stream, app: stream.map_batches(lambda batch: batch),
        lambda stream, app: stream.select("*"),
    ],
)
def test_these_keep_the_schema(use: Any) -> None:
    assert ddl(use) == made(lambda stream, app: stream).ddl()  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("expressions", "expected"),
    [
        (("k", "i AS j"), "k string not null, j int not null"),
        (("`k` as `the key`",), "`the key` string not null"),
        (("i + 1 AS j",), None),
        (("*", "i + 1 AS j"), None),
        (("current_date",), None),
        (("count(*)",), None),
    ],
)
def test_select_is_known_only_where_no_parser_is_needed(expressions: tuple[str, ...], expected: str | None) -> None:
    assert ddl(lambda stream, app: stream.select(*expressions)) == expected


def test_unknown_stays_unknown() -> None:
    assert ddl(lambda stream, app: stream.where("x").map(lambda m: m).aggregate("k", n=count(), id="a"), None) is None
    assert ddl(lambda stream, app: stream.transform(lambda df: df)) is None
    assert ddl(lambda stream, app: stream.transform(lambda df: df, schema="x int")) == "x int"


def test_aggregate_types() -> None:
    assert ddl(
        lambda stream, app: stream.aggregate(
            ["k", "i"],
            n=count(),
            c=count("l"),
            u=count_distinct("f"),
            s=sum_("i"),
            sf=sum_("f"),
            sm=sum_("m"),
            lo=min_("t"),
            hi=max_("k"),
            mean=avg("m"),
            one=first("i"),
            end=last("a"),
            all=collect("i"),
            id="g",
        )
    ) == (
        "k string not null, i int not null, n bigint not null, c bigint not null, u bigint not null, s bigint, sf "
        "double, "
        "sm decimal(22,2), lo timestamp, hi string, mean decimal(16,6), one int, end array<int>, all array<int>"
    )


def test_window_columns() -> None:
    expected = "k string not null, window_start timestamp not null, window_end timestamp not null, n bigint not null"
    assert (
        ddl(lambda stream, app: stream.window(tumbling(5, time="processing"), key="k", n=count(), id="w")) == expected
    )
    unkeyed = "window_start timestamp not null, window_end timestamp not null, n bigint not null"
    assert ddl(lambda stream, app: stream.window(tumbling(5, time="processing"), n=count(), id="w")) == unkeyed


def test_fold_columns_follow_the_windows() -> None:
    schema = "x int"
    found = ddl(
        lambda stream, app: stream.window(tumbling(5, time="processing"), key="k", fold=max, schema=schema, id="w")
    )
    assert found == "k string not null, window_start timestamp not null, window_end timestamp not null, x int"


def test_windows_can_be_windowed_again() -> None:
    def use(stream: Any, app: Any) -> Any:
        minutes = stream.window(tumbling("1 minute", time="processing"), key="k", n=count(), id="minutes")
        return minutes.window(tumbling("1 hour"), key="k", n=sum_("n"), id="hours")

    assert ddl(use) == "k string not null, window_start timestamp not null, window_end timestamp not null, n bigint"


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("inner", "k string not null, n bigint not null, tier string not null"),
        ("left", "k string not null, n bigint not null, tier string"),
        ("right", "k string not null, n bigint, tier string not null"),
        ("full", "k string not null, n bigint, tier string"),
    ],
)
def test_a_join_without_function_puts_the_columns_together(how: str, expected: str) -> None:
    def use(stream: Any, app: Any) -> Any:
        other = app.input_stream("other", schema="k string not null, tier string not null")
        return stream.join(other, key="k", ttl=1, how=how, id="j")

    assert ddl(use, Message) == expected


def test_a_table_join_takes_the_key_column_once() -> None:
    def use(stream: Any, app: Any) -> Any:
        table = app.pushed_table("t", key="name", schema="name string, tier string")
        return stream.join(table, key="k", how="left", id="j")

    assert ddl(use, Message) == "k string not null, n bigint not null, tier string"


def test_merge_is_nullable_where_one_is() -> None:
    def use(stream: Any, app: Any) -> Any:
        return stream.merge(app.input_stream("other", schema="k string, n bigint not null"))

    schema = made(use, Message)
    assert schema is not None
    assert schema.ddl() == "k string, n bigint not null"
    assert schema.python_class is None


def test_merge_with_an_unknown_schema_is_unknown() -> None:
    assert ddl(lambda stream, app: stream.merge(app.input_stream("other"))) is None


def test_outputs_take_wider_numbers() -> None:
    def describe(app: Any) -> None:
        stream = app.input_stream("in", schema="a int, b float, c decimal(5,2)")
        stream.send_to(app.output_stream("out", schema="c decimal(9,2), a bigint, b double"))

    assert len(stream_application("app")(describe).spec().operators) == 2


def test_the_key_of_a_partition_by_is_the_default_key_of_a_join() -> None:
    def describe(app: Any) -> None:
        left = app.input_stream("left", schema=Message).partition_by("k", id="l").map(lambda message: message)
        right = app.input_stream("right", schema=Other).partition_by("k", id="r")
        left.join(right, id="j", ttl=1)

    join: Any = stream_application("app")(describe).spec().operators[-1]
    assert (join.left_key, join.right_key) == (("k",), ("k",))

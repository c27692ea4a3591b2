"""The test driver, and through it the task: every operator, ends, tables, errors."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza import Row, avg, count, count_distinct, max_, min_, stream_application, sum_
from airflow_samza.errors import (
    InvalidApplication,
    MessageError,
    PlanErrors,
    RuntimeMissing,
    SchemaError,
    UnknownName,
)
from airflow_samza.testing import TestDriver


@dataclass(frozen=True)
class View:
    member_id: int
    country: str | None
    dwell_ms: int


@dataclass(frozen=True)
class Profile:
    member_id: int
    tier: str


@dataclass(frozen=True)
class Enriched:
    member_id: int
    country: str | None
    tier: str | None


VIEWS = [View(1, "NL", 1500), View(2, "NL", 20), View(3, "DE", 2000), View(1, None, 5000), View(2, "NL", 3000)]


def driver_of(describe: Any, **more: Any) -> TestDriver:
    return TestDriver(stream_application("test")(describe), **more)


def test_stateless_operators_give_the_declared_dataclass() -> None:
    def describe(app: Any) -> None:
        views = app.input_stream("views", schema=View)
        views.where("dwell_ms > 1000").filter(lambda view: view.country is not None).send_to(app.output_stream("long"))

    assert driver_of(describe).pipe("views", VIEWS).run().output("long") == [VIEWS[0], VIEWS[2], VIEWS[4]]


def test_map_flat_map_and_select_change_the_shape() -> None:
    def twice(view: View) -> Iterator[Profile]:
        yield Profile(view.member_id, "a")
        yield Profile(view.member_id, "b")

    def describe(app: Any) -> None:
        views = app.input_stream("views", schema=View)
        views.flat_map(twice).send_to(app.output_stream("twice"))
        views.map(lambda view: {"n": view.dwell_ms * 2}, schema="n bigint").send_to(app.output_stream("doubled"))
        views.select("member_id AS id", "dwell_ms / 1000 AS seconds").send_to(app.output_stream("seconds"))

    driver = driver_of(describe).pipe("views", VIEWS[:1]).run()
    assert driver.output("twice") == [Profile(1, "a"), Profile(1, "b")]
    assert driver.output("doubled") == [Row(n=3000)]
    assert driver.output("seconds") == [Row(id=1, seconds=1.5)]


def test_map_batches_gets_and_gives_arrow() -> None:
    def describe(app: Any) -> None:
        views = app.input_stream("views", schema=View)
        views.map_batches(lambda batch: (batch.slice(0, 1), batch.slice(1))).send_to(app.output_stream("all"))

    assert driver_of(describe).pipe("views", VIEWS).run().output("all") == VIEWS


def test_aggregation_through_an_intermediate_topic_is_emitted_at_its_end() -> None:
    def describe(app: Any) -> None:
        (
            app.input_stream("views", schema=View, partitions=4)
            .partition_by("country", id="by-country")
            .aggregate(
                "country",
                id="totals",
                n=count(),
                members=count_distinct("member_id"),
                total=sum_("dwell_ms"),
                least=min_("dwell_ms"),
                most=max_("dwell_ms"),
                mean=avg("dwell_ms"),
            )
            .send_to(app.output_stream("totals"))
        )

    driver = driver_of(describe).pipe("views", VIEWS).run()
    rows = {row.country: row for row in driver.output("totals")}
    assert rows["NL"] == Row(country="NL", n=3, members=2, total=4520, least=20, most=3000, mean=4520 / 3)
    assert rows[None].n == 1
    assert len(rows) == 3
    ends = [report.outputs["by-country"].end_of_stream for report in driver.reports("views")]
    assert [(end.task_name, end.task_count) for end in ends if end is not None] == [(f"task-{k}", 4) for k in range(4)]


def describe_join(app: Any) -> None:
    def enrich(view: View, profile: Profile | None) -> Enriched:
        return Enriched(view.member_id, view.country, profile.tier if profile is not None else None)

    views = app.input_stream("views", schema=View).partition_by("member_id", id="by-member")
    profiles = app.input_stream("profiles", schema=Profile).partition_by("member_id", id="profiles-by-member")
    table = app.local_table("profiles", key="member_id", schema=Profile)
    profiles.send_to(table)
    views.join(table, enrich, how="left", id="left").send_to(app.output_stream("left"))
    views.join(table, how="inner", id="inner").send_to(app.output_stream("inner"))


@pytest.mark.parametrize("partitions", [1, 4])
def test_a_table_is_full_before_its_joiners_read(partitions: int) -> None:
    profiles = [Profile(1, "old"), Profile(3, "gold"), Profile(1, "new")]
    driver = (
        driver_of(describe_join, partitions=partitions)
        .pipe("views", VIEWS)
        .pipe("profiles", profiles, partition=0)
        .run()
    )
    left = sorted(driver.output("left"), key=lambda row: (row.member_id, row.country or ""))
    assert [(row.member_id, row.tier) for row in left] == [(1, "new"), (1, "new"), (2, None), (2, None), (3, "gold")]
    assert sorted((row.member_id, row.dwell_ms, row.tier) for row in driver.output("inner")) == [
        (1, 1500, "new"),
        (1, 5000, "new"),
        (3, 2000, "gold"),
    ]
    assert sorted(driver.table_rows("profiles"), key=lambda p: p.member_id) == [Profile(1, "new"), Profile(3, "gold")]


def test_one_input_may_fill_a_table_and_look_itself_up() -> None:
    def describe(app: Any) -> None:
        views = app.input_stream("views", schema="id bigint, parent bigint").partition_by("id", id="by-id")
        table = app.local_table("all", key="id", schema="id bigint, parent bigint")
        views.send_to(table)
        app_out = app.output_stream("known")
        views.join(table, lambda view, row: view, key="id", id="self").send_to(app_out)

    rows = [Row(id=n, parent=n + 1) for n in range(5)]
    assert driver_of(describe).pipe("views", rows).run().output("known") == rows


def test_a_table_written_behind_its_join_is_seen_message_by_message() -> None:
    def describe(app: Any) -> None:
        views = app.input_stream("views", schema="id bigint").partition_by("id", id="by-id")
        table = app.local_table("seen", key="id", schema="id bigint, n bigint")

        def counted(view: Row, row: Row | None) -> dict[str, int]:
            return {"id": view.id, "n": 1 if row is None else row.n + 1}

        found = views.join(table, counted, how="left", id="count", schema="id bigint, n bigint")
        found.send_to(table)
        found.send_to(app.output_stream("numbered"))

    driver = driver_of(describe).pipe("views", [{"id": 7}, {"id": 8}, {"id": 7}, {"id": 7}]).run()
    assert [(row.id, row.n) for row in driver.output("numbered")] == [(7, 1), (8, 1), (7, 2), (7, 3)]
    assert {row.id: row.n for row in driver.table_rows("seen")} == {7: 3, 8: 1}


def test_a_pushed_table_is_filled_by_the_driver() -> None:
    def describe(app: Any) -> None:
        views = app.input_stream("views", schema=View, key="member_id", partitions=2)
        profiles = app.pushed_table("profiles", key="member_id", schema=Profile, partitions=2)
        views.join(profiles, how="left", id="tier").send_to(app.output_stream("out"))

    driver = driver_of(describe).pipe("views", VIEWS).table("profiles", [Profile(2, "silver")]).run()
    assert sorted((row.member_id, row.tier) for row in driver.output("out") if row.tier) == [
        (2, "silver"),
        (2, "silver"),
    ]
    assert len(driver.output("out")) == 5
    empty = driver_of(describe).pipe("views", VIEWS).run()
    assert {row.tier for row in empty.output("out")} == {None}


def test_broadcast_reaches_every_task() -> None:
    def describe(app: Any) -> None:
        rates = app.input_stream("rates", schema="currency string, rate double").broadcast(id="all-rates")
        table = app.local_table("rates", key="currency", schema="currency string, rate double")
        rates.send_to(table)
        sales = app.input_stream("sales", schema="id bigint, currency string", partitions=4).partition_by(
            "id", id="by-id"
        )
        sales.join(table, id="rated", key="currency").send_to(app.output_stream("rated"))

    driver = driver_of(describe)
    driver.pipe("rates", [{"currency": "EUR", "rate": 1.1}]).pipe(
        "sales", [{"id": n, "currency": "EUR"} for n in range(20)]
    )
    assert sorted(row.id for row in driver.run().output("rated")) == list(range(20))


def test_merge_takes_all_messages() -> None:
    def describe(app: Any) -> None:
        left = app.input_stream("left", schema="id bigint not null")
        right = app.input_stream("right", schema="id bigint")
        left.merge(right).send_to(app.output_stream("both"))

    driver = driver_of(describe).pipe("left", [{"id": 1}]).pipe("right", [{"id": None}, {"id": 2}]).run()
    assert [row.id for row in driver.output("both")] == [1, None, 2]


def test_a_sink_gets_every_message() -> None:
    seen: list[View] = []

    def describe(app: Any) -> None:
        app.input_stream("views", schema=View).sink(seen.append)

    driver_of(describe).pipe("views", VIEWS).run()
    assert seen == VIEWS


def test_arrow_data_goes_in_and_comes_out() -> None:
    def describe(app: Any) -> None:
        app.input_stream("views").where("x % 2 = 0").send_to(app.output_stream("even"))

    table = driver_of(describe).pipe("views", pa.table({"x": [1, 2, 4]})).run().output_table("even")
    assert table.to_pydict() == {"x": [2, 4]}


def test_a_run_without_messages_ends_and_gives_nothing() -> None:
    driver = driver_of(describe_join).run()
    assert driver.output("left") == []
    assert driver.output_table("inner").column_names == ["member_id", "country", "dwell_ms", "tier"]


def test_a_second_run_sees_all_that_was_piped() -> None:
    def describe(app: Any) -> None:
        app.input_stream("views", schema=View).send_to(app.output_stream("out"))

    driver = driver_of(describe).pipe("views", VIEWS[:1]).run()
    assert driver.pipe("views", VIEWS[1:2]).run().output("out") == VIEWS[:2]


def test_the_clock_stands_until_it_is_moved() -> None:
    driver = driver_of(lambda app: app.input_stream("views", schema=View).sink(print))
    start = driver.clock
    assert driver.advance("5 minutes").clock - start == datetime.timedelta(minutes=5)
    driver.clock = datetime.datetime(2020, 1, 1)
    assert driver.clock.isoformat() == "2020-01-01T00:00:00+00:00"


# -- what is rejected ---------------------------------------------------------------------------------------------------


def test_a_callable_that_raises_is_named_with_message_operator_file_and_line() -> None:
    def crash(view: View) -> bool:
        return 1 / (view.dwell_ms - 20) > 0

    def describe(app: Any) -> None:
        app.input_stream("views", schema=View).filter(crash, id="risky").send_to(app.output_stream("out"))

    with pytest.raises(
        MessageError, match=r"crash in filter 'risky' failed with ZeroDivisionError: .*member_id=2"
    ) as caught:
        driver_of(describe).pipe("views", VIEWS).run()
    facts = caught.value.facts
    assert facts["operator"] == "test-1-filter-risky"
    assert str(facts["file"]).endswith("test_testing.py")
    assert facts["line"] == crash.__code__.co_firstlineno + 1
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda view: {"member_id": 1}, "it lacks country, dwell_ms"),
        (lambda view: {"member_id": 1, "country": "x", "dwell_ms": 1, "more": 2}, "it has also more"),
        (lambda view: {"member_id": 1, "country": "x", "dwell_ms": "long"}, "dwell_ms is 'long', which is no bigint"),
        (
            lambda view: {"member_id": None, "country": "x", "dwell_ms": 1},
            "member_id is None, and is declared never null",
        ),
        (lambda view: None, "a message is a dataclass instance, a Row or a dict"),
        (lambda view: (1, 2, 3), "a message is a dataclass instance, a Row or a dict"),
        (lambda view: View(1, "x", 1.5), "dwell_ms is 1.5, which is no bigint"),  # type: ignore[arg-type]
        (lambda view: View(1 << 80, "x", 1), "which is no bigint"),
    ],
)
def test_a_callable_that_returns_another_shape_is_named_with_the_expected_columns(function: Any, why: str) -> None:
    def describe(app: Any) -> None:
        app.input_stream("views", schema=View).map(function, id="shape").send_to(app.output_stream("out"))

    with pytest.raises(MessageError) as caught:
        driver_of(describe).pipe("views", VIEWS).run()
    assert why in caught.value.sentence
    assert "map 'shape'" in caught.value.sentence
    assert "member_id=1" in caught.value.sentence
    assert (
        "expected: the columns member_id bigint not null, country string, dwell_ms bigint not null"
        in caught.value.sentence
    )


def test_flat_map_that_returns_no_iterable_is_rejected() -> None:
    def describe(app: Any) -> None:
        app.input_stream("views", schema=View).flat_map(lambda view: view).send_to(app.output_stream("out"))

    with pytest.raises(MessageError, match="expected: an iterable of messages"):
        driver_of(describe).pipe("views", VIEWS).run()


@pytest.mark.parametrize(
    "function",
    [
        lambda batch: batch.select(["member_id"]),
        lambda batch: batch.to_pydict(),
        lambda batch: [1],
        lambda batch: batch.append_column("more", batch.column(0)),
        lambda batch: batch.set_column(0, "member_id", batch.column("country")),
    ],
)
def test_map_batches_that_returns_another_shape_is_rejected(function: Any) -> None:
    def describe(app: Any) -> None:
        app.input_stream("views", schema=View).map_batches(function, id="shape").send_to(app.output_stream("out"))

    with pytest.raises(MessageError, match=r"in map_batches 'shape' returned .* expected:"):
        driver_of(describe).pipe("views", VIEWS).run()


def test_a_column_that_is_not_there_is_named_before_anything_runs() -> None:
    def describe(app: Any) -> None:
        app.input_stream("views", schema=View).where("dwell > 1000").select("no_such + 1 AS x").send_to(
            app.output_stream("out")
        )

    with pytest.raises(
        UnknownName, match=r"no column 'dwell' for where-0: dwell > 1000 \(.*test_testing.py:\d+\)"
    ) as caught:
        driver_of(describe).pipe("views", VIEWS).run()
    assert caught.value.hint == "Did you mean 'dwell_ms'? The columns are member_id, country, dwell_ms."


def test_several_unknown_columns_are_reported_at_once() -> None:
    def describe(app: Any) -> None:
        views = app.input_stream("views", schema=View)
        views.where("dwell > 1000").send_to(app.output_stream("one"))
        views.select("upper(nation) AS x").send_to(app.output_stream("two"))

    with pytest.raises(PlanErrors, match=r"(?s)'dwell'.*'nation'"):
        driver_of(describe).pipe("views", VIEWS).run()


def test_an_expression_that_fails_on_a_row_names_expression_and_place() -> None:
    def describe(app: Any) -> None:
        app.input_stream("views", schema=View).select("1000 / (dwell_ms - 20) AS x").send_to(app.output_stream("out"))

    with pytest.raises(
        MessageError,
        match=r"\[DIVIDE_BY_ZERO\].*1000 / \(dwell_ms - 20\) AS x, on the message .*dwell_ms=20\) "
        r"\(.*test_testing.py:\d+\)",
    ):
        driver_of(describe).pipe("views", VIEWS).run()


def test_what_only_catalyst_runs_is_rejected_with_the_reason() -> None:
    def describe(app: Any) -> None:
        app.input_stream("views", schema=View).where("country RLIKE 'N.'", id="like").send_to(app.output_stream("out"))

    with pytest.raises(RuntimeMissing, match=r"where 'like' of stage .* runs only in Catalyst .*RLIKE.* no Spark here"):
        driver_of(describe).pipe("views", VIEWS).run()


def test_null_in_a_column_declared_never_null_is_named_with_its_offset() -> None:
    def describe(app: Any) -> None:
        app.input_stream("views", schema=View).sink(print)

    with pytest.raises(SchemaError, match=r"'dwell_ms'.*declared never null, and is null"):
        driver_of(describe).pipe(
            "views", pa.table({"member_id": [1], "country": ["x"], "dwell_ms": pa.nulls(1, pa.int64())})
        )


def test_wrong_use_of_the_driver_is_rejected() -> None:
    driver = driver_of(describe_join)
    with pytest.raises(UnknownName, match="no input 'nope'"):
        driver.pipe("nope", [])
    with pytest.raises(InvalidApplication, match="piped to partition 3; it has 1"):
        driver.pipe("views", VIEWS, partition=3)
    with pytest.raises(InvalidApplication, match="before the application ran"):
        driver.output("left")
    with pytest.raises(UnknownName, match="no output 'nope'"):
        driver.run().output("nope")
    with pytest.raises(InvalidApplication, match="no list of messages"):
        driver.pipe("views", VIEWS[0])
    with pytest.raises(SchemaError, match=r"Message 0 piped into 'views' .*it lacks"):
        driver.pipe("views", [{"member_id": 1}])
    with pytest.raises(InvalidApplication, match="fed by 0 side inputs"):
        driver.table("profiles", [])


@pytest.mark.parametrize(("reduced", "sent"), [(False, ["member", "page", "note"]), (True, ["member", "page"])])
def test_messages_of_an_intermediate_stream_have_the_columns_that_were_sent(reduced: bool, sent: list[str]) -> None:
    def views(app: Any) -> None:
        rows = app.input_stream("rows", schema="member bigint, page string, note string", partitions=1)
        rows.partition_by("member", id="by-member").select("member", "page").send_to(app.output_stream("out"))

    driver = TestDriver(stream_application("views")(views), reduced=reduced)
    driver.pipe("rows", [{"member": 1, "page": "a", "note": "x"}]).run()
    assert driver.output_table("by-member").schema.names == sent
    assert [row.page for row in driver.output("by-member")] == ["a"]

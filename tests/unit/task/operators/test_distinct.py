"""One message of several copies: groups, ties, nulls, time, state, and what follows an aggregation with a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from airflow_samza import Row, count, max_, min_, stream_application, tumbling
from airflow_samza.application.operator_specs import DistinctSpec
from airflow_samza.errors import InvalidApplication, PartitioningMismatch, SchemaError, UnsupportedShape
from airflow_samza.planner.explain import explain
from airflow_samza.planner.planner import ExecutionPlanner, plan_shape
from airflow_samza.schema import Schema
from airflow_samza.task.operators.distinct import copies
from airflow_samza.task.operators.distinct.chains import group_begins, segments_of
from airflow_samza.task.operators.distinct.operator import Distinct
from airflow_samza.testing import TestDriver

NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
SCHEMA = "k string, n bigint, at timestamp"
Messages = Sequence[tuple[str | None, int | None]]


def rows(messages: Messages, first: int = 0) -> list[dict[str, Any]]:
    """Messages of a key and a minute, numbered."""
    return [
        {"k": k, "n": first + n, "at": None if minute is None else NOON + timedelta(minutes=minute)}
        for n, (k, minute) in enumerate(messages)
    ]


def driver_of(timed: bool = True, bounded: bool = True, behind: Any = None, **said: Any) -> TestDriver:
    def describe(app: Any) -> None:
        time = {"timestamp": "at", "max_delay": "0 seconds"} if timed else {}
        messages = app.input_stream("messages", schema=SCHEMA, partitions=1, bounded=bounded, **time)
        stream = messages.partition_by("k", id="by-k").distinct("k", id="once", **said)
        (stream if behind is None else behind(stream)).send_to(app.output_stream("once"))

    return TestDriver(stream_application("test")(describe), partitions=3)


def numbers(driver: TestDriver) -> list[int]:
    return [row.n for row in driver.output("once")]


def once(messages: Messages, **said: Any) -> list[int]:
    return sorted(numbers(driver_of(**said).pipe("messages", rows(messages)).run()))


MINUTES: Messages = [("a", 0), ("a", 9), ("a", 10), ("a", 19), ("b", 5), ("a", 21)]


def test_a_group_lasts_from_its_first_message_for_the_time_and_the_next_message_begins_another() -> None:
    assert once(MINUTES, within="10 minutes") == [0, 2, 4, 5]
    assert once(MINUTES, within="10 minutes", keep="last") == [1, 3, 4, 5]


def test_messages_of_any_order_are_in_the_same_groups() -> None:
    assert once([("a", 12), ("a", 3), ("a", 9), ("a", 0)], within="10 minutes") == [0, 3]
    assert once([("a", 12), ("a", 3), ("a", 9), ("a", 0)], within="10 minutes", keep="last") == [0, 2]


def test_a_group_may_begin_in_another_partition_so_no_copy_is_left_out_before_the_shuffle() -> None:
    def describe(app: Any) -> None:
        messages = app.input_stream("messages", schema=SCHEMA, partitions=2, timestamp="at", max_delay="0 seconds")
        ones = messages.partition_by("k", id="by-k").distinct("k", within="10 minutes", id="once")
        ones.send_to(app.output_stream("once"))

    driver = TestDriver(stream_application("test")(describe), partitions=2)
    driver.pipe("messages", rows([("a", 5), ("a", 12)]), partition=0).pipe("messages", rows([("a", 0)], 2), partition=1)
    assert sorted(numbers(driver.run())) == [1, 2]


def test_without_a_time_all_messages_of_a_key_are_copies() -> None:
    assert once([("a", 700), ("b", 1), ("a", 3), ("a", 5000)]) == [1, 2]
    assert once([("a", 700), ("b", 1), ("a", 5000), ("a", 3)], keep="last") == [1, 2]


def test_without_event_times_the_order_of_arrival_counts() -> None:
    assert once([("a", 700), ("b", None), ("a", 3)], timed=False) == [0, 1]
    assert once([("a", 700), ("b", None), ("a", 3)], timed=False, keep="last") == [1, 2]


@pytest.mark.parametrize(("keep", "kept"), [("first", [0]), ("last", [2])])
@pytest.mark.parametrize("within", [None, "1 second"])
def test_of_equal_times_the_order_of_arrival_counts(keep: str, kept: list[int], within: str | None) -> None:
    assert once([("a", 1), ("a", 1), ("a", 1)], within=within, keep=keep) == kept


def test_nulls_in_keys_are_equal() -> None:
    assert once([(None, 1), ("", 1), (None, 2), ("a", 3)], within="1 hour") == [0, 1, 3]


def test_keys_of_several_columns_are_equal_in_all_of_them_nulls_and_floats_too() -> None:
    def describe(app: Any) -> None:
        messages = app.input_stream("messages", schema="k string, f double, d decimal(5,2), b boolean", key="k")
        messages.distinct(["k", "f", "d", "b"], id="once").send_to(app.output_stream("once"))

    nan = float("nan")
    same = [("a", 0.0, None, True), ("a", -0.0, None, True), ("a", nan, None, None), ("a", nan, None, None)]
    others = [("a", None, None, True), (None, None, None, None), (None, None, None, None), ("a", 0.0, None, False)]
    driver = TestDriver(stream_application("test")(describe))
    messages = [dict(zip("kfdb", each, strict=True)) for each in [*same, *others]]
    found = [str(row) for row in driver.pipe("messages", messages).run().output("once")]
    assert sorted(found) == sorted(str(Row(messages[place])) for place in (0, 2, 4, 5, 7))


def test_messages_without_a_time_are_in_no_group_and_counted() -> None:
    driver = driver_of(within="1 hour").pipe("messages", rows([("a", None), ("a", 1), (None, None), ("a", 2)])).run()
    assert numbers(driver) == [1]
    assert metrics(driver) == {"duplicate_messages": 1, "late_messages": 0, "messages_without_time": 2}


def metrics(driver: TestDriver) -> dict[str, float]:
    found: dict[str, float] = {}
    for report in driver.reports(driver.plan.stages[-1].stage_id):
        for name, value in report.metrics.items():
            found[name] = found.get(name, 0) + value
    return found


def test_a_first_copy_comes_when_the_watermark_has_passed_it() -> None:
    driver = driver_of(bounded=False, within="10 minutes").pipe("messages", rows([("a", 0)])).step()
    assert numbers(driver) == []  # one of the same minute, or an earlier one, could come
    driver.pipe("messages", rows([("b", 1), ("a", 1)], 1)).step()
    assert numbers(driver) == [0]
    driver.pipe("messages", rows([("c", 2)], 3)).step()
    assert numbers(driver) == [0, 1]


def test_a_last_copy_comes_when_the_watermark_has_passed_its_group() -> None:
    driver = driver_of(bounded=False, within="10 minutes", keep="last")
    driver.pipe("messages", rows([("a", 0), ("a", 4)])).step().pipe("messages", rows([("b", 9)], 2)).step()
    assert numbers(driver) == []
    driver.pipe("messages", rows([("b", 10)], 3)).step()
    assert numbers(driver) == [1]
    driver.drain()
    assert numbers(driver) == [1, 3]


def test_a_message_behind_the_watermark_is_late_and_counted() -> None:
    ones = operator(within="10 minutes")
    list(ones.process(batch([("a", 5)])))
    list(ones.on_watermark(milliseconds(5)))
    list(ones.process(batch([("b", 4), ("a", 5), ("b", 6), ("a", None)], 1)))
    assert [row["n"] for made in ones.flush() for row in made.to_pylist()] == [0, 3]
    assert ones.metrics() == {"duplicate_messages": 1, "late_messages": 1, "messages_without_time": 1}


def test_late_messages_go_to_a_stream_as_they_came_with_columns_that_nobody_else_reads() -> None:
    def describe(app: Any) -> None:
        time = {"timestamp": "at", "max_delay": "0 seconds", "bounded": False}
        messages = app.input_stream("messages", schema=SCHEMA, partitions=1, **time)
        late = app.output_stream("late")
        ones = messages.partition_by("k", id="by-k").distinct("k", within="1 hour", late_to=late, id="once")
        ones.select("k").send_to(app.output_stream("once"))

    driver = TestDriver(stream_application("test")(describe), partitions=3)
    driver.pipe("messages", rows([("a", 5)])).step()
    driver.pipe("messages", rows([(None, 1), ("b", 6), ("b", None), ("a", 2)], 1)).step()
    found = [(row.k, row.n, row.at) for row in driver.drain().output("late")]
    assert sorted(found, key=str) == [
        ("a", 4, NOON + timedelta(minutes=2)),
        (None, 1, NOON + timedelta(minutes=1)),
    ]
    assert [row.k for row in driver.output("once")] == ["a", "b"]


def test_late_to_is_rejected_where_nothing_is_late_and_where_it_is_no_stream() -> None:
    def describe(timed: bool, late_to: Any) -> Any:
        def application(app: Any) -> None:
            time = {"timestamp": "at"} if timed else {}
            messages = app.input_stream("messages", schema=SCHEMA, partitions=1, **time)
            messages.distinct("k", late_to=late_to or app.output_stream("late"), id="once")

        return stream_application("test")(application).spec

    with pytest.raises(InvalidApplication, match="goes by the order of arrival, in which nothing is late"):
        describe(False, None)()
    with pytest.raises(InvalidApplication, match="has late_to='late', which is no output stream"):
        describe(True, "late")()
    describe(True, None)()


@pytest.mark.parametrize("keep", ["first", "last"])
def test_a_window_behind_it_misses_nothing(keep: str) -> None:
    def hours(stream: Any) -> Any:
        return stream.window(tumbling("1 hour"), key="k", n=count(), id="hours")

    driver = driver_of(bounded=False, within="10 minutes", keep=keep, behind=hours)
    for place, minute in enumerate([0, 1, 59, 61, 62, 130, 200]):
        driver.pipe("messages", rows([("a", minute)], place)).step()
    driver.drain()
    starts = [(row.window_start.hour, row.n) for row in driver.output("once")]
    expected = {"first": [(12, 2), (14, 1), (15, 1)], "last": [(12, 1), (13, 1), (14, 1), (15, 1)]}
    assert starts == expected[keep]


@pytest.mark.parametrize("keep", ["first", "last"])
@pytest.mark.parametrize("within", [None, "1 minute"])
def test_waiting_copies_that_cannot_stay_are_left_out_before_the_end(
    keep: str, within: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages: Messages = [("ab"[n % 2], n % 7) for n in range(200)]
    whole = once(messages, keep=keep, within=within)
    monkeypatch.setattr(copies, "_GATHERED", 3)
    driver = driver_of(keep=keep, within=within)
    for place in range(0, 200, 10):
        driver.pipe("messages", rows(messages[place : place + 10], place))
    driver.run(mode="pipelined", epoch_messages=10)
    assert sorted(numbers(driver)) == whole
    ones = operator(keep=keep, within=within)
    for place in range(0, 200, 10):
        list(ones.process(batch(messages[place : place + 10], place)))
    assert sum(made.num_rows for made in ones.flush()) == len(whole)
    assert ones.metrics()["duplicate_messages"] == 200 - len(whole)


# -- chains ------------------------------------------------------------------------------------------------------------


def test_chains_are_those_of_a_loop() -> None:
    rng = np.random.default_rng(7)
    for _ in range(50):
        size, within = int(rng.integers(1, 300)), int(rng.integers(1, 40))
        keys, times = rng.integers(0, 9, size), rng.integers(0, 200, size)
        opened = {key: int(rng.integers(-60, 0)) for key in range(9)}
        segments = segments_of([pa.array(keys)], times)
        before = np.array([opened[int(keys[segments.order[begin]])] for begin in segments.begins])
        begins, behind = group_begins(times[segments.order], segments, before, within)
        expected, after = set(), dict(opened)
        for row in np.lexsort((times, keys)):
            if times[row] >= after[int(keys[row])] + within:
                after[int(keys[row])] = int(times[row])
                expected.add(int(row))
        assert set(segments.order[begins].tolist()) == expected
        for place, begin in enumerate(segments.begins):
            members = times[segments.order[begin : behind[place]]]
            assert (members < before[place] + within).all()


# -- state -------------------------------------------------------------------------------------------------------------


def operator(messages: str = SCHEMA, **said: Any) -> Distinct:
    def describe(app: Any) -> None:
        app.input_stream("messages", schema=SCHEMA, timestamp="at", key="k").distinct("k", id="once", **said)

    spec = next(op for op in stream_application("test")(describe).spec().operators if isinstance(op, DistinctSpec))
    return Distinct(spec, Schema.of(messages))


def batch(messages: Messages, first: int = 0) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows(messages, first), Schema.of(SCHEMA).to_arrow())


def milliseconds(minute: int) -> int:
    return int((NOON + timedelta(minutes=minute)).timestamp() * 1000)


def test_the_state_is_bounded_by_the_time() -> None:
    ones = operator(within="10 minutes")
    for minute in range(300):
        list(ones.process(batch([(f"k{minute}", minute)])))
        list(ones.on_watermark(milliseconds(minute)))
    assert 10 <= sum(table.num_rows for name, table in ones.snapshot().items() if name != "reached") <= 40


@pytest.mark.parametrize("keep", ["first", "last"])
def test_state_goes_on_where_fewer_columns_are_used_and_is_rejected_where_one_is_missing(keep: str) -> None:
    former = operator(within="10 minutes", keep=keep)
    list(former.process(batch([("a", 0), ("b", 30), ("b", 31), (None, 30)])))
    list(former.on_watermark(milliseconds(31)))
    state: Mapping[str, pa.Table] = former.snapshot()
    fewer = operator("k string, at timestamp", within="10 minutes", keep=keep)
    fewer.restore(state)
    left = [(row["k"], sorted(row)) for made in fewer.flush() for row in made.to_pylist()]
    assert left == ([("b", ["at", "k"]), (None, ["at", "k"])] if keep == "last" else [])
    more = operator("k string, n bigint, at timestamp, x bigint not null", within="10 minutes", keep=keep)
    list(former.process(batch([("c", 40)])))
    with pytest.raises(SchemaError, match="There is no column 'x' in what distinct 'once' kept"):
        more.restore(former.snapshot())


# -- declarations ------------------------------------------------------------------------------------------------------


def test_a_key_that_lies_in_several_partitions_is_rejected_with_the_partition_by_to_add() -> None:
    def describe(app: Any, **said: Any) -> None:
        app.input_stream("messages", schema=SCHEMA, partitions=4).distinct("k", id="once", **said)

    with pytest.raises(PartitioningMismatch) as raised:
        ExecutionPlanner({}, {"messages": 4}).plan(stream_application("test")(describe).spec())
    assert ".partition_by('k', id=…)" in str(raised.value.hint)
    assumed = stream_application("test")(lambda app: describe(app, assume_partitioned_by="k"))
    assert ExecutionPlanner({}, {"messages": 4}).plan(assumed.spec()).stages


def test_an_input_without_end_needs_a_time_also_before_counts_are_known() -> None:
    with pytest.raises(UnsupportedShape, match="distinct 'once' has no within=, and the input 'messages' has no end"):
        plan_shape(driver_of(bounded=False).spec)


def test_the_plan_says_what_is_kept_and_warns_of_inputs_without_watermarks() -> None:
    def describe(app: Any) -> None:
        messages = app.input_stream("messages", schema=SCHEMA, timestamp="at", bounded=False, key="k")
        messages.distinct("k", id="once", within="1 day", keep="last").send_to(app.output_stream("once"))

    plan = ExecutionPlanner({}, {"messages": 1}).plan(stream_application("test")(describe).spec())
    assert "by k, the last within 1 day" in explain(plan)
    assert any("makes no watermarks: messages leave it only when" in warning for warning in plan.warnings)


# -- an aggregation with a time ----------------------------------------------------------------------------------------


def totals(bounded: bool, behind: Any, **said: Any) -> TestDriver:
    def describe(app: Any) -> None:
        options = {"schema": SCHEMA, "timestamp": "at", "max_delay": "0 seconds", "partitions": 1, "bounded": bounded}
        messages = app.input_stream("messages", **options).partition_by("k", id="by-k")
        per_key = messages.aggregate("k", id="per-k", n=count(), **said)
        behind(app, per_key).send_to(app.output_stream("once"))

    return TestDriver(stream_application("test")(describe), partitions=2)


@pytest.mark.parametrize("bounded", [True, False])
def test_a_window_follows_an_aggregation_whose_rows_have_a_time(bounded: bool) -> None:
    driver = totals(
        bounded,
        lambda app, stream: stream.window(tumbling("1 hour"), key="k", n=max_("n"), id="hours"),
        begun=min_("at"),
        timestamp="begun",
    )
    for place, minute in enumerate([0, 61, 70]):
        driver.pipe("messages", rows([("a", minute), ("b", minute + 60)], 2 * place))
        if not bounded:
            driver.step()
    (driver.run if bounded else driver.drain)()
    found = sorted((row.k, row.window_start.hour, row.n) for row in driver.output("once"))
    assert found == [("a", 12, 3), ("b", 13, 3)]


def test_a_join_by_event_time_follows_an_aggregation_whose_rows_have_a_time() -> None:
    def joined(app: Any, stream: Any) -> Any:
        other = app.input_stream("other", schema=SCHEMA, timestamp="at", partitions=1).partition_by("k", id="others")
        named = other.select("k", "n AS m", "at AS then")
        return stream.join(named, key="k", ttl="5 minutes", id="both")

    driver = totals(True, joined, newest=max_("at"), timestamp="newest")
    driver.pipe("messages", rows([("a", 0), ("a", 10), ("b", 0)])).pipe("other", rows([("a", 14), ("b", 20)]))
    assert [(row.k, row.n, row.m) for row in driver.run().output("once")] == [("a", 2, 0)]


def test_a_column_of_the_key_is_the_time_of_the_rows() -> None:
    def describe(app: Any) -> None:
        days = app.input_stream("days", schema="day date, n bigint", key="day").aggregate(
            "day", id="per-day", n=count(), timestamp="day"
        )
        days.window(tumbling("31 days"), id="months", n=count()).send_to(app.output_stream("out"))

    driver = TestDriver(stream_application("test")(describe))
    driver.pipe("days", [{"day": NOON.date(), "n": 1}, {"day": NOON.date(), "n": 2}]).run()
    assert [row.n for row in driver.output("out")] == [1]


def test_the_plan_shows_the_time_of_an_aggregations_rows() -> None:
    driver = totals(True, lambda app, stream: stream, newest=max_("at"), timestamp="newest")
    assert "event time newest" in explain(driver.pipe("messages", rows([("a", 0)])).run().plan)


def test_a_window_behind_an_aggregation_without_a_time_is_told_how_to_give_it_one() -> None:
    with pytest.raises(InvalidApplication) as raised:
        totals(True, lambda app, stream: stream.window(tumbling("1 hour"), key="k", n=count(), id="hours"))
    hint = 'Give its rows a time there, at=max_("at"), timestamp="at"; or use time="processing".'
    assert raised.value.hint == hint

"""A join of two streams within a time to live, rule by rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from airflow_samza import Row, stream_application
from airflow_samza.application.operator_specs import StreamJoinSpec
from airflow_samza.errors import InvalidApplication, MessageError, SchemaError
from airflow_samza.task.operators.stream_join import buffer
from airflow_samza.task.operators.stream_join.keys import JoinKey
from airflow_samza.task.operators.stream_join.operator import StreamJoin
from airflow_samza.testing import TestDriver
from tests.support.stream_join_model import KINDS, batch_of, join_spec, make_join

LEFT, RIGHT = "k bigint, at bigint, v int", "r_k bigint, r_at bigint, w int"


def spec_of(how: str = "inner", ttl_ms: int = 10, **more: Any) -> StreamJoinSpec:
    return join_spec(how, ttl_ms, ["k"], LEFT, RIGHT, **more)


def give(join: StreamJoin, side: int, *rows: tuple[Any, ...]) -> list[dict[str, Any]]:
    names = ("k", "at", "v") if side == 0 else ("r_k", "r_at", "w")
    batch = batch_of([dict(zip(names, row, strict=True)) for row in rows], join.spec, side)
    return told([*join.process_from(batch, side), *join.settle()])


def told(batches: Any) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


def vw(rows: list[dict[str, Any]]) -> list[tuple[Any, Any]]:
    return [(row["v"], row["w"]) for row in rows]


def test_messages_of_one_key_join_when_their_times_differ_by_at_most_the_ttl() -> None:
    join = make_join(spec_of(ttl_ms=10))
    give(join, 0, (1, 100, 7))
    assert vw(give(join, 1, (1, 89, 0), (1, 90, 1), (1, 110, 2), (1, 111, 3), (2, 100, 4))) == [(7, 1), (7, 2)]


def test_it_does_not_matter_which_side_comes_first() -> None:
    join = make_join(spec_of())
    give(join, 1, (1, 100, 2))
    assert give(join, 0, (1, 105, 7)) == [{"k": 1, "at": 105, "v": 7, "r_at": 100, "w": 2}]


@pytest.mark.parametrize(
    ("runs", "left"),
    [([[1, 2, 3, 4], [9, 10]], [[9, 10]]), ([[9, 10, 11, 12], [2, 20]], [[9, 10, 11, 12], [20]])],
    ids=["a longer run expires", "a longer run stays"],
)
def test_rows_that_may_still_join_stay_beside_rows_that_expire(runs: list[list[int]], left: list[list[int]]) -> None:
    kept = buffer.Buffer()
    for times in runs:
        rows = pa.record_batch({"at": pa.array(times, pa.int64())})
        kept.add(buffer.SortedRun(rows, np.zeros(len(times), np.int64), np.array(times), None))
    assert [*kept.evict(5)] == []
    assert [run.left().times.tolist() for run in kept.runs] == left


def test_a_null_in_the_key_or_the_time_joins_nothing() -> None:
    join = make_join(spec_of("full"))
    give(join, 0, (None, 100, 1), (1, None, 2))
    given = [*give(join, 1, (None, 100, 3), (1, None, 4)), *told(join.flush())]
    assert vw(given) == [(None, 3), (None, 4)]


def test_what_can_never_join_comes_out_of_an_outer_join_at_once() -> None:
    join = make_join(spec_of("left"))
    assert vw(give(join, 0, (None, 100, 1), (1, None, 2), (1, 100, 3))) == [(1, None), (2, None)]


@pytest.mark.parametrize(
    ("how", "alone"), [("inner", []), ("left", [(1, None)]), ("right", [(None, 2)]), ("full", [(1, None), (None, 2)])]
)
def test_what_stayed_alone_comes_out_when_no_partner_can_come_any_more(how: str, alone: list[Any]) -> None:
    join = make_join(spec_of(how, ttl_ms=10))
    give(join, 0, (1, 100, 1), (3, 100, 3))
    give(join, 1, (2, 100, 2), (3, 100, 3))
    assert told(join.on_watermark(110)) == []
    assert vw(told(join.on_watermark(111))) == alone
    assert told(join.on_watermark(500)) == []
    assert told(join.flush()) == []


def test_the_key_is_that_of_the_side_that_is_there() -> None:
    join = make_join(spec_of("full"))
    give(join, 1, (5, 100, 1))
    assert told(join.flush()) == [{"k": 5, "at": None, "v": None, "r_at": 100, "w": 1}]


def test_rows_go_when_nothing_can_join_them_any_more() -> None:
    join = make_join(spec_of(ttl_ms=10))
    for at in range(0, 1000, 10):
        give(join, 0, *[(at, at, at)] * 5)
        give(join, 1, *[(at + 1, at, at)] * 5)
        told(join.on_watermark(at))
    kept = {name: table.num_rows for name, table in join.snapshot().items()}
    assert kept == {"left": 10, "right": 10, "watermark": 1}


def test_messages_older_than_the_watermark_are_late_and_counted() -> None:
    join = make_join(spec_of("full"))
    told(join.on_watermark(100))
    give(join, 0, (1, 99, 1), (1, 100, 2), (1, None, 3))
    assert vw(give(join, 1, (1, 95, 4), (1, 105, 5))) == [(2, 5)]
    assert join.late == 2
    assert told(join.flush()) == []


def test_what_comes_out_is_at_most_the_ttl_older_than_the_watermark() -> None:
    assert make_join(spec_of(ttl_ms=10)).output_watermark(100) == 90
    assert make_join(spec_of(ttl_ms=1000)).output_watermark(100) == -1


def test_without_event_time_the_arrival_counts() -> None:
    now = [0]
    join = make_join(spec_of("left", ttl_ms=10, timestamps=False), lambda: now[0])
    give(join, 0, (1, 7, 1))
    now[0] = 10
    assert vw(give(join, 1, (1, 9999, 2))) == [(1, 2)]
    give(join, 0, (2, 7, 3))
    now[0] = 21
    assert give(join, 1, (2, 7, 4)) == []
    assert vw(told(join.on_time(21))) == [(3, None)]


def test_state_goes_on_where_it_was_left() -> None:
    first = make_join(spec_of("left"))
    give(first, 0, (1, 100, 1), (2, 100, 2))
    give(first, 1, (1, 100, 3))
    told(first.on_watermark(100))
    second = make_join(spec_of("left"))
    second.restore(first.snapshot())
    assert give(second, 0, (9, 99, 9)) == []
    assert second.late == 1
    assert vw(give(second, 1, (1, 101, 4))) == [(1, 4)]
    assert vw(told(second.flush())) == [(2, None)]


def test_state_of_the_right_stream_goes_on_where_the_left_one_left_none() -> None:
    first, second = make_join(spec_of()), make_join(spec_of())
    give(first, 1, (1, 100, 3))
    second.restore(first.snapshot())
    assert vw(give(second, 0, (1, 101, 4))) == [(4, 3)]


def test_state_of_other_columns_is_rejected() -> None:
    first = make_join(spec_of())
    give(first, 0, (1, 100, 1))
    other = make_join(join_spec("inner", 10, ["k"], "k bigint, at bigint, x string", RIGHT))
    with pytest.raises(SchemaError, match="no column 'x' in what join 'joined' kept of its left stream"):
        other.restore(first.snapshot())


def test_keys_that_share_a_hash_do_not_join(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow_samza.task.operators.stream_join import keys

    monkeypatch.setattr(keys, "_HASH_SPACE", 1)
    join = make_join(join_spec("inner", 10, ["k"], "k string, at bigint, v int", "r_k string, r_at bigint, w int"))
    give(join, 0, ("a", 100, 1), ("b", 100, 2))
    assert vw(give(join, 1, ("b", 100, 3), ("c", 100, 4))) == [(2, 3)]


def test_a_hot_key_comes_out_in_pieces() -> None:
    join = make_join(spec_of())
    rows = [(1, 100, n) for n in range(600)]
    give(join, 0, *rows)
    batch = batch_of([{"r_k": 1, "r_at": 100, "w": n} for n in range(600)], join.spec, 1)
    sizes = [made.num_rows for made in [*join.process_from(batch, 1), *join.settle()]]
    assert sum(sizes) == 360_000
    assert max(sizes) <= 1 << 16


# -- in an application
# -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class View:
    """A view."""

    member: int
    at: int


@dataclass(frozen=True)
class Click:
    """A click."""

    who: int
    clicked: int
    button: str


def viewed(view: View | None, click: Click | None) -> dict[str, Any]:
    if click is not None and click.button == "broken":
        raise ValueError("no such button")
    return {"member": view.member if view else None, "button": click.button if click else None}


def clicks_of(how: str, function: Any = None, **right: Any) -> Any:
    @stream_application("clicks")
    def clicks(app: Any) -> None:
        views = app.input_stream("views", schema=View, timestamp="at").partition_by("member", id="by-member")
        pressed = app.input_stream("clicks", schema=Click, **right).partition_by("who", id="by-who")
        more = {"schema": "member bigint, button string"} if function else {}
        joined = views.join(pressed, function, id="pairs", how=how, ttl=10, left_key="member", right_key="who", **more)
        joined.send_to(app.output_stream("pairs"))

    return clicks


VIEWS = [View(1, 100), View(2, 100), View(3, 100)]
CLICKS = [Click(1, 105, "a"), Click(2, 200, "b"), Click(4, 100, "c")]


@pytest.mark.parametrize("how", KINDS)
def test_a_function_gets_both_messages_and_none_for_the_missing_side(how: str) -> None:
    driver = TestDriver(clicks_of(how, viewed, timestamp="clicked")).pipe("views", VIEWS).pipe("clicks", CLICKS).run()
    alone: dict[str, list[Any]] = {"left": [(2, None), (3, None)], "right": [(None, "b"), (None, "c")]}
    wanted: list[Any] = [(1, "a")]
    for side in ("left", "right") if how == "full" else (how,):
        wanted += alone.get(side, [])
    assert sorted(((row.member, row.button) for row in driver.output("pairs")), key=repr) == sorted(wanted, key=repr)


def test_a_function_that_fails_is_named_with_both_messages() -> None:
    driver = (
        TestDriver(clicks_of("inner", viewed, timestamp="clicked"))
        .pipe("views", VIEWS)
        .pipe("clicks", [Click(1, 100, "broken")])
    )
    with pytest.raises(
        MessageError,
        match=r"viewed in join 'pairs' failed with ValueError: no such button, on the message View\(.* with Click\(",
    ):
        driver.run()


def test_without_a_function_the_columns_are_put_together() -> None:
    driver = TestDriver(clicks_of("inner", timestamp="clicked")).pipe("views", VIEWS).pipe("clicks", CLICKS).run()
    assert driver.output("pairs") == [Row(member=1, at=100, clicked=105, button="a")]


def test_event_time_on_one_side_only_is_rejected_before_anything_runs() -> None:
    driver = TestDriver(clicks_of("inner")).pipe("views", VIEWS).pipe("clicks", CLICKS)
    with pytest.raises(
        InvalidApplication, match=r"knows the event time of its left stream .'at'., and none of its right stream"
    ):
        driver.run()


def test_two_maps_of_one_stream_join() -> None:
    @stream_application("pairs")
    def pairs(app: Any) -> None:
        views = app.input_stream("views", schema="k bigint, at bigint, v int", key="k", timestamp="at")
        left = views.where("v < 10")
        right = views.select("k AS other", "at AS also", "v AS w")
        left.join(right, id="pairs", ttl=5, left_key="k", right_key="other").send_to(app.output_stream("pairs"))

    rows = [
        {"k": 1, "at": 100, "v": 1},
        {"k": 1, "at": 104, "v": 2},
        {"k": 1, "at": 107, "v": 30},
        {"k": 2, "at": 104, "v": 4},
    ]
    found = TestDriver(pairs).pipe("views", rows).run().output("pairs")
    assert sorted((row.v, row.w) for row in found) == [(1, 1), (1, 2), (2, 1), (2, 2), (2, 30), (4, 4)]


def test_columns_that_nobody_reads_do_not_reach_the_join() -> None:
    @stream_application("narrow")
    def narrow(app: Any) -> None:
        left = app.input_stream("left", schema="k bigint, at bigint, v int, big string", key="k", timestamp="at")
        right = app.input_stream(
            "right", schema="r_k bigint, r_at bigint, w int, large string", key="r_k", timestamp="r_at"
        )
        joined = left.join(right, id="pairs", ttl=5, left_key="k", right_key="r_k")
        joined.select("v", "w").send_to(app.output_stream("pairs"))

    driver = TestDriver(narrow, reduced=True)
    driver.pipe("left", [{"k": 1, "at": 1, "v": 1, "big": "x"}]).pipe(
        "right", [{"r_k": 1, "r_at": 1, "w": 2, "large": "x"}]
    )
    assert driver.run().output("pairs") == [Row(v=1, w=2)]


def test_the_buffers_columns_keep_their_types() -> None:
    join = make_join(
        join_spec(
            "inner",
            10,
            ["k"],
            "k bigint, at timestamp, v decimal(10,2), s struct<a: int>",
            "r_k bigint, r_at timestamp",
        )
    )
    batch = pa.RecordBatch.from_pylist([{"k": 1, "at": 5_000_000, "v": 1, "s": {"a": 1}}], join.input.to_arrow())
    told([*join.process_from(batch, 0), *join.settle()])
    table = join.snapshot()["left"]
    assert table.schema.names == ["time", "matched", "message.k", "message.at", "message.v", "message.s"]
    assert table.column("time").to_pylist() == [5_000_000]


# -- from epoch to epoch
# ---------------------------------------------------------------------------------------------------


def unbounded(app: Any) -> None:
    views = app.input_stream("views", schema=View, timestamp="at", max_delay=5, bounded=False).partition_by(
        "member", id="by-member"
    )
    pressed = app.input_stream("clicks", schema=Click, timestamp="clicked", max_delay=5, bounded=False).partition_by(
        "who", id="by-who"
    )
    views.join(pressed, id="pairs", how="left", ttl=10, left_key="member", right_key="who").send_to(
        app.output_stream("pairs")
    )


def test_what_waits_for_a_partner_waits_from_run_to_run() -> None:
    driver = TestDriver(
        stream_application("unbounded")(unbounded), partitions=2, config={"job.intermediate.stream.partitions": "2"}
    )
    driver.pipe("views", [View(1, 100), View(2, 100)]).pipe("clicks", [Click(9, 100, "x")]).catch_up()
    assert driver.output("pairs") == []
    driver.pipe("clicks", [Click(1, 106, "late, but not too late")]).catch_up()
    assert [(row.member, row.button) for row in driver.output("pairs")] == [(1, "late, but not too late")]
    assert sorted(row.member for row in driver.drain().output("pairs") if row.button is None) == [2]
    assert len(driver.output("pairs")) == 2


def test_event_time_lets_go_of_what_stayed_alone_before_the_end() -> None:
    driver = TestDriver(
        stream_application("unbounded")(unbounded), partitions=1, config={"job.intermediate.stream.partitions": "1"}
    )
    driver.pipe("views", [View(1, 100), View(2, 100)]).pipe("clicks", [Click(1, 101, "a")]).step()
    driver.pipe("views", [View(3, 200)]).pipe("clicks", [Click(3, 200, "b")]).step()
    driver.step()
    assert sorted((row.member, row.button) for row in driver.output("pairs")) == [(1, "a"), (2, None), (3, "b")]
    driver.pipe("views", [View(2, 100)]).step()
    assert len(driver.drain().output("pairs")) == 3  # the last view came too late


@pytest.mark.parametrize("how", KINDS)
def test_epochs_of_few_messages_give_what_one_run_gives(how: str) -> None:
    def driver() -> TestDriver:
        made = TestDriver(clicks_of(how, timestamp="clicked"), config={"job.intermediate.stream.partitions": "2"})
        views = [View(number % 5, number * 3) for number in range(40)]
        return made.pipe("views", views).pipe(
            "clicks", [Click(number % 4, number * 5, str(number)) for number in range(30)]
        )

    at_once = sorted(driver().run().output("pairs"), key=repr)
    assert len(at_once) > 30
    assert sorted(driver().run(mode="pipelined", epoch_messages=3).output("pairs"), key=repr) == at_once


@pytest.mark.parametrize("pairs", [1, 2, 100])
def test_keys_whose_hashes_meet_by_chance_are_compared(monkeypatch: pytest.MonkeyPatch, pairs: int) -> None:
    monkeypatch.setattr(JoinKey, "numbers", lambda self, batch: np.zeros(batch.num_rows, np.int64))
    monkeypatch.setattr(buffer, "PAIRS", pairs)
    spec = join_spec("full", 10, ["k"], LEFT.replace("k bigint", "k string"), RIGHT.replace("k bigint", "k string"))
    join = make_join(spec)
    give(join, 0, ("a", 100, 1), ("b", 100, 2), ("c", 100, 3), ("d", 100, 4))
    given = give(join, 1, ("d", 100, 40), ("a", 101, 10), ("e", 100, 50), ("b", 111, 20), ("c", 99, 30))
    assert sorted(vw(given)) == [(1, 10), (3, 30), (4, 40)]
    assert {(row["k"], row["v"], row["w"]) for row in told(join.flush())} == {
        ("b", 2, None),
        ("b", None, 20),
        ("e", None, 50),
    }

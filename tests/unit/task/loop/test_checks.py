"""Checks of batches while a stage runs: where keys lie (rule P11), and event times that callables make."""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza import count, stream_application, tumbling
from airflow_samza.errors import InvalidApplication, MessageError, PartitioningMismatch
from airflow_samza.planner.explain import explain
from airflow_samza.task.loop.checks import no_end
from airflow_samza.testing import TestDriver

ROWS = "k bigint, v bigint"


def counted(change: Any, *, partitions: int = 4, **aggregate: Any) -> TestDriver:
    """Return a driver of an application that changes messages behind a re-partition, and counts them by key."""

    def describe(app: Any) -> None:
        rows = app.input_stream("rows", schema=ROWS, partitions=partitions)
        made = change(rows.partition_by("k", id="by-k"))
        made.aggregate("k", id="n", n=count(), **aggregate).send_to(app.output_stream("out"))

    return TestDriver(stream_application("counted")(describe))


def pipe(driver: TestDriver, rows: int = 12) -> TestDriver:
    return driver.pipe("rows", [{"k": number, "v": number} for number in range(rows)])


def halve(batch: pa.RecordBatch) -> pa.RecordBatch:
    import pyarrow.compute as pc

    return pa.RecordBatch.from_arrays([pc.bit_wise_and(batch["k"], 1), batch["v"]], names=["k", "v"])


CHANGES = {
    "map": lambda s: s.map(lambda r: {"k": r.k % 2, "v": r.v}, schema=ROWS),
    "flat_map": lambda s: s.flat_map(lambda r: [{"k": r.k % 2, "v": r.v}], schema=ROWS),
    "map_batches": lambda s: s.map_batches(halve, schema=ROWS),
    "renamed behind a map": lambda s: s.map(lambda r: {"k": r.k % 2, "v": r.v}, schema=ROWS).select("v AS k", "k AS v"),
}


@pytest.mark.parametrize("name", ["map", "flat_map", "map_batches"])
def test_a_key_that_a_callable_has_changed_is_rejected_while_it_runs(name: str) -> None:
    driver = pipe(counted(CHANGES[name]))
    (check,) = driver.plan.key_checks
    assert (check.columns, check.partitions, check.op_id.rpartition("-")[2]) == (("k",), 4, "n")
    assert "partitioning by k checked while it runs" in explain(driver.plan)
    with pytest.raises(PartitioningMismatch) as raised:
        driver.run()
    error = raised.value
    assert "aggregate 'n' takes its messages as partitioned by 'k', and one with k=" in error.sentence
    assert f"lies in partition {error.facts['partition']} of 4" in error.sentence
    assert "may have changed it" in error.sentence
    assert ".partition_by('k', id=…)" in str(error.hint)
    assert "assume_partitioned_by='k'" in str(error.hint)


def test_a_callable_that_keeps_the_key_needs_nothing() -> None:
    driver = pipe(counted(lambda s: s.map(lambda r: {"k": r.k, "v": r.v + 1}, schema=ROWS))).run()
    assert Counter({row.k: row.n for row in driver.output("out")}) == Counter(range(12))


def test_messages_that_lie_by_another_rule_are_assumed_to() -> None:
    moved = counted(lambda s: s.map(lambda r: {"k": r.k + 100, "v": r.v}, schema=ROWS), assume_partitioned_by="k")
    assert moved.plan.key_checks == ()
    assert Counter({row.k: row.n for row in pipe(moved).run().output("out")}) == Counter(range(100, 112))


def test_one_partition_needs_no_check() -> None:
    driver = counted(CHANGES["map"], partitions=1)
    assert driver.plan.key_checks == ()
    assert sorted((row.k, row.n) for row in pipe(driver).run().output("out")) == [(0, 6), (1, 6)]


def test_a_window_checks_and_what_comes_behind_it_is_certain() -> None:
    def describe(app: Any) -> None:
        rows = app.input_stream("rows", schema=f"{ROWS}, at timestamp", timestamp="at", partitions=2)
        same = rows.partition_by("k", id="by-k").map(lambda r: r, schema=f"{ROWS}, at timestamp")
        hours = same.window(tumbling("1 hour"), key="k", id="hours", n=count())
        hours.aggregate("k", id="all", n=count()).send_to(app.output_stream("out"))

    checks = TestDriver(stream_application("hours")(describe)).plan.key_checks
    assert [check.op_id.rpartition("-")[2] for check in checks] == ["hours"]


def test_both_sides_of_a_join_are_checked() -> None:
    def describe(app: Any) -> None:
        sides = [
            app.input_stream(name, schema=ROWS, partitions=2).partition_by("k", id=f"{name}-by-k")
            for name in ("left", "right")
        ]
        left, right = (side.map(lambda r: {"k": r.k // 2, "v": r.v}, schema=ROWS) for side in sides)
        joined = left.join(right, lambda one, other: one, schema=ROWS, key="k", ttl="1 hour", id="pairs")
        joined.send_to(app.output_stream("out"))

    driver = TestDriver(stream_application("pairs")(describe))
    assert [(check.side, check.columns) for check in driver.plan.key_checks] == [(0, ("k",)), (1, ("k",))]
    driver.pipe("left", [{"k": 1, "v": 1}]).pipe("right", [{"k": number, "v": 1} for number in range(8)])
    with pytest.raises(PartitioningMismatch, match="join 'pairs' takes its messages"):
        driver.run()


def test_a_lookup_in_a_table_is_checked_and_so_is_what_fills_it() -> None:
    def describe(app: Any) -> None:
        table = app.local_table("names", key="k", schema=ROWS)
        filled = app.input_stream("filled", schema=ROWS, partitions=2).partition_by("k", id="filled-by-k")
        filled.map(lambda r: r, schema=ROWS).send_to(table, id="fill")
        rows = app.input_stream("rows", schema=ROWS, partitions=2).partition_by("k", id="by-k")
        looked = rows.map(lambda r: {"k": r.k // 2, "v": r.v}, schema=ROWS)
        looked.join(table, lambda one, _: one, schema=ROWS, id="look-up").send_to(app.output_stream("out"))

    driver = TestDriver(stream_application("looked")(describe))
    assert sorted(check.op_id.split("-", 2)[2] for check in driver.plan.key_checks) == [
        "join-look-up",
        "send_to_table-fill",
    ]
    driver.pipe("filled", [{"k": number, "v": 1} for number in range(8)])
    with pytest.raises(PartitioningMismatch, match="join 'look-up' takes its messages"):
        pipe(driver).run()


def test_a_right_joins_rows_lie_by_the_left_keys_column_whatever_else_has_the_right_keys_name() -> None:
    def describe(app: Any) -> None:
        left = app.input_stream("left", schema="a bigint, b bigint", partitions=4).partition_by("a", id="by-a")
        right = app.input_stream("right", schema="b bigint, c bigint", partitions=4).partition_by("b", id="by-b")
        joined = left.join(right, how="right", left_key="a", right_key="b", ttl="1 hour", id="pairs")
        joined.aggregate("b", id="n", n=count()).send_to(app.output_stream("out"))

    with pytest.raises(PartitioningMismatch, match="aggregate n is keyed by 'b'"):
        _ = TestDriver(stream_application("right")(describe)).plan


# -- files ---------------------------------------------------------------------------------------------------------------


@stream_application("file-keys")
def file_keys(app: Any) -> None:
    """Count the rows of files that are said to be partitioned by key."""
    rows = app.input_stream("rows", system="lake", path="in/*.jsonl", schema=ROWS, key="k", partitions=2)
    rows.aggregate("k", id="n", n=count()).send_to(app.output_stream("out", system="log"))


def test_files_that_do_not_lie_by_the_key_that_their_input_declares_are_rejected(tmp_path: Path) -> None:
    from airflow_samza.systems.system import SystemBinding
    from tests.support.runs_here import Here

    (tmp_path / "in").mkdir()
    for number in range(2):
        rows = "".join(json.dumps({"k": k, "v": number}) + "\n" for k in range(50))
        (tmp_path / f"in/{number}.jsonl").write_text(rows)
    here = Here(tmp_path / "root", bindings={"lake": SystemBinding("files", {"root": str(tmp_path)})})
    plan = here.plan(f"{__name__}:file_keys", "run-1")
    assert plan.plan.stream("rows").partitioning.unchecked
    with pytest.raises(PartitioningMismatch, match="'rows' declares it by key=, and files lie as they came"):
        here.stages(plan)


# -- event times ---------------------------------------------------------------------------------------------------------

EVENTS = "k bigint, at timestamp"
NOON = datetime(2013, 1, 1, 12, tzinfo=timezone.utc)


def hours(change: Any, *, bounded: bool = False) -> TestDriver:
    """Return a driver of an application that changes messages, and counts them by hours of their event time."""

    def describe(app: Any) -> None:
        more = {} if bounded else {"bounded": False, "max_delay": "0 seconds"}
        rows = app.input_stream("rows", schema=EVENTS, timestamp="at", partitions=1, **more)
        windows = change(rows).window(tumbling("1 day"), key="k", id="days", n=count())
        windows.send_to(app.output_stream("out"))

    return TestDriver(stream_application("hours")(describe))


def truncated(row: Any) -> dict[str, Any]:
    return {"k": row.k, "at": row.at.replace(hour=0)}


def feed(driver: TestDriver) -> TestDriver:
    for number in range(12):
        driver.pipe("rows", [{"k": 1, "at": NOON + timedelta(hours=6 * number)}]).step()
    return driver


def test_an_event_time_that_an_expression_makes_is_rejected_at_the_next_window() -> None:
    with pytest.raises(InvalidApplication) as raised:
        hours(lambda s: s.select("k", "date_trunc('day', at) AS at", id="days"))
    assert "window 'days' goes by event time, and select 'days'" in raised.value.sentence
    assert "makes its column 'at' by an expression, and watermarks follow the former one" in raised.value.sentence
    assert 'timestamp="at", max_delay="1 day"' in str(raised.value.hint)


@pytest.mark.parametrize(
    ("between", "said"),
    [
        (
            lambda s: s.aggregate("k", n=count(), id="per-k"),
            r"aggregate 'per-k' \(\S+:\d+\) makes one row of many messages, without their event time 'at'",
        ),
        (lambda s: s.select("k", id="narrow"), r"select 'narrow' \(\S+:\d+\) leaves out its column 'at'"),
        (
            lambda s: s.map(lambda row: {"k": row.k}, schema="k bigint", id="made"),
            r"map 'made' \(\S+:\d+\) leaves out its column 'at'",
        ),
        (
            lambda s: s.select("k", id="narrow").partition_by("k", id="by-k").where("k > 0"),
            r"select 'narrow' \(\S+:\d+\) leaves out its column 'at'",
        ),
        (
            lambda s: s.aggregate("k", n=count(), id="per-k").select("k", id="narrow"),
            r"aggregate 'per-k' \(\S+:\d+\) makes one row",
        ),
    ],
    ids=["aggregate", "select", "map", "further on", "the first one"],
)
def test_a_window_without_event_time_names_the_operator_that_has_lost_it(between: Any, said: str) -> None:
    with pytest.raises(InvalidApplication, match=f"window 'days' uses event time, and {said}") as raised:
        hours(between)
    remedy = "Give its rows a time there" if "aggregate" in said else "Keep the column there under its name"
    assert remedy in str(raised.value.hint)


def test_an_event_time_that_is_declared_anew_loses_nothing() -> None:
    made = hours(lambda s: s.select("k", "date_trunc('day', at) AS at", timestamp="at", max_delay="1 day"))
    found = feed(made).drain().output("out")
    assert sum(row.n for row in found) == 12
    assert [row.n for row in found] == [2, 4, 4, 2]
    assert not any(report.metrics.get("late_messages") for report in made.reports())


def test_an_event_time_under_another_name_stays_one() -> None:
    renamed = hours(lambda s: s.select("k", "at AS seen", "k AS at").select("k", "seen"))
    assert sum(row.n for row in feed(renamed).drain().output("out")) == 12


@pytest.mark.parametrize("bounded", [False, True])
@pytest.mark.parametrize(
    "change",
    [
        lambda s: s.map(truncated, schema=EVENTS, id="truncate"),
        lambda s: s.flat_map(lambda row: [truncated(row)], schema=EVENTS, id="truncate"),
        lambda s: s.map_batches(
            lambda batch: batch.set_column(1, "at", pa.array([NOON] * batch.num_rows, batch.schema.field("at").type)),
            id="truncate",
        ),
    ],
)
def test_a_callable_that_moves_the_event_time_back_is_rejected(change: Any, bounded: bool) -> None:
    driver = hours(change, bounded=bounded)
    if bounded:
        driver.pipe("rows", [{"k": 1, "at": NOON + timedelta(hours=6 * number)} for number in range(1, 12)])
    with pytest.raises(MessageError) as raised:
        _ = driver.run() if bounded else feed(driver)
    assert "'truncate' gave a message the event time at=" in raised.value.sentence
    assert "before that of every message it was given" in raised.value.sentence
    assert 'timestamp="at", max_delay=' in str(raised.value.hint)


def test_a_callable_that_declares_its_event_time_loses_nothing() -> None:
    made = hours(lambda s: s.map(truncated, schema=EVENTS, timestamp="at", max_delay="1 day"))
    assert sum(row.n for row in feed(made).drain().output("out")) == 12


def test_a_callable_that_keeps_the_event_time_needs_nothing() -> None:
    made = hours(lambda s: s.map(lambda row: {"k": row.k + 1, "at": row.at}, schema=EVENTS))
    assert sum(row.n for row in feed(made).drain().output("out")) == 12


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"timestamp": "at"}, "without max_delay"),
        ({"max_delay": "1 day"}, "max_delay and no timestamp"),
        ({"timestamp": "k2", "max_delay": "1 day"}, "There is no column 'k2'"),
    ],
)
def test_a_new_event_time_needs_a_column_and_a_delay(options: Any, said: str) -> None:
    with pytest.raises(Exception, match=said):
        hours(lambda s: s.map(truncated, schema=EVENTS, **options))


def test_c3_the_first_partition_without_an_end_is_named_with_its_producers_and_the_number_of_the_others() -> None:
    missing = {("in", 3): (1, 2), ("in", 4): (0, 2), ("other", 0): (0, None)}
    assert (
        "partition 3 (and 2 more), of stage 's' has no end-of-stream: 1 of 2 producers"
        in no_end("s", "0", missing).sentence
    )
    assert (
        "partition 0, of stage 's' has no end-of-stream: no producer"
        in no_end("s", "0", {("other", 0): (0, None)}).sentence
    )

"""One message of several copies: in one run, run by run and continuously the same as DuckDB finds them.

The reference is SQL: the beginnings of groups by a recursive query, then the first or last row of each.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from airflow_samza import stream_application
from airflow_samza.testing import TestDriver
from tests.support.budgets import share

EXAMPLES = int(os.environ.get("DISTINCT_EXAMPLES") or share(240, 12))
GROUPS = 4
START = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
SCHEMA = "n bigint, k string, f double, at timestamp"

BEGINNINGS = """
    with recursive begun as (
        select k, f, min(t) as t from messages group by k, f
        union all
        select k, f, (
            select min(m.t) from messages m
            where m.k is not distinct from begun.k and m.f is not distinct from begun.f and m.t >= begun.t + $within
        ) as t
        from begun where t is not null
    )
"""

ONES = {"first": "arg_min(n, (m.t, n))", "last": "arg_max(n, (m.t, n))"}


@dataclass(frozen=True)
class Case:
    """A random application, and its messages in pieces."""

    key: list[str]
    keep: str
    within: int | None
    delay: int
    pieces: list[list[dict[str, Any]]]

    @staticmethod
    def of(seed: int) -> Case:
        """Messages are as much as twice the delay out of order, have equal times, or none."""
        rng = random.Random(seed)
        delay, spread = rng.choice([0, 5, 20]), rng.choice([0, 5, 40])
        pieces, number, now = [], 0, 0
        for _ in range(rng.randint(1, 6)):
            piece = []
            for _ in range(rng.randint(0, 12)):
                now += rng.choice([0, 0, 1, 3])
                at = START + timedelta(seconds=now - rng.randint(0, spread), microseconds=rng.choice([0, 0, 999]))
                piece.append(
                    {
                        "n": number,
                        "k": rng.choice(["a", "b", None]),
                        "f": rng.choice([0.0, -0.0, float("nan"), None]),
                        "at": at if rng.random() < 0.9 else None,
                    }
                )
                number += 1
            pieces.append(piece)
        within = rng.choice([None, 1, 4, 15, 60])
        return Case(rng.choice([["k"], ["k", "f"]]), rng.choice(["first", "last"]), within, delay, pieces)

    def application(self, *, bounded: bool, delay: int | None = None) -> Any:
        """The application with an input of this kind."""

        @stream_application("once")
        def once(app: Any) -> None:
            seconds = self.delay if delay is None else delay
            messages = app.input_stream(
                "messages",
                schema=SCHEMA,
                timestamp="at",
                max_delay=f"{seconds} seconds",
                partitions=1,
                **({} if bounded else {"slice": "checkpoint"}),
            )
            within = None if self.within is None else f"{self.within} seconds"
            by_key = messages.partition_by("k", id="by-key")
            late = app.output_stream("late", schema=SCHEMA)
            ones = by_key.distinct(self.key, within=within, keep=self.keep, late_to=late, id="once")
            ones.send_to(app.output_stream("once"))

        return once

    def on_time(self) -> list[dict[str, Any]]:
        """The messages that no watermark has passed: one is made of each piece."""
        rows, watermark = [], None
        for piece in self.pieces:
            rows += [row for row in piece if row["at"] is None or watermark is None or row["at"] >= watermark]
            times = [row["at"] for row in piece if row["at"] is not None]
            if times:
                newest = max(times).replace(microsecond=max(times).microsecond // 1000 * 1000)
                watermark = max(newest - timedelta(seconds=self.delay), watermark or newest - timedelta(days=1))
        return rows

    def expected(self, rows: list[dict[str, Any]]) -> list[int]:
        """The numbers of the messages that stay, as DuckDB finds them."""
        timed = [row for row in rows if row["at"] is not None]
        of_f = [row["f"] if "f" in self.key else None for row in timed]
        messages = pa.table(
            {
                "n": pa.array([row["n"] for row in timed], pa.int64()),
                "k": pa.array([row["k"] for row in timed], pa.string()),
                "f": pa.array([0.0 if f == 0 else f for f in of_f], pa.float64()),
                "t": pa.array([row["at"] for row in timed], pa.timestamp("us", "UTC")),
            }
        )
        with duckdb.connect() as connection:
            connection.register("messages", messages)
            if self.within is None:
                query, values = f"select {ONES[self.keep]} from messages m group by k, f", {}
            else:
                query = f"""{BEGINNINGS}
                    select {ONES[self.keep]} from messages m join begun b
                    on m.k is not distinct from b.k and m.f is not distinct from b.f
                    and m.t >= b.t and m.t < b.t + $within group by b.k, b.f, b.t"""
                values = {"within": timedelta(seconds=self.within)}
            found = connection.execute(query, values).fetchall()
        return sorted(number for (number,) in found)


def numbers(driver: TestDriver, output: str = "once") -> list[int]:
    return sorted(row.n for row in driver.output(output))


@pytest.mark.random
@pytest.mark.parametrize("group", range(GROUPS))
def test_all_ways_to_run_keep_what_duckdb_keeps(group: int) -> None:
    for seed in range(group, EXAMPLES, GROUPS):
        check(seed)


def check(seed: int) -> None:
    case = Case.of(seed)
    rng = random.Random(seed + 1)
    rows = [row for piece in case.pieces for row in piece]
    bounded = case.application(bounded=True)
    expected = case.expected(rows)
    assert numbers(TestDriver(bounded, partitions=3).pipe("messages", rows).run()) == expected, f"one run, seed {seed}"
    epochs = (
        TestDriver(bounded, partitions=3).pipe("messages", rows).run(mode="pipelined", epoch_messages=3, shuffle=rng)
    )
    assert numbers(epochs) == expected, f"pipelined, seed {seed}"
    if case.within is None:
        return
    in_time = case.on_time()
    late = sorted({row["n"] for row in rows} - {row["n"] for row in in_time})
    for delay, kept, missed in ((case.delay, case.expected(in_time), late), (200, expected, [])):
        unbounded = case.application(bounded=False, delay=delay)
        runs, continuous = TestDriver(unbounded, partitions=3), TestDriver(unbounded, partitions=3)
        for piece in case.pieces:
            runs.pipe("messages", piece).catch_up()
            continuous.pipe("messages", piece).step()
        assert numbers(runs.drain()) == kept, f"run by run, seed {seed}, delay {delay}"
        assert numbers(continuous.drain()) == kept, f"continuous, seed {seed}, delay {delay}"
        for driver in (runs, continuous):
            assert numbers(driver, "late") == missed, f"late, seed {seed}, delay {delay}"

"""Spark as the referee.

Windows over bounded streams give what Spark's ``window`` and ``session_window`` give, row by row.
"""

from __future__ import annotations

import datetime
import math
import random
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza import (
    approx_count_distinct,
    avg,
    collect,
    count,
    count_distinct,
    first,
    hopping,
    last,
    max_,
    min_,
    session,
    stream_application,
    sum_,
    tumbling,
)
from airflow_samza.application.windows import Aggregation, WindowSpec
from airflow_samza.schema import Schema
from airflow_samza.testing import TestDriver
from tests.support.referee import SCALE, bits

pytestmark = [pytest.mark.extended, pytest.mark.spark]

MESSAGES = Schema.of(
    "k string, n bigint, f double, at timestamp, i int, b bigint, d double, m decimal(12,3), w decimal(34,6), s "
    "string, u date"
)
START = datetime.datetime(2026, 3, 28, 20, tzinfo=datetime.timezone.utc)
VALUES: dict[str, list[Any]] = {
    "k": [None, "", "a", "b", "é"],
    "n": [None, 1, 2, -(2**63)],
    "f": [None, 0.0, -0.0, math.nan, 1.5],
    "i": [None, 0, 1, -5, 2**31 - 1],
    "b": [None, 0, 7, -(2**40), 2**53 + 1],
    "d": [None, 0.25, -1.5, 1024.0, math.nan, math.inf, -0.0],
    "m": [None, Decimal("0.125"), Decimal("-99.999"), Decimal("123456789.000")],
    "w": [
        None,
        Decimal("0.000001"),
        Decimal("-9999999999999999999999999999.999999"),
        Decimal("1234567890123456789012345678.5"),
    ],
    "s": [None, "", "x", "y", "zz"],
    "u": [None, datetime.date(1970, 1, 1), datetime.date(2026, 3, 29)],
}
COLUMNS = ("i", "b", "d", "m", "w", "s", "u")
MADE = {
    "count": (count, "count({})"),
    "count_distinct": (count_distinct, "count(DISTINCT {})"),
    "sum": (sum_, "sum({})"),
    "avg": (avg, "avg({})"),
    "min": (min_, "min({})"),
    "max": (max_, "max({})"),
    "first": (first, "first({}, true)"),
    "last": (last, "last({}, true)"),
    "collect": (collect, "collect_list({})"),
    "approx_count_distinct": (approx_count_distinct, "approx_count_distinct({})"),
}
IN_ORDER = ("first", "last")
"""Spark's depend on how it sorts, which it does for sessions and for distinct counts."""


def random_messages(generator: random.Random) -> pa.Table:
    """Messages near each other, or far apart; some exactly on the edges of windows."""
    rows = generator.choice([1, 30, 31, 400, 401])
    spread = generator.choice([60, 3_600, 86_400 * 5])
    step = generator.choice([1, 1_000_000, 5_000_000])
    columns: list[pa.Array] = []
    for field in MESSAGES.to_arrow():
        if field.name == "at":
            micros = [
                generator.randrange(spread * 1_000_000) // step * step + generator.choice([0, 0, 0, 1, -1])
                for _ in range(rows)
            ]
            times = [None if generator.random() < 0.04 else START + datetime.timedelta(microseconds=t) for t in micros]
            columns.append(pa.array(times, field.type))
        else:
            columns.append(pa.array(generator.choices(VALUES[field.name], k=rows), field.type))
    return pa.Table.from_arrays(columns, schema=MESSAGES.to_arrow())


def random_window(generator: random.Random) -> tuple[WindowSpec, str]:
    """A window, and what Spark calls it."""
    kind = generator.choice(["tumbling", "hopping", "session"])
    length, hop = generator.choice(
        [(1, 1), (60, 20), (10, 3), (600, 60), (86_400, 3_600), (604_800, 86_400), (7_001, 1_000)]
    )
    if kind == "tumbling":
        return tumbling(f"{length} seconds"), f"window(at, '{length} seconds')"
    if kind == "hopping":
        return hopping(f"{length} seconds", f"{hop} seconds"), f"window(at, '{length} seconds', '{hop} seconds')"
    return session(f"{length} seconds"), f"session_window(at, '{length} seconds')"


def random_aggregations(generator: random.Random, window: WindowSpec) -> tuple[dict[str, Aggregation], list[str]]:
    made: dict[str, Aggregation] = {"rows": count()}
    texts = ["count(*)"]
    left_out = IN_ORDER if window.gap_ms is not None else generator.choice([IN_ORDER, ("count_distinct",)])
    for number in range(generator.randrange(1, 6)):
        name = generator.choice([name for name in MADE if name not in left_out])
        column = generator.choice([c for c in COLUMNS if name not in ("sum", "avg") or c in ("i", "b", "d", "m", "w")])
        function, text = MADE[name]
        made[f"{name}_{number}"] = function(column)
        texts.append(text.format(column))
    return made, texts


def by_us(
    messages: pa.Table, window: WindowSpec, key: list[str], aggregations: Mapping[str, Aggregation]
) -> list[tuple[Any, ...]]:
    @stream_application("windows")
    def windows(app: Any) -> None:
        stream = app.input_stream("in", schema=MESSAGES, timestamp="at", partitions=1)
        if key:
            stream = stream.partition_by(key, id="by-key")
        stream.window(window, key=key or None, id="w", **aggregations).send_to(app.output_stream("out"))

    config = {"job.intermediate.stream.partitions": "3"}
    driver = TestDriver(windows, config=config, reduced=len(messages) % 4 > 0).pipe("in", messages).run()
    return rows_of(driver.output_table("out"))


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def comparable(row: tuple[Any, ...], names: list[str]) -> tuple[str, ...]:
    """Values that are compared exactly.

    The order in which Spark collects and adds is its own, approximate counts are looked at apart.
    """
    kept: list[Any] = []
    for name, value in zip(names, row, strict=True):
        if name.startswith("approx"):
            kept.append(0)
        elif name.startswith("collect"):
            kept.append(sorted(map(repr, value)))
        else:
            kept.append(f"{value:.12g}" if name.startswith("avg") and isinstance(value, float) else bits(value))
    return tuple(map(repr, kept))


@pytest.mark.parametrize("seed", range(12 * SCALE))
def test_windows_are_those_of_spark(spark: Any, seed: int) -> None:
    generator = random.Random(seed)
    messages = random_messages(generator)
    window, text = random_window(generator)
    # Spark fails on sessions of a key that holds 0.0 and -0.0: it has not sorted them together
    key = generator.choice([[], ["k"], ["k", "n"], ["n"], *([["f"]] if window.gap_ms is None else [])])
    aggregations, texts = random_aggregations(generator, window)
    spark.createDataFrame(messages).coalesce(1).createOrReplaceTempView("messages")
    kind = text.partition("(")[0]
    columns = ", ".join([*key, f"{kind}.start", f"{kind}.end", *(f"{t} AS a{place}" for place, t in enumerate(texts))])
    grouped = ", ".join([*key, text])
    theirs = rows_of(spark.sql(f"SELECT {columns} FROM messages WHERE at IS NOT NULL GROUP BY {grouped}").toArrow())
    ours = by_us(messages, window, key, aggregations)
    names = [*key, "start", "end", *aggregations]
    assert sorted(comparable(row, names) for row in ours) == sorted(comparable(row, names) for row in theirs)
    for place, name in enumerate(names):
        if name.startswith("approx"):
            pairs = [
                {comparable(row[: len(key) + 2], names[: len(key) + 2]): row[place] for row in rows}
                for rows in (ours, theirs)
            ]
            assert all(abs(found - pairs[1][at]) <= max(1, 0.2 * found) for at, found in pairs[0].items())


@pytest.mark.parametrize("zone", ["Europe/Amsterdam", "America/New_York", "Asia/Kolkata", "Pacific/Auckland"])
@pytest.mark.parametrize("days", [1, 7])
def test_days_in_a_zone_are_those_of_spark(spark: Any, zone: str, days: int) -> None:
    times = [START + datetime.timedelta(minutes=37 * n) for n in range(9_000)]
    blank = [pa.nulls(len(times), field.type) for field in MESSAGES.to_arrow()]
    messages = pa.Table.from_arrays(blank, schema=MESSAGES.to_arrow())
    messages = messages.set_column(messages.column_names.index("at"), MESSAGES.to_arrow().field("at"), pa.array(times))
    spark.createDataFrame(messages).createOrReplaceTempView("messages")
    day = f"to_date(from_utc_timestamp(at, '{zone}'))"
    begin = f"date_sub({day}, datediff({day}, DATE'1970-01-01') % {days})"
    moments = [f"to_utc_timestamp(timestamp({at}), '{zone}')" for at in ("begin", f"date_add(begin, {days})")]
    theirs = spark.sql(
        f"SELECT {', '.join(moments)}, n FROM (SELECT {begin} AS begin, count(*) AS n FROM messages GROUP BY 1)"
    ).toArrow()
    ours = by_us(messages, tumbling(f"{days} days", zone=zone), [], {"n": count()})
    assert ours == sorted(rows_of(theirs))

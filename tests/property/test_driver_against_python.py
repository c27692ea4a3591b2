"""The test driver's answers equal those of plain Python, whatever the data and the partitions."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import math
from collections import defaultdict
from typing import Annotated, Any

from hypothesis import HealthCheck, given, settings, strategies as st

from airflow_samza import Row, avg, collect, count, count_distinct, first, last, max_, min_, stream_application, sum_
from airflow_samza.testing import TestDriver
from tests.support.budgets import share

SCHEMA = "k string, i bigint, d double"
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "k": st.sampled_from(["a", "b", "c", None]),
            "i": st.one_of(st.none(), st.integers(-(2**40), 2**40)),
            "d": st.one_of(st.none(), st.floats(-1e6, 1e6), st.sampled_from([math.nan, math.inf, -0.0])),
        }
    ),
    max_size=60,
)
SETTINGS = settings(max_examples=share(25), deadline=None, suppress_health_check=[HealthCheck.too_slow])


@stream_application("totals")
def totals(app: Any) -> None:
    (
        app.input_stream("rows", schema=SCHEMA)
        .partition_by("k", id="by-key")
        .aggregate(
            "k",
            id="totals",
            n=count(),
            with_i=count("i"),
            different=count_distinct("i"),
            total=sum_("i"),
            mean=avg("i"),
            least=min_("d"),
            most=max_("d"),
            one=first("i"),
            other=last("i"),
            all_of=collect("i"),
        )
        .send_to(app.output_stream("totals"))
    )


def expected(rows: list[dict[str, Any]]) -> dict[Any, Any]:
    groups: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[row["k"]].append(row)
    found = {}
    for key, members in groups.items():
        i = [row["i"] for row in members if row["i"] is not None]
        d = [row["d"] for row in members if row["d"] is not None]
        numbers = [value for value in d if not math.isnan(value)]
        found[key] = Row(
            k=key,
            n=len(members),
            with_i=len(i),
            different=len(set(i)),
            total=sum(i) if i else None,
            mean=sum(map(float, i)) / len(i) if i else None,
            least=min(numbers) if numbers else (math.nan if d else None),
            most=(math.nan if len(numbers) < len(d) else max(d)) if d else None,
            one=i[0] if i else None,
            other=i[-1] if i else None,
            all_of=i,
        )
    return found


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return (math.isnan(one) and math.isnan(other)) or one == other or math.isclose(one, other, rel_tol=1e-12)
    return bool(one == other)


@SETTINGS
@given(rows=ROWS, partitions=st.integers(1, 5))
def test_aggregations_equal_plain_python(rows: list[dict[str, Any]], partitions: int) -> None:
    # all rows go in at one partition, so that first, last and collect have one order
    out = TestDriver(totals, partitions=partitions).pipe("rows", rows, partition=0).run().output("totals")
    wanted = expected(rows)
    assert len(out) == len(wanted)
    for row in out:
        assert all(same(row[name], wanted[row.k][name]) for name in row), (row, wanted[row.k])


@stream_application("joined")
def joined(app: Any) -> None:
    left = app.input_stream("left", schema=SCHEMA).partition_by("i", id="left-by-i")
    right = app.input_stream("right", schema="i bigint, word string").partition_by("i", id="right-by-i")
    words = app.local_table("words", key="i", schema="i bigint, word string")
    right.send_to(words)
    left.join(words, how="left", id="left").send_to(app.output_stream("left-joined"))
    left.join(words, lambda row, word: {**row, "k": word.word}, id="inner").send_to(app.output_stream("inner-joined"))


@SETTINGS
@given(
    rows=ROWS,
    words=st.lists(
        st.fixed_dictionaries({"i": st.one_of(st.none(), st.integers(-5, 5)), "word": st.sampled_from("xyz")}),
        max_size=20,
    ),
    partitions=st.integers(1, 4),
)
def test_table_joins_equal_a_dict_lookup(
    rows: list[dict[str, Any]], words: list[dict[str, Any]], partitions: int
) -> None:
    rows = [{**row, "i": None if row["i"] is None else row["i"] % 11 - 5} for row in rows]
    driver = (
        TestDriver(joined, partitions=partitions)
        .pipe("left", rows, partition=0)
        .pipe("right", words, partition=0)
        .run()
    )
    table = {row["i"]: row["word"] for row in words if row["i"] is not None}

    def shown(items: Any) -> list[str]:
        return sorted(map(repr, items))

    assert shown((r.i, r.k, r.word) for r in driver.output("left-joined")) == shown(
        (r["i"], r["k"], table.get(r["i"])) for r in rows
    )
    assert shown((r.i, r.k) for r in driver.output("inner-joined")) == shown(
        (r["i"], table[r["i"]]) for r in rows if r["i"] in table
    )


TYPED = "n bigint, d double, s string, at timestamp, day date, price decimal(12,2), ok boolean, tags array<string>"


@dataclasses.dataclass(frozen=True)
class Typed:
    n: int | None
    d: float | None
    s: str | None
    at: datetime.datetime | None
    day: datetime.date | None
    price: Annotated[decimal.Decimal | None, "decimal(12,2)"]
    ok: bool | None
    tags: list[str] | None


def or_none(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), values)


TYPED_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "n": or_none(st.integers(-(2**63), 2**63 - 1)),
    "d": or_none(st.one_of(st.floats(allow_nan=False), st.sampled_from([0.0, -0.0]))),
    "s": or_none(st.text(max_size=3)),
    "at": or_none(st.datetimes().map(lambda at: at.replace(tzinfo=datetime.timezone.utc, fold=0))),
    "day": or_none(st.dates()),
    "price": or_none(st.decimals(-(10**9), 10**9, places=2)),
    "ok": or_none(st.booleans()),
    "tags": or_none(st.lists(st.text(max_size=2), max_size=2)),
}
TYPED_ROWS = st.lists(st.fixed_dictionaries(TYPED_VALUES), max_size=12)


@SETTINGS
@given(data=st.data(), rows=TYPED_ROWS, as_class=st.booleans())
def test_callables_per_message_equal_a_python_loop(
    data: st.DataObject, rows: list[dict[str, Any]], as_class: bool
) -> None:
    """Whatever a callable keeps of a message, and whatever it puts in the place of the rest."""
    kept = sorted(data.draw(st.sets(st.sampled_from(range(len(rows)))))) if rows else []
    changes = [
        {
            name: data.draw(TYPED_VALUES[name])
            for name in sorted(data.draw(st.sets(st.sampled_from(sorted(TYPED_VALUES)), max_size=2)))
        }
        for _ in kept
    ]
    asked, changed = iter(range(len(rows))), iter(changes)

    def keep(message: Any) -> bool:
        return next(asked) in kept

    def change(message: Any) -> Any:
        new = next(changed)
        return dataclasses.replace(message, **new) if as_class else {**message, **new}

    @stream_application("per-message")
    def application(app: Any) -> None:
        stream = app.input_stream("rows", schema=Typed if as_class else TYPED)
        stream.filter(keep).map(change, schema=Typed if as_class else TYPED).send_to(app.output_stream("out"))

    out = (
        TestDriver(application)
        .pipe("rows", [Typed(**row) if as_class else row for row in rows], partition=0)
        .run()
        .output("out")
    )
    found = [dataclasses.asdict(message) if as_class else dict(message) for message in out]
    wanted = [{**rows[place], **new} for place, new in zip(kept, changes, strict=True)]
    assert [[repr(row[name]) for name in TYPED_VALUES] for row in found] == [
        [repr(row[name]) for name in TYPED_VALUES] for row in wanted
    ]

"""Sending less through topics changes no output.

Columns that nobody reads and partial results, over random applications and data.
"""

from __future__ import annotations

import math
from typing import Any

from hypothesis import HealthCheck, given, settings, strategies as st

from airflow_samza import avg, count, count_distinct, first, last, max_, min_, stream_application, sum_
from airflow_samza.testing import TestDriver
from tests.support.budgets import share

SCHEMA = "k string, g int, i bigint, d double, s string, m decimal(9,2)"
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "k": st.sampled_from(["a", "b", "c", None]),
            "g": st.one_of(st.none(), st.integers(0, 3)),
            "i": st.one_of(st.none(), st.integers(-(2**40), 2**40)),
            "d": st.one_of(
                st.none(), st.integers(-1000, 1000).map(float), st.sampled_from([math.nan, math.inf, -0.0, 0.0])
            ),
            "s": st.one_of(st.none(), st.sampled_from(["", "x", "ß", "yy"])),
            "m": st.just(None),
        }
    ),
    max_size=40,
)
AGGREGATIONS: dict[str, Any] = {
    "n": count(),
    "with_i": count("i"),
    "different": count_distinct("i"),
    "total": sum_("i"),
    "amount": sum_("m"),
    "mean": avg("i"),
    "least": min_("d"),
    "most": max_("d"),
    "word": max_("s"),
    "one": first("i"),
    "other": last("s"),
}
STATELESS = st.lists(
    st.sampled_from(["where i > 0", "where s <> 'x' OR s IS NULL", "star", "pick", "map", "batches"]),
    max_size=3,
)


def steps(stream: Any, names: list[str]) -> Any:
    for name in names:
        if name.startswith("where "):
            stream = stream.where(name[6:])
        elif name == "star":
            stream = stream.select("*")
        elif name == "pick":
            stream = stream.select("k", "g", "i", "d", "s", "m")
        elif name == "map":
            stream = stream.filter(lambda row: row.g != 1)
        else:
            stream = stream.map_batches(lambda batch: batch, schema=SCHEMA)
    return stream


@st.composite
def applications(draw: Any) -> Any:
    before, between, after = draw(STATELESS), draw(STATELESS), draw(STATELESS)
    first_key = draw(st.sampled_from([("k",), ("g",), ("k", "g")]))
    second_key = draw(st.sampled_from([("k", "g"), ("g", "k", "s")]))
    twice, merged, fan_out = draw(st.booleans()), draw(st.booleans()), draw(st.booleans())
    chosen = draw(st.lists(st.sampled_from(sorted(AGGREGATIONS)), min_size=1, max_size=5, unique=True))

    @stream_application("random")
    def application(app: Any) -> None:
        stream = steps(app.input_stream("rows", schema=SCHEMA), before)
        if merged:
            stream = stream.merge(app.input_stream("more", schema=SCHEMA).where("g IS NOT NULL"))
        stream = stream.partition_by(list(first_key), id="one")
        if fan_out:
            stream.where("g = 2").send_to(app.output_stream("all"))
        stream = steps(stream, between)
        if twice:
            stream = steps(stream.partition_by("k", id="two"), after)
        key = second_key if not twice else ("k", *(c for c in second_key if c != "k"))
        stream.aggregate(list(key), id="totals", **{name: AGGREGATIONS[name] for name in chosen}).send_to(
            app.output_stream("totals")
        )

    return application, merged


def shown(driver: TestDriver, stream: str) -> list[str]:
    return sorted(repr(row) for row in driver.output(stream))


@settings(max_examples=share(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(made=applications(), rows=ROWS, more=ROWS, partitions=st.integers(1, 3))
def test_sending_less_changes_no_output(made: Any, rows: list[Any], more: list[Any], partitions: int) -> None:
    application, merged = made
    found = []
    for reduced in (False, True):
        driver = TestDriver(application, partitions=partitions, reduced=reduced).pipe("rows", rows, partition=0)
        if merged:
            driver.pipe("more", more, partition=0)
        driver.run()
        found.append({stream: shown(driver, stream) for stream in driver.spec.outputs})
    assert found[0] == found[1]

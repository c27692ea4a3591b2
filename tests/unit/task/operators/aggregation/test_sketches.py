"""Approximate counts: as near as asked for, the same however they are cut, for every type of plain values."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from airflow_samza import approx_count_distinct, count_distinct, stream_application
from airflow_samza.application.windows import Aggregation
from airflow_samza.errors import InvalidApplication
from airflow_samza.task.operators.aggregation.list_parts import Groups, list_part
from airflow_samza.task.operators.aggregation.sketches import estimates, precision_of
from airflow_samza.testing import TestDriver

VIEWS = "k bigint, x bigint"


def sketch(values: pa.Array, precision: int = 9) -> pa.Array:
    return list_part(f"sketch {precision}", values, Groups(np.arange(len(values)), np.array([len(values)])))


@pytest.mark.parametrize("distinct", [0, 1, 2, 10, 500, 2_000, 50_000, 400_000])
@pytest.mark.parametrize("rsd", [0.05, 0.01])
def test_the_error_stays_within_three_standard_deviations(distinct: int, rsd: float) -> None:
    precision = precision_of(Aggregation("approx_count_distinct", "x", rsd=rsd))
    values = pa.array(np.repeat(np.arange(distinct), 2) * 7919)
    found = estimates(sketch(values, precision), precision)[0].as_py()
    assert abs(found - distinct) <= 3 * rsd * distinct


def test_merged_sketches_are_the_sketch_of_all() -> None:
    values = pa.array(np.random.default_rng(1).integers(0, 5_000, 20_000))
    whole = sketch(values)
    parts = pa.chunked_array([sketch(values.slice(start, 4_000)) for start in range(0, 20_000, 4_000)]).combine_chunks()
    merged = list_part("sketches", parts, Groups(np.arange(5), np.array([5])))
    assert merged.equals(whole)


@pytest.mark.parametrize(
    "kind", ["string", "double", "float", "date", "timestamp", "boolean", "decimal(30,2)", "binary", "tinyint"]
)
def test_values_of_every_plain_type_are_counted(kind: str) -> None:
    def describe(app: Any) -> None:
        views = app.input_stream("views", schema=f"k bigint, n bigint, x {kind}", key="k")
        views.select("k", "x").aggregate("k", n=approx_count_distinct("x"), id="a").send_to(app.output_stream("out"))

    made: dict[str, Any] = {"string": "a", "binary": b"a", "double": 1.5, "float": 1.5, "boolean": True, "tinyint": 3}
    made |= {
        "date": date(2026, 1, 1),
        "timestamp": datetime(2026, 1, 1, tzinfo=timezone.utc),
        "decimal(30,2)": Decimal("1.25"),
    }
    rows = [
        {"k": 1, "n": 0, "x": made[kind]},
        {"k": 1, "n": 1, "x": None},
        {"k": 1, "n": 2, "x": made[kind]},
        {"k": 2, "n": 3, "x": None},
    ]
    driver = TestDriver(stream_application("test")(describe)).pipe("views", rows).run()
    assert [(row.k, row.n) for row in driver.output("out")] == [(1, 1), (2, 0)]


def test_a_combiner_changes_nothing() -> None:
    def describe(app: Any) -> None:
        views = app.input_stream("views", schema=VIEWS, partitions=3)
        by_k = views.partition_by("k", id="by-k")
        by_k.aggregate("k", n=approx_count_distinct("x"), id="a").send_to(app.output_stream("out"))

    def counted(reduced: bool) -> dict[int, int]:
        rows = [{"k": n % 5, "x": n % (n % 5 * 300 + 7)} for n in range(9_000)]
        driver = TestDriver(stream_application("test")(describe), reduced=reduced).pipe("views", rows).run()
        return {row.k: row.n for row in driver.output("out")}

    assert counted(True) == counted(False)


@pytest.mark.parametrize("aggregation", [approx_count_distinct, count_distinct])
@pytest.mark.parametrize("kind", ["array<int>", "map<string,int>", "struct<a:int>"])
def test_nested_values_are_rejected(aggregation: Any, kind: str) -> None:
    def describe(app: Any) -> None:
        app.input_stream("views", schema=f"k bigint, x {kind}", key="k").aggregate(
            "k", n=aggregation("x"), id="a"
        ).sink(print)

    with pytest.raises(InvalidApplication, match="needs plain values"):
        stream_application("test")(describe).spec()


@pytest.mark.parametrize("rsd", [0.5, 0, True, "5%"])
def test_a_deviation_out_of_bounds_is_rejected(rsd: Any) -> None:
    with pytest.raises(InvalidApplication, match="rsd="):
        approx_count_distinct("x", rsd)

"""A table: every aggregate over every type and null, by key and in every window, equal to Spark or rejected by the plan."""

from __future__ import annotations

import datetime
import functools
import math
from collections.abc import Callable, Iterator
from decimal import ROUND_HALF_UP, Context, Decimal
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
from airflow_samza.application.application import StreamApplication
from airflow_samza.application.windows import Aggregation, WindowSpec
from airflow_samza.errors import InvalidApplication
from airflow_samza.schema import Schema
from airflow_samza.testing import TestDriver
from tests.support.budgets import extended_but
from tests.support.referee import bits, plain

UTC = datetime.timezone.utc
EXACT = Context(prec=76, rounding=ROUND_HALF_UP)
NOON = datetime.datetime(2026, 3, 1, 12, tzinfo=UTC)
AGGREGATES: dict[str, tuple[Callable[[str], Aggregation], str]] = {
    "count": (count, "count(v)"),
    "count_distinct": (count_distinct, "count(DISTINCT v)"),
    "approx_count_distinct": (approx_count_distinct, "approx_count_distinct(v)"),
    "sum": (sum_, "sum(v)"),
    "avg": (avg, "avg(v)"),
    "min": (min_, "min(v)"),
    "max": (max_, "max(v)"),
    "first": (first, "first(v, true)"),
    "last": (last, "last(v, true)"),
    "collect": (collect, "collect_list(v)"),
}
"""Each aggregate, and what Spark calls it."""

TYPES: dict[str, list[Any]] = {
    "boolean": [True, False, None, True],
    "tinyint": [5, -128, None, 127, 5],
    "smallint": [300, -5, None, 300],
    "int": [2**31 - 1, None, -7, 2**31 - 1],
    "bigint": [2**40 + 1, -(2**40), None, 7],
    "float": [0.0, -0.0, None, 1.5, -2.5],
    "double": [-0.0, 0.25, None, -0.0, 1024.0, 0.0],
    "decimal(10,2)": [Decimal("1.50"), None, Decimal("-99999999.99"), Decimal("1.50")],
    "decimal(38,10)": [Decimal("1234567890123456789012.5000000000"), None, Decimal("-0.0000000001")],
    "string": ["b", "", None, "é", "a", "b"],
    "binary": [b"b", b"", None, b"\x00\xff", b"b"],
    "date": [datetime.date(1969, 1, 1), None, datetime.date(2026, 3, 1), datetime.date(1969, 1, 1)],
    "timestamp": [NOON, None, datetime.datetime(1969, 1, 1, tzinfo=UTC), NOON],
    "timestamp_ntz": [datetime.datetime(2026, 1, 1), None, datetime.datetime(1969, 1, 1)],
    "array<double>": [[1.5, None], [], None, [-0.0], [math.nan], [1.5, None]],
    "array<array<string>>": [[["a"], None], None, [[]], [["é", None]]],
    "map<string,double>": [[("k", -0.0), ("l", None)], [], None, [("k", math.nan)]],
    "struct<a:int,b:string>": [{"a": 1, "b": None}, None, {"a": None, "b": "é"}, {"a": 1, "b": None}],
    "struct<f:float,l:array<int>,m:map<int,binary>>": [
        {"f": -0.0, "l": [1, None], "m": [(1, b"x")]},
        None,
        {"f": None, "l": None, "m": []},
    ],
    "array<struct<x:double>>": [[{"x": -0.0}, None], None, [], [{"x": None}]],
}
"""Values of each type; a NaN comes to those of floats under a key of its own, as sums with it are NaN."""

_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")
_NESTED = ("array", "map", "struct")


def is_rejected(function: str, kind: str) -> bool:
    """True where the plan rejects an aggregate over a type."""
    word = kind.partition("<")[0].partition("(")[0]
    if function in ("sum", "avg"):
        return word not in _NUMBERS
    return word in _NESTED and function in ("count_distinct", "approx_count_distinct", "min", "max")


def values_by_key(kind: str) -> list[tuple[str | None, Any]]:
    """Messages: a key with all values, twice; one with nulls only; one with NaN; one without a key."""
    values = TYPES[kind]
    found = [("all", value) for value in values * 2] + [("null", None)] * 2 + [(None, values[0])]
    if kind in ("float", "double"):
        found += [("nan", value) for value in (math.nan, None, 1.5, math.nan)]
    return [message for turn in range(2) for message in found[turn::2]]


CELLS = [(function, kind) for kind in TYPES for function in AGGREGATES]
WINDOWS: dict[str, WindowSpec | None] = {
    "by key": None,
    "tumbling": tumbling("1 hour"),
    "hopping": hopping("1 hour", "30 minutes"),
    "uneven": hopping("1 hour", "25 minutes"),
    "session": session("1 hour"),
    "early": tumbling("1 hour", early_every=3, accumulating=True),
    "early session": session("1 hour", early_every=3, accumulating=True),
}

QUICK = ("by key", "uneven", "early session")
"""The windows that each change tries."""


def application(kind: str, window: WindowSpec | None, functions: list[str]) -> StreamApplication:
    """All given aggregates of one column, by key at the end, or in windows."""

    @stream_application("cells")
    def cells(app: Any) -> None:
        schema = f"k string, v {kind}, at timestamp"
        stream = app.input_stream("in", schema=schema, timestamp="at", bounded=True).partition_by("k", id="by-k")
        made = {f"a_{function}": AGGREGATES[function][0]("v") for function in functions}
        results = (
            stream.aggregate("k", id="a", **made) if window is None else stream.window(window, key="k", id="a", **made)
        )
        results.send_to(app.output_stream("out"))

    return cells


def messages(kind: str) -> pa.Table:
    rows = [{"k": key, "v": value, "at": NOON} for key, value in values_by_key(kind)]
    return pa.Table.from_pylist(rows, Schema.of(f"k string, v {kind}, at timestamp").to_arrow())


def results(table: pa.Table) -> Iterator[tuple[str | None, dict[str, Any]]]:
    """The rows of an output: their key, and their aggregates so that they can be compared."""
    for row in table.to_pylist():
        if row.get("is_final", True):
            yield row["k"], {name: bits(value) for name, value in row.items() if name.startswith("a_")}


def _ordered(value: Any) -> Any:
    return (math.isnan(value), value) if isinstance(value, float) else value


def model(function: str, values: list[Any]) -> Any:
    """The aggregate of some values, in plain Python."""
    known = [value for value in values if value is not None]
    if function == "count":
        return len(known)
    if function in ("count_distinct", "approx_count_distinct"):
        return len({"nan" if isinstance(value, float) and math.isnan(value) else value for value in known})
    if function == "collect":
        return known
    if not known:
        return None
    if isinstance(known[0], Decimal) and function == "sum":
        return functools.reduce(EXACT.add, known)
    if isinstance(known[0], Decimal) and function == "avg":
        digits = Decimal(1).scaleb(int(known[0].as_tuple().exponent) - 4)
        return EXACT.divide(functools.reduce(EXACT.add, known), len(known)).quantize(digits, context=EXACT)
    made: dict[str, Callable[[], Any]] = {
        "sum": lambda: sum(known),
        "avg": lambda: sum(known) / len(known),
        "min": lambda: min(known, key=_ordered),
        "max": lambda: max(known, key=_ordered),
        "first": lambda: known[0],
        "last": lambda: known[-1],
    }
    return made[function]()


def wanted(kind: str, functions: list[str]) -> dict[str | None, dict[str, Any]]:
    """The aggregates by key, in plain Python."""
    keys = dict.fromkeys(key for key, _ in values_by_key(kind))
    return {
        key: {
            f"a_{function}": bits(model(function, [v for k, v in values_by_key(kind) if k == key]))
            for function in functions
        }
        for key in keys
    }


def _differing(found: dict[str, Any], right: dict[str, Any]) -> list[str]:
    """The names of aggregates that differ; of zeros of both signs the least, and the greatest, is either."""
    zeros = (bits(0.0), bits(-0.0))
    return [
        name
        for name in right
        if found[name] != right[name]
        and not (name in ("a_min", "a_max") and found[name] in zeros and right[name] in zeros)
    ]


@pytest.mark.parametrize(
    ("whole", "reduced"), [pytest.param(True, False, marks=pytest.mark.extended), (True, True), (False, False)], ids=str
)
@pytest.mark.parametrize("window", extended_but(QUICK, WINDOWS))
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.few(29)
def test_every_aggregate_is_the_same_by_key_and_in_windows(kind: str, window: str, whole: bool, reduced: bool) -> None:
    functions = [function for function in AGGREGATES if not is_rejected(function, kind)]
    if reduced:  # partial results
        functions = [function for function in functions if function not in ("count_distinct", "collect")]
    driver = TestDriver(application(kind, WINDOWS[window], functions), reduced=reduced)
    table = messages(kind)
    for start in range(0, table.num_rows, table.num_rows if whole else 3):
        driver.pipe("in", table.slice(start, table.num_rows if whole else 3))
    driver.run(mode="staged" if whole else "pipelined", epoch_messages=None if whole else 3)
    right = wanted(kind, functions)
    found = list(results(driver.output_table("out")))
    assert {key for key, _ in found} == right.keys()
    for key, row in found:
        wrong = _differing(row, right[key])
        assert not wrong, [(key, name, row[name], right[key][name]) for name in wrong]


@pytest.mark.parametrize(
    "window", [tumbling("1 hour", early_every=2), session("1 hour", early_every=2)], ids=["tumbling", "session"]
)
@pytest.mark.parametrize("kind", TYPES)
def test_early_results_that_do_not_accumulate_have_each_value_once(kind: str, window: WindowSpec) -> None:
    driver = TestDriver(application(kind, window, ["collect", "count"])).pipe("in", messages(kind)).run()
    found: dict[str | None, list[Any]] = {}
    for row in driver.output_table("out").to_pylist():
        found.setdefault(row["k"], []).extend(row["a_collect"])
    right = {key: row["a_collect"] for key, row in wanted(kind, ["collect"]).items()}
    assert {key: bits(values) for key, values in found.items()} == right


@pytest.mark.parametrize(("function", "kind"), [cell for cell in CELLS if is_rejected(*cell)])
def test_the_plan_rejects_an_aggregate_over_a_type_that_has_none(function: str, kind: str) -> None:
    for window in (None, tumbling("1 hour"), session("1 hour")):
        with pytest.raises(InvalidApplication, match=rf"a_{function}={function}.* needs .*'v' is of type ") as raised:
            application(kind, window, [function]).spec()
        assert kind in str(raised.value)


@pytest.mark.extended
@pytest.mark.spark
@pytest.mark.parametrize("kind", TYPES)
def test_the_table_is_that_of_spark(spark: Any, kind: str) -> None:
    functions = [function for function in AGGREGATES if not is_rejected(function, kind)]
    frame = spark.createDataFrame(messages(kind)).coalesce(1)
    frame.selectExpr("k", f"CAST(v AS {kind}) AS v").createOrReplaceTempView("messages")
    table = TestDriver(application(kind, None, functions)).pipe("in", messages(kind)).run().output_table("out")
    ours = dict(results(table))
    # Spark sorts for a distinct count, so others beside it are not in order.
    together = [function for function in functions if function != "count_distinct"]
    theirs: dict[str | None, dict[str, Any]] = {key: {} for key in ours}
    for some in (together, [function for function in functions if function == "count_distinct"]):
        columns = ", ".join(f"{AGGREGATES[function][1]} AS a_{function}" for function in some)
        if columns:
            made = spark.sql(f"SELECT k, {columns} FROM messages GROUP BY k").toArrow()
            assert {f.name: plain(f.type) for f in made.schema} == {
                f.name: f.type for f in table.schema if f.name in made.schema.names
            }
            for key, row in results(made):
                theirs[key] |= row
    for key, row in ours.items():
        wrong = _differing(row, theirs[key])
        assert not wrong, [(key, name, row[name], theirs[key][name]) for name in wrong]

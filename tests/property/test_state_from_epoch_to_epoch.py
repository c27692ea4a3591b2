"""Aggregations, copies and tables that are taken down and set up again between epochs, wherever those are cut, end as those that were not."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings, strategies as st

from airflow_samza import (
    approx_count_distinct,
    avg,
    collect,
    count,
    count_distinct,
    first,
    last,
    max_,
    min_,
    stream_application,
    sum_,
)
from airflow_samza.application.operator_specs import AggregateSpec, ApplyChangesSpec, DistinctSpec
from airflow_samza.application.operators.keyed_results import applied_schema
from airflow_samza.schema import Schema
from airflow_samza.task.operators.aggregation.aggregate import Aggregate
from airflow_samza.task.operators.applied_changes import ApplyChanges
from airflow_samza.task.operators.distinct.operator import Distinct
from airflow_samza.task.tables.store import TableStore
from tests.support.budgets import share

SCHEMA = Schema.of("k string, f double, i bigint, s string, d double, n struct<x:double,l:array<string>>")
ROW = st.fixed_dictionaries(
    {
        "k": st.sampled_from(["a", "b", None]),
        "f": st.sampled_from([0.0, -0.0, math.nan, 1.5, None]),
        "i": st.one_of(st.none(), st.integers(-50, 50)),
        "s": st.sampled_from([None, "", "x", "y", "é"]),
        "d": st.sampled_from([None, math.nan, 0.5, -0.25, 8.0, math.inf]),  # sums of these are exact in any order
        "n": st.sampled_from([None, {"x": -0.0, "l": ["a", None]}, {"x": None, "l": None}, {"x": 1.5, "l": []}]),
    }
)
EPOCHS = st.lists(st.lists(st.lists(ROW, max_size=12), max_size=3), min_size=1, max_size=6)
SETTINGS = settings(max_examples=share(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])


@stream_application("totals")
def totals(app: Any) -> None:
    app.input_stream("rows", schema=SCHEMA.ddl(), key="k").aggregate(
        ["k", "f"],
        id="totals",
        n=count(),
        total=sum_("i"),
        mean=avg("d"),
        least=min_("d"),
        most=max_("s"),
        one=first("s"),
        other=last("i"),
        different=count_distinct("d"),
        about=approx_count_distinct("s"),
        texts=collect("s"),
        numbers=collect("i"),
        nested=collect("n"),
        newest=last("n"),
    ).send_to(app.output_stream("totals"))


SPEC = next(operator for operator in totals.spec().operators if isinstance(operator, AggregateSpec))


def aggregate() -> Aggregate:
    assert SPEC.schema is not None
    return Aggregate(SPEC, SCHEMA, SPEC.schema)


def stored(tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """Tables as they come back from a file."""
    found = {}
    for name, table in tables.items():
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, table.schema) as file:
            file.write_table(table)
        found[name] = pa.ipc.open_file(sink.getvalue()).read_all()
    return found


def batch(rows: Sequence[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), SCHEMA.to_arrow())


def results(operator: Aggregate) -> list[str]:
    return sorted(repr(row) for made in operator.flush() for row in made.to_pylist())


@SETTINGS
@given(EPOCHS)
def test_an_aggregation_cut_into_epochs_gives_what_it_gives_in_one(epochs: list[list[list[dict[str, Any]]]]) -> None:
    whole, cut = aggregate(), aggregate()
    for batches in epochs:
        for rows in filter(None, batches):
            whole.process(batch(rows))
            cut.process(batch(rows))
        state = stored(cut.snapshot())
        cut = aggregate()
        if state:
            cut.restore(state)
    assert results(cut) == results(whole)


def of_distinct(keep: str, within_ms: int | None) -> Distinct:
    spec = DistinctSpec("test-1-distinct-once", "once", key=("k", "f"), keep=keep, within_ms=within_ms, time_column="i")
    return Distinct(spec, SCHEMA)


def emitted(batches: Iterable[pa.RecordBatch]) -> list[str]:
    return [repr(row) for made in batches for row in made.to_pylist()]


@SETTINGS
@given(EPOCHS, st.sampled_from(["first", "last"]), st.sampled_from([None, 1, 20]))
def test_copies_cut_into_epochs_are_those_of_one(
    epochs: list[list[list[dict[str, Any]]]], keep: str, within_ms: int | None
) -> None:
    operators = [of_distinct(keep, within_ms), of_distinct(keep, within_ms)]
    found: list[list[str]] = [[], []]
    for number, batches in enumerate(epochs):
        for operator, rows in zip(operators, found, strict=True):
            for each in filter(None, batches):
                rows += emitted(operator.process(batch(each)))
            if within_ms is not None:
                rows += emitted(operator.on_watermark(20 * number - 50))
        state = stored(operators[1].snapshot())
        operators[1] = of_distinct(keep, within_ms)
        operators[1].restore(state)
    for operator, rows in zip(operators, found, strict=True):
        rows += emitted(operator.flush())
    assert found[1] == found[0]


def of_changes(scd_type: int) -> ApplyChanges:
    spec = ApplyChangesSpec(
        "test-1-apply_changes-newest", "newest", key=("k", "f"), sequence_by=("i", "s"), scd_type=scd_type
    )
    return ApplyChanges(spec, SCHEMA, applied_schema(SCHEMA, "i", scd_type, "newest"))


@SETTINGS
@given(EPOCHS, st.sampled_from([1, 2]))
def test_changes_cut_into_epochs_are_those_of_one(epochs: list[list[list[dict[str, Any]]]], scd_type: int) -> None:
    operators = [of_changes(scd_type), of_changes(scd_type)]
    found: list[list[str]] = [[], []]
    for batches in epochs:
        for operator, rows in zip(operators, found, strict=True):
            for each in filter(None, batches):
                rows += emitted(operator.process(batch(each)))
        state = stored(operators[1].snapshot())
        operators[1] = of_changes(scd_type)
        if state:
            operators[1].restore(state)
    assert found[1] == found[0]


@SETTINGS
@given(EPOCHS)
def test_a_table_cut_into_epochs_holds_what_it_holds_in_one(epochs: list[list[list[dict[str, Any]]]]) -> None:
    def store() -> TableStore:
        return TableStore("rows", SCHEMA, ("k", "f"))

    whole, cut = store(), store()
    for batches in epochs:
        for rows in filter(None, batches):
            whole.write(batch(rows))
            cut.write(batch(rows))
        state = stored(cut.snapshot())
        cut = store()
        if state:
            cut.restore(state)
    assert list(map(repr, cut.rows.to_pylist())) == list(map(repr, whole.rows.to_pylist()))
    asked = [pa.array(["a", "b", None]), pa.array([math.nan, 0.0, 1.5])]
    found = [
        [list(map(repr, column.to_pylist())) for column in store.take(store.find(asked))] for store in (cut, whole)
    ]
    assert found[0] == found[1]


def test_a_snapshot_does_not_change_when_the_aggregation_goes_on() -> None:
    operator = aggregate()
    operator.process(batch([{"k": "a", "f": 1.5, "i": 1, "s": "x", "d": 0.5}]))
    state = operator.snapshot()
    before = stored(state)
    operator.process(
        batch([{"k": "a", "f": 1.5, "i": 5, "s": "y", "d": 0.5}, {"k": "b", "f": 1.5, "i": 5, "s": "y", "d": 0.5}])
    )
    list(operator.flush())
    assert all(state[name].equals(table) for name, table in before.items())

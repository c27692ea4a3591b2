"""Changes in the order of a sequence: what counts, what is left out and counted, histories, state, and rejections."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza import change_events, stream_application, tumbling
from airflow_samza.application.operator_specs import ApplyChangesSpec
from airflow_samza.errors import InvalidApplication, PartitioningMismatch, SamzaError, UnknownName
from airflow_samza.planner.planner import ExecutionPlanner
from airflow_samza.schema import Schema
from airflow_samza.task.operators.applied_changes import ApplyChanges
from airflow_samza.testing import TestDriver

SCHEMA = Schema.of("k string, v string, s bigint, _deleted boolean")


def operator_of(scd_type: int = 1, schema: Schema = SCHEMA, sequence_by: tuple[str, ...] = ("s",)) -> ApplyChanges:
    from airflow_samza.application.operators.keyed_results import applied_schema

    spec = ApplyChangesSpec("test-1-apply_changes-x", "x", key=("k",), sequence_by=sequence_by, scd_type=scd_type)
    return ApplyChanges(spec, schema, applied_schema(schema, sequence_by[0], scd_type, "x"))


def changes(*rows: tuple[str | None, str | None, int | None, bool]) -> pa.RecordBatch:
    names = SCHEMA.names
    return pa.RecordBatch.from_pylist([dict(zip(names, row, strict=True)) for row in rows], schema=SCHEMA.to_arrow())


def given(operator: ApplyChanges, batch: pa.RecordBatch, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in columns) for out in operator.process(batch) for row in out.to_pylist()]


def test_late_and_repeated_changes_are_left_out_and_counted() -> None:
    operator = operator_of()
    first = changes(("a", "1", 5, False), ("b", "2", 1, False), ("a", "3", 4, False), ("a", "4", 5, False))
    assert given(operator, first, "v") == [("1",), ("2",)]
    second = changes(("a", "5", 5, False), ("b", "6", 2, True), ("b", "7", 1, False), ("a", "8", 9, False))
    assert given(operator, second, "v", "_deleted") == [("6", True), ("8", False)]
    assert operator.metrics() == {
        "late_messages": 2,
        "duplicate_messages": 2,
        "messages_without_sequence": 0,
    }


def test_a_change_of_before_a_delete_does_not_bring_the_row_back() -> None:
    operator = operator_of()
    assert given(operator, changes(("a", None, 5, True)), "_deleted") == [(True,)]
    assert given(operator, changes(("a", "late", 4, False)), "v") == []
    assert given(operator, changes(("a", "new", 6, False)), "v") == [("new",)]


def test_changes_of_no_key_or_no_sequence_are_left_out() -> None:
    operator = operator_of()
    assert given(operator, changes((None, "1", 5, False), ("a", "2", None, False), ("a", "3", 1, False)), "v") == [
        ("3",)
    ]
    assert operator.metrics()["messages_without_sequence"] == 2


def test_a_history_ends_a_row_where_the_next_one_begins() -> None:
    operator = operator_of(2)
    columns = ("k", "v", "valid_from", "valid_to", "is_current")
    first = changes(("a", "1", 1, False), ("a", "2", 4, False), ("b", "3", 2, False))
    assert given(operator, first, *columns) == [
        ("a", "1", 1, 4, False),
        ("a", "2", 4, None, True),
        ("b", "3", 2, None, True),
    ]
    assert given(operator, changes(("a", None, 9, True), ("b", "late", 1, False)), *columns) == [
        ("a", "2", 4, 9, False)
    ]
    assert given(operator, changes(("a", "4", 12, False)), *columns) == [("a", "4", 12, None, True)]


def test_the_state_goes_over_to_messages_of_more_columns() -> None:
    former = operator_of(2)
    given(former, changes(("a", "1", 1, False)), "k")
    wider = Schema.of("k string, v string, s bigint, more string, _deleted boolean")
    operator = operator_of(2, wider)
    operator.restore(former.snapshot())
    batch = pa.RecordBatch.from_pylist(
        [{"k": "a", "v": "2", "s": 2, "more": "x", "_deleted": False}], schema=wider.to_arrow()
    )
    assert given(operator, batch, "v", "more", "valid_to") == [("1", None, 2), ("2", "x", None)]


def test_nothing_comes_of_nothing() -> None:
    operator = operator_of(2)
    assert given(operator, changes(), "k") == []
    assert operator.snapshot() == {}


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("date", [date(2026, 1, 2), date(2026, 1, 1)]),
        ("timestamp", [datetime(2026, 1, 2, tzinfo=timezone.utc), datetime(2026, 1, 1, tzinfo=timezone.utc)]),
        ("decimal(10,2)", [Decimal("10.00"), Decimal("9.00")]),
        ("string", ["b", "a"]),
        ("int", [10, 9]),
    ],
)
def test_any_ordered_type_is_a_sequence(kind: str, values: list[Any]) -> None:
    schema = Schema.of(f"k string, s {kind}")
    for scd_type in (1, 2):
        operator = operator_of(scd_type, schema)
        for value, expected in zip(values, ([values[0]], []), strict=True):
            batch = pa.RecordBatch.from_pylist([{"k": "a", "s": value}], schema=schema.to_arrow())
            assert [row[0] for row in given(operator, batch, "s")] == expected


def test_further_columns_order_equal_values_of_the_first() -> None:
    schema = Schema.of("k string, s bigint, t string")
    operator = operator_of(1, schema, ("s", "t"))
    rows = [{"k": "a", "s": 1, "t": "b"}, {"k": "a", "s": 1, "t": "a"}, {"k": "a", "s": 1, "t": "c"}]
    batch = pa.RecordBatch.from_pylist(rows, schema=schema.to_arrow())
    assert given(operator, batch, "t") == [("b",), ("c",)]


def described(then: Any, schema: str = "k string, v string, s bigint", partitions: int = 2) -> Any:
    @stream_application("test")
    def describe(app: Any) -> None:
        then(app, app.input_stream("changes", schema=schema, changes=change_events(), partitions=partitions))

    return describe


@pytest.mark.parametrize(
    ("then", "kind", "says"),
    [
        (lambda s: s.apply_changes("k", sequence_by="s"), InvalidApplication, "id"),
        (lambda s: s.apply_changes("x", sequence_by="s", id="a"), UnknownName, "There is no column 'x'"),
        (lambda s: s.apply_changes("k", sequence_by="x", id="a"), UnknownName, "There is no column 'x'"),
        (lambda s: s.apply_changes("k", sequence_by="k", id="a"), InvalidApplication, "which is a column of the key"),
        (lambda s: s.apply_changes("k", sequence_by="_deleted", id="a"), InvalidApplication, "which orders no changes"),
        (
            lambda s: s.apply_changes("k", sequence_by="s", stored_as_scd_type=3, id="a"),
            InvalidApplication,
            "stored_as_scd_type=3",
        ),
        (
            lambda s: s.select("k", "s", "v AS valid_to").apply_changes(
                "k", sequence_by="s", stored_as_scd_type=2, id="a"
            ),
            InvalidApplication,
            "valid_to",
        ),
        (
            lambda s: s.select("k", "s", "v AS _deleted").apply_changes("k", sequence_by="s", id="a"),
            InvalidApplication,
            "as the mark of rows that are gone",
        ),
    ],
)
def test_a_wrong_declaration_is_rejected(then: Any, kind: type[SamzaError], says: str) -> None:
    with pytest.raises(kind, match=says):
        described(lambda app, stream: then(stream)).spec()


def test_the_changes_of_a_key_have_to_come_to_one_task() -> None:
    application = described(
        lambda app, s: s.apply_changes("k", sequence_by="s", id="a").send_to(app.output_stream("rows"))
    )
    with pytest.raises(PartitioningMismatch, match="is keyed by 'k'"):
        ExecutionPlanner({}, {"changes": 2}).plan(application.spec())


def test_windows_behind_a_history_name_the_operator_that_gives_rows_again() -> None:
    @stream_application("test")
    def describe(app: Any) -> None:
        changes = app.input_stream(
            "changes", schema="k string, s bigint, at timestamp", key="k", changes=change_events(), timestamp="at"
        )
        rows = changes.apply_changes("k", sequence_by="s", stored_as_scd_type=2, id="a")
        rows.window(tumbling("1 hour"), key="k", id="hours")

    with pytest.raises(InvalidApplication, match="gives out rows again when they have ended"):
        describe.spec()


def test_only_columns_that_are_read_go_to_the_operator() -> None:
    application = described(
        lambda app, s: (
            s.partition_by("k", id="by-k")
            .apply_changes("k", sequence_by="s", id="a")
            .select("v")
            .send_to(app.output_stream("rows"))
        )
    )
    driver = TestDriver(application, partitions=2, reduced=True)
    events = [{"op": "c", "k": "a", "v": "1", "s": 2}, {"op": "c", "k": "a", "v": "2", "s": 1}]
    assert [row.v for row in driver.pipe("changes", events, partition=0).run().output("rows")] == ["1"]


@pytest.mark.parametrize(
    ("read", "mode", "warned"), [(None, "upsert", 1), ("checkpoint", "upsert", 0), (None, None, 0)]
)
def test_the_plan_warns_of_a_history_that_nobody_goes_on_with(read: str | None, mode: str | None, warned: int) -> None:
    @stream_application("test")
    def describe(app: Any) -> None:
        changes = app.input_stream(
            "changes", schema="k string, s bigint", key="k", changes=change_events(), slice=read, partitions=2
        )
        history = changes.apply_changes("k", sequence_by="s", stored_as_scd_type=2, id="history")
        said = {} if mode is None else {"mode": mode, "key": ["k", "valid_from"]}
        history.where("is_current").send_to(app.output_stream("rows", **said))

    plan = ExecutionPlanner({}, {"changes": 2}).plan(describe.spec())
    assert sum("keeps a history that runs add to" in warning for warning in plan.warnings) == warned

"""Spark as the referee: a bounded run of a stream join gives what Spark's interval join gives, row by row."""

from __future__ import annotations

import datetime
import math
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza import stream_application
from airflow_samza.schema import Schema
from airflow_samza.testing import TestDriver
from tests.support.referee import bits
from tests.support.stream_join_model import KINDS

pytestmark = [pytest.mark.extended, pytest.mark.spark]

LEFT = "k {kind}, k2 string, at timestamp, v int, note string"
RIGHT = "r_k {kind}, r_k2 string, r_at timestamp, w int, other array<int>"
START = datetime.datetime(2026, 3, 29, 0, 30, tzinfo=datetime.timezone.utc)
KEYS: dict[str, list[Any]] = {
    "bigint": [None, 1, 2, 3, -(2**63), 2**63 - 1],
    "int": [None, 1, 2, 3, 4],
    "string": [None, "", "a", "b", "é"],
    "double": [None, 0.0, -0.0, math.nan, 1.5],
    "date": [None, datetime.date(2026, 1, 1), datetime.date(1970, 1, 1)],
    "decimal(12,2)": [None, Decimal("1.00"), Decimal("-1.25"), Decimal("7.00")],
    "decimal(30,5)": [None, Decimal("1.00000"), Decimal("-1.25000"), Decimal("7e20")],
    "boolean": [None, True, False],
}
TTL_US = 5_000_000


def moment(generator: random.Random) -> datetime.datetime | None:
    """A time near others: often exactly the ttl away, or one microsecond more or less."""
    if generator.random() < 0.05:
        return None
    return START + datetime.timedelta(
        microseconds=generator.randrange(12) * TTL_US // 2 + generator.choice([-1, 0, 0, 0, 1])
    )


def side(schema: Schema, kind: str, generator: random.Random, rows: int) -> pa.Table:
    """Random messages of one side."""
    names = schema.names
    made = []
    for number in range(rows):
        last = (
            None if generator.random() < 0.2 else [number] * (number % 3) if names[4] == "other" else f"note {number}"
        )
        made.append((generator.choice(KEYS[kind]), generator.choice(["x", "y", None]), moment(generator), number, last))
    columns = [
        pa.array(column, field.type) for column, field in zip(zip(*made, strict=True), schema.to_arrow(), strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema.to_arrow())


def application(how: str, kind: str, composite: bool, function: bool) -> Any:
    key = ["k", "k2"] if composite else ["k"]
    right_key = [f"r_{name}" for name in key]

    def together(left: Any, right: Any) -> dict[str, Any]:
        return {
            "v": None if left is None else left.v,
            "w": None if right is None else right.w,
            "other": None if right is None else right.other,
            "at": left.at if left is not None else right.r_at,
        }

    @stream_application("interval-join")
    def joining(app: Any) -> None:
        left = app.input_stream("left", schema=LEFT.format(kind=kind), timestamp="at").partition_by(key, id="by-left")
        right = app.input_stream("right", schema=RIGHT.format(kind=kind), timestamp="r_at").partition_by(
            right_key, id="by-right"
        )
        more = {"schema": "v int, w int, other array<int>, at timestamp"} if function else {}
        joined = left.join(
            right,
            together if function else None,
            id="joined",
            how=how,
            ttl="5 seconds",
            left_key=key,
            right_key=right_key,
            **more,
        )
        joined.send_to(app.output_stream("joined"))

    return joining


def by_spark(spark: Any, left: pa.Table, right: pa.Table, how: str, composite: bool, function: bool) -> list[Any]:
    spark.createDataFrame(left).createOrReplaceTempView("one")
    spark.createDataFrame(right).createOrReplaceTempView("other")
    keys = ["k", "k2"] if composite else ["k"]
    equal = " AND ".join(f"one.{key} = other.r_{key}" for key in keys)
    near = "other.r_at BETWEEN one.at - INTERVAL 5 SECONDS AND one.at + INTERVAL 5 SECONDS"
    kept = {"k": "coalesce(k, r_k)", "k2": "coalesce(k2, r_k2)" if composite else "k2"}
    columns = f"{kept['k']}, {kept['k2']}, at, v, note, {'' if composite else 'r_k2, '}r_at, w, other"
    if function:
        columns = "v, w, other, coalesce(at, r_at)"
    rows = spark.sql(
        f"SELECT {columns} FROM one {'full outer' if how == 'full' else how} JOIN other ON {equal} AND {near}"
    ).toArrow()
    return in_order(rows)


def in_order(table: pa.Table) -> list[Any]:
    columns = []
    for column in table.columns:
        wide = column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
        columns.append([bits(0.0 if value == 0 and isinstance(value, float) else value) for value in wide.to_pylist()])
    return sorted(map(repr, zip(*columns, strict=True)))


@pytest.mark.parametrize("how", KINDS)
@pytest.mark.parametrize("kind", KEYS)
def test_equals_sparks_interval_join(spark: Any, how: str, kind: str) -> None:
    place, turn = list(KEYS).index(kind), KINDS.index(how)
    composite, function = place % 2 == 0, (place // 2 + turn) % 2 == 0
    generator = random.Random(f"{how} {kind} {composite} {function}")
    left = side(Schema.of(LEFT.format(kind=kind)), kind, generator, 150)
    right = side(Schema.of(RIGHT.format(kind=kind)), kind, generator, 150)
    driver = TestDriver(application(how, kind, composite, function), config={"job.intermediate.stream.partitions": "3"})
    driver.pipe("left", left).pipe("right", right).run()
    found = driver.output("joined")
    schema = driver.spec.outputs["joined"].schema
    rows = pa.Table.from_pylist([dict(row) for row in found], schema=_schema(driver, schema))
    assert in_order(rows) == by_spark(spark, left, right, how, composite, function)


def _schema(driver: TestDriver, declared: Schema | None) -> pa.Schema:
    join = next(operator for operator in driver.spec.operators if operator.op == "join")
    known = declared or join.schema
    assert known is not None
    return known.to_arrow()

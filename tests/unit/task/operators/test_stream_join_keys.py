"""Keys of a stream join: equal keys have equal numbers, and where a number is a key, others have other ones."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza.schema import Schema, parse_type
from airflow_samza.task.operators.stream_join.keys import JoinKey, as_numbers, equal_rows
from airflow_samza.task.tables.parts import rows_with_key

DAY, NOON = dt.date(2026, 1, 1), dt.datetime(2026, 1, 1, 12)
VALUES: dict[str, list[Any]] = {
    "int": [3, -3, 0, 2**31 - 1],
    "bigint": [3, -3, 2**62, -(2**63)],
    "double": [0.5, -0.5, float("inf"), 1e300, float("nan")],
    "float": [0.5, -0.5, 0.0],
    "boolean": [True, False],
    "date": [DAY, DAY - dt.timedelta(20_000), DAY + dt.timedelta(1)],
    "timestamp_ntz": [NOON, NOON + dt.timedelta(microseconds=1), dt.datetime(1900, 1, 1)],
    "decimal(18,2)": [Decimal("1.10"), Decimal("-1.10"), Decimal("9999999999999999.99")],
    "decimal(5,0)": [Decimal(1), Decimal(-1)],
}


def column(ddl: str, values: list[Any]) -> pa.Array:
    return pa.array(values, parse_type(ddl).to_arrow())


@pytest.mark.parametrize("ddl", VALUES)
def test_each_value_has_a_number_of_its_own_wherever_it_stands(ddl: str) -> None:
    values = VALUES[ddl]
    numbers = as_numbers(column(ddl, values)).tolist()
    assert len(set(numbers)) == len(values)
    assert as_numbers(column(ddl, [*values, *values[::-1]]).slice(1)).tolist() == [*numbers[1:], *numbers[::-1]]


@pytest.mark.parametrize("ddl", VALUES)
def test_no_values_have_no_numbers(ddl: str) -> None:
    for none in (column(ddl, []), column(ddl, VALUES[ddl]).slice(1, 0), pa.nulls(0, parse_type(ddl).to_arrow())):
        assert as_numbers(none).tolist() == []


def test_zeros_of_both_signs_are_one_key_and_so_are_all_nans() -> None:
    bits = pa.array([0x7FF8000000000000, 0x7FF8000000000001], pa.int64()).view(pa.float64())
    assert len(set(as_numbers(bits).tolist())) == 1
    assert len(set(as_numbers(column("double", [0.0, -0.0])).tolist())) == 1


def test_an_int_and_a_bigint_of_one_value_are_one_key_and_so_are_a_float_and_a_double() -> None:
    assert as_numbers(column("int", [-7])).tolist() == as_numbers(column("bigint", [-7])).tolist()
    assert as_numbers(column("float", [0.5])).tolist() == as_numbers(column("double", [0.5])).tolist()


@pytest.mark.parametrize(
    ("ddl", "names", "exact"),
    [
        ("a bigint", "a", True),
        ("a decimal(18,2)", "a", True),
        ("a decimal(19,2)", "a", False),
        ("a string", "a", False),
        ("a bigint, b bigint", "ab", False),
    ],
)
def test_a_number_is_a_key_where_the_key_is_one_column_of_at_most_64_bits(ddl: str, names: str, exact: bool) -> None:
    assert JoinKey([*names], Schema.of(ddl)).exact is exact


def test_keys_are_there_where_no_column_is_null_and_equal_where_all_are() -> None:
    key = JoinKey(["a", "b"], Schema.of("a bigint, b string"))
    batch = pa.RecordBatch.from_pydict({"a": [1, None, 1, 2], "b": ["x", "x", None, "x"]})
    present = rows_with_key([batch.column(name) for name in key.columns])
    assert present is not None
    assert present.tolist() == [True, False, False, True]
    assert rows_with_key([batch.slice(3).column(name) for name in key.columns]) is None
    first, last = (key.values(batch, pa.array(rows)) for rows in ([0, 0], [0, 3]))
    assert equal_rows(first, last).tolist() == [True, False]

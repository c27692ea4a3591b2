"""Rows in the sort order of a table: as plain Python has them, value by value."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from airflow_samza.systems.tables.columns import TableField, TableType
from airflow_samza.systems.tables.transforms import SortField, sorted_rows

COLUMNS = [
    TableField(1, "number", TableType("long"), required=False),
    TableField(2, "code", TableType("string"), required=False),
    TableField(3, "share", TableType("double"), required=False),
]
SCHEMA = pa.schema([("number", pa.int64()), ("code", pa.string()), ("share", pa.float64()), ("place", pa.int64())])
VALUES = {
    1: st.none() | st.integers(-5, 5),
    2: st.none() | st.sampled_from(["", "a", "ab", "b", "é"]),
    3: st.none() | st.sampled_from([-1.0, 0.5, math.inf, -math.inf, math.nan]),
}


def in_order(rows: list[tuple[Any, ...]], fields: list[SortField]) -> list[tuple[Any, ...]]:
    """Return rows sorted by the last field first, since Python's sort keeps the order of what is equal."""
    for field in reversed(fields):
        at = field.source - 1

        def above(row: tuple[Any, ...], at: int = at) -> tuple[bool, Any]:
            value = row[at]
            nan = isinstance(value, float) and math.isnan(value)
            return nan, 0 if nan else value.encode() if isinstance(value, str) else value

        valued = sorted((row for row in rows if row[at] is not None), key=above, reverse=field.descending)
        nulls = [row for row in rows if row[at] is None]
        rows = [*nulls, *valued] if field.nulls_first else [*valued, *nulls]
    return rows


@given(
    st.lists(st.tuples(*VALUES.values()), max_size=12),
    st.lists(st.builds(SortField, st.integers(1, 3), st.just("identity"), st.booleans(), st.booleans()), max_size=3),
)
def test_rows_are_in_the_order_of_all_fields(values: list[tuple[Any, ...]], fields: list[SortField]) -> None:
    fields = list({field.source: field for field in fields}.values()) or [SortField(1, "identity", False, True)]
    rows = [(*row, place) for place, row in enumerate(values)]
    table = pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)
    found = sorted_rows(table, [(field, COLUMNS[field.source - 1], field.source - 1) for field in fields])
    wanted = in_order(rows, fields)
    keys = [field.source - 1 for field in fields]
    assert [[repr(row[key]) for key in keys] for row in map(tuple, (r.values() for r in found.to_pylist()))] == [
        [repr(row[key]) for key in keys] for row in wanted
    ]
    assert sorted(found["place"].to_pylist()) == list(range(len(rows)))


@pytest.mark.parametrize(("descending", "wanted"), [(False, [2, 11, 10, 25, 20]), (True, [25, 20, 11, 10, 2])])
def test_a_transform_orders_and_what_is_equal_by_it_stays_as_it_came(descending: bool, wanted: list[int]) -> None:
    table = pa.table({"number": pa.array([11, 25, 10, 2, 20], pa.int64())})
    field = SortField(1, "truncate[10]", descending, nulls_first=False)
    assert sorted_rows(table, [(field, COLUMNS[0], 0)])["number"].to_pylist() == wanted

"""Keys and values as bytes.

What is written comes back, columns and single rows give the same bytes, and keys keep their order.
"""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from airflow_samza.schema import Schema
from airflow_samza.storage.key_bytes import KeyBytes
from airflow_samza.storage.value_bytes import ValueBytes
from tests.support.budgets import share

SIMPLE: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "tinyint": st.integers(-128, 127),
    "smallint": st.integers(-(2**15), 2**15 - 1),
    "int": st.integers(-(2**31), 2**31 - 1),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "date": st.dates(),
    "timestamp": st.datetimes(timezones=st.just(datetime.timezone.utc)),
    "timestamp_ntz": st.datetimes(),
    "decimal(38,4)": st.decimals(-(10**30), 10**30, places=4),
    "decimal(5,0)": st.decimals(-99999, 99999, places=0),
    "string": st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    "binary": st.binary(max_size=8),
}
NESTED: dict[str, st.SearchStrategy[Any]] = {
    "double": st.floats(allow_nan=False),
    "float": st.floats(allow_nan=False, width=32),
    "array<string>": st.lists(st.none() | st.text("ab\0")),
    "map<string,decimal(5,1)>": st.lists(
        st.tuples(st.text("ab", min_size=1), st.none() | st.decimals(-9, 9, places=1))
    ),
    "struct<a:int,b:array<struct<at:timestamp_ntz,flag:boolean,day:date,bytes:binary>>>": st.fixed_dictionaries(
        {
            "a": st.none() | st.integers(-5, 5),
            "b": st.none()
            | st.lists(
                st.none()
                | st.fixed_dictionaries(
                    {
                        "at": st.datetimes(),
                        "flag": st.booleans(),
                        "day": st.none() | st.dates(),
                        "bytes": st.binary(max_size=3),
                    }
                ),
                max_size=3,
            ),
        }
    ),
}


@pytest.mark.parametrize("kind", SIMPLE)
def test_keys_keep_their_order_and_come_back(kind: str) -> None:
    schema = Schema.of(f"a {kind}, b {kind}")
    alone, both = KeyBytes(Schema.of(f"a {kind}")), KeyBytes(schema)

    @settings(max_examples=share(100), deadline=None)
    @given(st.lists(st.tuples(SIMPLE[kind], SIMPLE[kind]), max_size=8))
    def check(keys: list[tuple[Any, Any]]) -> None:
        data = [both.encoded(key) for key in keys]
        assert [both.decoded(one) for one in data] == keys
        assert [both.decoded(one) for one in sorted(data)] == sorted(keys)
        first = [key for key, _ in keys]
        assert [alone.decoded(one) for one in sorted(map(alone.encoded, first))] == sorted(first)
        columns = [pa.array([key[place] for key in keys], schema.fields[0].type.to_arrow()) for place in (0, 1)]
        assert both.encoded_columns(columns).to_pylist() == data
        assert alone.encoded_columns([columns[0].slice(1)]).to_pylist() == [alone.encoded(key) for key in first[1:]]

    check()


@pytest.mark.parametrize("kind", [*SIMPLE, *NESTED])
@pytest.mark.few(6)
def test_values_come_back_and_columns_give_the_same_bytes(kind: str) -> None:
    schema = Schema.of(f"a {kind}, b string, c {kind}")
    codec = ValueBytes(schema)
    values = st.none() | {**SIMPLE, **NESTED}[kind]

    @settings(max_examples=share(100), deadline=None)
    @given(st.lists(st.tuples(values, st.none() | st.text("xyä"), values), max_size=8))
    def check(rows: list[tuple[Any, ...]]) -> None:
        data = [codec.encoded(row) for row in rows]
        assert [codec.decoded(one) for one in data] == rows
        columns = [
            pa.array([row[place] for row in rows], field.type.to_arrow()) for place, field in enumerate(schema.fields)
        ]
        assert codec.encoded_columns(columns).to_pylist() == data
        assert codec.encoded_columns([column.slice(1) for column in columns]).to_pylist() == data[1:]

    check()


def test_more_than_eight_columns_have_their_nulls_told_apart() -> None:
    codec = ValueBytes(Schema.of(", ".join(f"c{n} int" for n in range(11))))
    row = tuple(None if n in (0, 7, 8, 10) else n for n in range(11))
    assert codec.decoded(codec.encoded(row)) == row
    columns = [pa.array([value], pa.int32()) for value in row]
    assert codec.encoded_columns(columns).to_pylist() == [codec.encoded(row)]


def test_a_decimal_keeps_its_digits() -> None:
    price = decimal.Decimal("1.50")
    assert (
        str(
            ValueBytes(Schema.of("p decimal(9,2)")).decoded(ValueBytes(Schema.of("p decimal(9,2)")).encoded((price,)))[
                0
            ]
        )
        == "1.50"
    )

"""One rule for values: inside arrays, structs and maps fits what fits into a column of the type.

What fits reads back equal.
"""

from __future__ import annotations

import dataclasses
import datetime
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from airflow_samza.row import Row
from airflow_samza.schema import SIMPLE_TYPES, DataType, Field, Schema
from airflow_samza.task.messages.messages import MessageReader
from airflow_samza.task.messages.writer import MessageWriter, ShapeError
from tests.support.budgets import share

UTC = datetime.timezone.utc
TWO_EAST = datetime.timezone(datetime.timedelta(hours=2))


@dataclasses.dataclass
class Pair:
    """A value of a struct<a,b>."""

    a: Any
    b: Any


LEAVES = [DataType(name) for name in SIMPLE_TYPES] + [DataType("decimal", 10, 2), DataType("decimal", 38, 0)]
KEYS = [kind for kind in LEAVES if kind.name not in ("float", "double", "binary")]
VALUES: list[Any] = [
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        127,
        128,
        2**31,
        2**53 + 1,
        2**63 - 1,
        2**63,
        10**38,
        0.0,
        -0.0,
        1.5,
        1e39,
        1e300,
        math.inf,
        math.nan,
    ),
    *("", "a", "é", "\ud800", "1", b"", b"ab", bytearray(b"ab"), memoryview(b"ab"), np.bytes_(b"ab"), np.str_("a")),
    *(Decimal(1), Decimal("1.50"), Decimal("1.505"), Decimal("NaN"), Decimal(10**38 - 1), Decimal(10**38)),
    *(
        datetime.date(2020, 2, 29),
        datetime.datetime(2020, 2, 29, 5),
        datetime.datetime(2020, 2, 29, 5, tzinfo=TWO_EAST),
    ),
    *(datetime.time(5), datetime.timedelta(1), 1_700_000_000.25, 1_700_000_000_000),
    *(np.int8(1), np.int64(2**40), np.float32(1.5), np.float64(1e300), np.bool_(True), np.datetime64("2020-02-29")),
    *(
        pd.Timestamp("2020-02-29 05:00"),
        pd.Timestamp("2020-02-29 05:00:00.000000001"),
        pd.NaT,
        pd.NA,
        object(),
        int,
        {1},
        range(2),
    ),
    *(
        [],
        [1],
        [1.5],
        (1, 2),
        np.array([1, 2]),
        np.array([[1], [2]]),
        ["a"],
        [None],
        [[1]],
        [b"ab"],
        {},
        {"a": 1},
        {"a": 1, "b": 2},
    ),
    *(
        {"a": 1, "c": 2},
        {"b": 1, "a": "x"},
        {1: 1},
        {1.5: 1, 1.7: 2},
        {None: 1},
        Row({"a": 1, "b": 2}),
        Pair(1, 2),
        Pair("x", None),
        Pair,
    ),
    *([{"a": 1, "b": 2}], [("a", 1)], {"a": [1.5], "b": []}, {"a": {"a": 1, "b": 1.5}, "b": None}),
]
"""Values that users put into messages, and those that they put there by mistake."""

TYPES = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: (
        inner.map(lambda element: DataType("array", children=(element,)))
        | st.tuples(st.sampled_from(KEYS), inner).map(lambda parts: DataType("map", children=parts))
        | st.tuples(inner, inner).map(lambda parts: DataType("struct", children=parts, names=("a", "b")))
    ),
    max_leaves=4,
)


@st.composite
def typed_values(draw: st.DrawFn, kind: DataType) -> Any:
    """Values that have a chance to fit: of the form of the type, with any leaf now and then."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.sampled_from(VALUES))
    if kind.name == "array":
        return draw(st.lists(typed_values(kind.children[0]), max_size=3))
    if kind.name == "struct":
        made = {name: draw(typed_values(child)) for name, child in zip(kind.names, kind.children, strict=True)}
        return draw(st.sampled_from([made, Row(made), Pair(**made)]))
    if kind.name == "map":
        keys = draw(st.lists(st.sampled_from([value for value in VALUES if is_hashable(value)]), max_size=2))
        return {
            key: draw(typed_values(kind.children[1]))
            for key in keys
            if accepted(kind.children[0], key) and key is not None
        }
    return draw(
        st.sampled_from([value for value in VALUES if accepted(kind, value)] if draw(st.integers(0, 5)) else VALUES)
    )


def is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def written(kind: DataType, value: Any) -> Any:
    """The batch of one message with the value in a column; raises :class:`ShapeError`."""
    return MessageWriter(Schema((Field("v", kind),))).write([{"v": value}])


def accepted(kind: DataType, value: Any) -> bool:
    try:
        written(kind, value)
    except ShapeError:
        return False
    return True


def read_back(kind: DataType, value: Any) -> Any:
    (message,) = MessageReader(Schema((Field("v", kind),))).read(written(kind, value))
    return message.v


def same(kind: DataType, given: Any, read: Any) -> bool:
    """Return True if a value is the given one; naive times are UTC, a float keeps the digits that it has."""
    if given is None or read is None:
        return given is None and read is None
    if kind.name == "array":
        return len(given) == len(read) and all(same(kind.children[0], *pair) for pair in zip(given, read, strict=True))
    if kind.name == "struct":
        fields = vars(given) if isinstance(given, Pair) else given
        return set(fields) == set(read) == set(kind.names) and all(
            same(child, fields[name], read[name]) for name, child in zip(kind.names, kind.children, strict=True)
        )
    if kind.name == "map":
        key, item = kind.children
        given = dict(given)
        return len(given) == len(read) and all(
            same(key, *keys) and same(item, given[keys[0]], read[keys[1]]) for keys in zip(given, read, strict=True)
        )
    if kind.name == "timestamp" and given.tzinfo is None:
        given = given.replace(tzinfo=UTC)
    if kind.name in ("float", "double"):
        given, read = (np.float32(given), np.float32(read)) if kind.name == "float" else (float(given), read)
        return bool(given == read or (math.isnan(given) and math.isnan(read)))
    return bool(given == read)


@settings(max_examples=share(400), deadline=None)
@given(data=st.data())
def test_a_value_fits_inside_as_it_fits_into_a_column(data: st.DataObject) -> None:
    kind = data.draw(TYPES)
    value = data.draw(typed_values(kind))
    fits = accepted(kind, value)
    array = DataType("array", children=(kind,))
    struct = DataType("struct", children=(DataType("int"), kind), names=("a", "b"))
    mapped = DataType("map", children=(DataType("string"), kind))
    assert accepted(array, [value]) == accepted(array, (value, None)) == fits
    assert accepted(struct, {"a": 1, "b": value}) == accepted(struct, Pair(None, value)) == fits
    assert accepted(mapped, {"k": value}) == fits
    assert accepted(DataType("array", children=(struct,)), [{"a": 1, "b": value}, None]) == fits
    assert accepted(DataType("map", children=(DataType("int"), array)), {1: [value], 2: None, 3: []}) == fits


@settings(max_examples=share(400), deadline=None)
@given(data=st.data())
@pytest.mark.extended
def test_what_fits_reads_back_equal_at_every_depth(data: st.DataObject) -> None:
    kind = data.draw(TYPES)
    value = data.draw(typed_values(kind))
    if accepted(kind, value):
        assert same(kind, value, read_back(kind, value))


@settings(max_examples=share(100), deadline=None)
@given(data=st.data())
def test_columns_hold_what_their_values_hold_one_by_one(data: st.DataObject) -> None:
    kind = data.draw(TYPES)
    values = data.draw(st.lists(typed_values(kind), max_size=5))
    schema = Schema((Field("v", kind),))
    misfits = [place for place, value in enumerate(values) if not accepted(kind, value)]
    messages = [{"v": value} for value in values]
    if misfits:
        with pytest.raises(ShapeError) as raised:
            MessageWriter(schema).write(messages)
        assert raised.value.index == misfits[0]
        return
    batch = MessageWriter(schema).write(messages)
    batch.validate(full=True)
    assert all(
        same(kind, value, message.v) for value, message in zip(values, MessageReader(schema).read(batch), strict=True)
    )

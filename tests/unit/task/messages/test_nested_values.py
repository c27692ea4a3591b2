"""Errors about a value inside a value name its place."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from airflow_samza.schema import Schema
from airflow_samza.task.messages.writer import MessageWriter, ShapeError

NOW = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.timezone.utc)


@pytest.mark.parametrize(
    ("kind", "value", "why"),
    [
        ("array<int>", [1, 1.5], "v[1] is 1.5, which is no int"),
        ("array<int>", b"ab", "v is b'ab', which is no array<int>"),
        ("array<int>", {1, 2}, "v is {1, 2}, which is no array<int>"),
        ("array<string>", [b"ab"], "v[0] is b'ab', which is no string"),
        ("array<date>", [NOW], f"v[0] is {NOW!r}, which is no date"),
        ("struct<zip:int>", {"zap": 1}, "v is {'zap': 1}, where it lacks zip and it has also zap"),
        ("struct<zip:int>", {"zip": 1, "zap": 1}, "v is {'zip': 1, 'zap': 1}, where it has also zap"),
        ("struct<zip:int>", {"zip": "1"}, "v.zip is '1', which is no int"),
        ("map<int,int>", {1.5: 1, 1.7: 2}, "v's key 0 is 1.5, which is no int"),
        (
            "map<string,array<float>>",
            {"a": [1.0], "b": [1e300]},
            "v['b'][0] is 1e+300, which is out of the range of float",
        ),
        ("map<timestamp,int>", {NOW: 1, NOW.replace(tzinfo=None): 2}, "of which two keys become one"),
        ("map<string,int>", {None: 1}, "which has None for a key"),
        ("map<string,int>", [("a", 1), ("a", 2)], "v is [('a', 1), ('a', 2)], of which two keys are equal"),
        ("map<string,int>", [("a", 1.5)], "v['a'] is 1.5, which is no int"),
        ("map<string,int>", ["ab"], "v is ['ab'], which is no map<string,int>"),
        ("float", 1e300, "v is 1e+300, which is out of the range of float"),
        ("float", -(10**39), "v is -1000000000000000000000000000000000000000, which"),
        ("binary", "ab", "v is 'ab', which is no binary"),
        ("timestamp_ntz", NOW, "which has a time zone, and timestamp_ntz has none"),
        ("timestamp", NOW.date(), "which is no timestamp"),
    ],
)
def test_a_misfit_is_told_with_its_place(kind: str, value: Any, why: str) -> None:
    with pytest.raises(ShapeError) as raised:
        MessageWriter(Schema.of(f"v {kind}")).write([{"v": None}, {"v": value}])
    assert raised.value.index == 1
    assert why in raised.value.why


@pytest.mark.parametrize(
    "kind", ["timestamp", "timestamp_ntz", "array<timestamp>", "map<int,timestamp>", "struct<at:timestamp>"]
)
@pytest.mark.parametrize("number", [NOW.timestamp(), int(NOW.timestamp() * 1000), 0])
def test_rejects_a_number_for_a_timestamp(kind: str, number: float) -> None:
    value: Any = {"a": [number], "m": {1: number}, "s": {"at": number}}.get(kind[0], number)
    with pytest.raises(
        ShapeError, match=r"a number, and no timestamp(_ntz)?: ms since 1970 become one by datetime\.fromtimestamp"
    ):
        MessageWriter(Schema.of(f"v {kind}")).write([{"v": value}])


def test_infinity_is_a_float() -> None:
    batch = MessageWriter(Schema.of("v float")).write(
        [{"v": float("inf")}, {"v": 3.4e38}, {"v": float("-inf")}, {"v": None}]
    )
    assert batch.column("v").to_pylist()[::2] == [float("inf"), float("-inf")]

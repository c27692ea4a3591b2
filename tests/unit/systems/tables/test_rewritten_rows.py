"""Rows that were only written anew: hashes of random rows against their values, and rows that cancel out."""

from __future__ import annotations

import random
from collections import Counter
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza.systems.tables.row_hashes import RewrittenRows, row_hashes

NAN = float("nan")
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "whole": (pa.int64(), [0, 1, -1, 2**62, None]),
    "small": (pa.int8(), [0, 1, -1, None]),
    "float": (pa.float32(), [0.0, -0.0, 1.5, NAN, None]),
    "double": (pa.float64(), [0.0, -0.0, 1e300, NAN, None]),
    "truth": (pa.bool_(), [True, False, None]),
    "text": (pa.string(), ["", "a", "b", "ab", "é", None]),
    "bytes": (pa.binary(), [b"", b"\0", b"\0\0", None]),
    "day": (pa.date32(), [date(1970, 1, 1), date(2026, 11, 1), None]),
    "at": (pa.timestamp("us", "UTC"), [datetime(1970, 1, 1, tzinfo=timezone.utc), None]),
    "money": (pa.decimal128(38, 2), [Decimal("0.01"), Decimal("-0.01"), Decimal(10) ** 30, None]),
    "list": (pa.list_(pa.int64()), [[], [1], [1, 2], [2, 1], [0], [None], None]),
    "lists": (pa.list_(pa.list_(pa.string())), [[[]], [], [["a"], ["b"]], [["a", "b"]], [["a", "b"], []], None]),
    "struct": (
        pa.struct([("a", pa.int64()), ("b", pa.string())]),
        [{"a": None, "b": None}, {"a": 1, "b": None}, {"a": None, "b": "1"}, None],
    ),
    "map": (pa.map_(pa.string(), pa.int64()), [[], [("a", 1)], [("a", None)], [("a", 1), ("b", 2)], None]),
}


def rows_of(names: list[str], count: int, chance: random.Random) -> pa.RecordBatch:
    columns = [pa.array([chance.choice(VALUES[name][1]) for _ in range(count)], VALUES[name][0]) for name in names]
    batch = pa.RecordBatch.from_arrays(columns, names=names)
    return batch.slice(chance.randrange(3), count - 6)


@pytest.mark.parametrize("seed", range(20))
def test_rows_have_equal_hashes_if_and_only_if_they_are_equal(seed: int) -> None:
    chance = random.Random(seed)
    names = chance.sample(list(VALUES), chance.choice([1, 1, 2, 5]))
    by_text: dict[str, set[tuple[int, int]]] = {}
    for _ in range(3):
        batch = rows_of(names, 60, chance)
        hashes = row_hashes(batch)
        for row, first, second in zip(batch.to_pylist(), hashes.first, hashes.second, strict=True):
            by_text.setdefault(repr(row), set()).add((int(first), int(second)))
    for lane in (0, 1):
        assert len({next(iter(found))[lane] for found in by_text.values()}) == len(by_text)
    assert all(len(found) == 1 for found in by_text.values())


@pytest.mark.parametrize("seed", range(5))
def test_as_many_equal_rows_cancel_out_as_are_on_both_sides(seed: int) -> None:
    chance = random.Random(seed)
    removed, added = ([rows_of(["truth", "text"], chance.choice([6, 30]), chance) for _ in range(3)] for _ in range(2))
    rewritten = RewrittenRows(added)
    left = [
        counted([rewritten.removed(batch) for batch in removed]),
        counted([rewritten.added(batch) for batch in added]),
    ]
    assert left == [counted(removed) - counted(added), counted(added) - counted(removed)]


def counted(batches: list[pa.RecordBatch]) -> Counter[str]:
    return Counter(repr(row) for batch in batches for row in batch.to_pylist())

"""Rows by key and time, beside a dictionary that knows all of them."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from airflow_samza.schema import Schema
from airflow_samza.storage.timed_rows import NEVER, TimedRows
from airflow_samza.task.tables import timed_store
from airflow_samza.task.tables.timed_store import TimedStore

SCHEMA = Schema.of("k string, n bigint, v bigint")
KEYS = [("a", 1), ("a", 2), ("b", 1), ("c", 9)]

Change = tuple[tuple[str, int], int, int, bool]


def batch(changes: list[Change]) -> tuple[pa.RecordBatch, Any, Any]:
    columns = {"k": [k for (k, _), *_ in changes], "n": [n for (_, n), *_ in changes], "v": [c[2] for c in changes]}
    rows = pa.RecordBatch.from_pydict(columns, schema=SCHEMA.to_arrow())
    return rows, np.array([c[1] for c in changes], np.int64), np.array([c[3] for c in changes], bool)


def found(store: TimedStore, asked: list[tuple[tuple[str, int], int | None]]) -> list[int | None]:
    columns = [pa.array([key[0] for key, _ in asked]), pa.array([key[1] for key, _ in asked])]
    places = store.find_as_of(columns, pa.array([at for _, at in asked], pa.int64()))
    values: list[int | None] = store.take(places, ["v"])[0].to_pylist()
    return values


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.few(12)
def test_each_key_has_the_row_that_was_valid_at_each_time(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(timed_store, "_FEW_ROWS", 1)
    store, last, kept_from = TimedStore("t", SCHEMA, ("k", "n")), {}, -100
    store.keep_from({"one": kept_from})
    for _ in range(chance.randint(1, 12)):
        changes = [
            (chance.choice(KEYS), chance.randint(-20, 20), chance.randint(0, 3), chance.random() < 0.2)
            for _ in range(chance.randint(0, 9))
        ]
        store.put(*batch(changes)) if changes else None
        last.update({(key, at): None if gone else value for key, at, value, gone in changes})
        if chance.random() < 0.4:
            kept_from = max(kept_from, chance.randint(-20, 20))
            store.keep_from({"one": kept_from})
        asked = [(chance.choice([*KEYS, ("z", 0)]), chance.choice([None, *range(kept_from, 25)])) for _ in range(20)]
        expected = [
            max(((at, value) for (key, at), value in last.items() if key == of and at <= when), default=(0, None))[1]
            if when is not None and any(key == of and at <= when for key, at in last)
            else None
            for of, when in asked
        ]
        assert found(store, asked) == expected
    newest = {key: max((at, v) for (k, at), v in last.items() if k == key)[1] for key, _ in last}
    rows = store.rows.to_pylist()
    assert {(row["k"], row["n"]): row["v"] for row in rows} == {k: v for k, v in newest.items() if v is not None}


def test_rows_that_were_replaced_before_are_left_out_once_all_joins_are_past_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(timed_store, "_FEW_ROWS", 1)
    store = TimedStore("t", SCHEMA, ("k", "n"))
    store.keep_from({"one": NEVER, "other": NEVER})
    store.put(*batch([(("a", 1), at, at, False) for at in range(10)]))
    store.keep_from({"one": 5})
    assert store.count == 10
    store.keep_from({"other": 7})
    assert store.count == 5
    assert found(store, [(("a", 1), 5), (("a", 1), 9)]) == [5, 9]


def test_nothing_is_found_where_nothing_is() -> None:
    rows = pa.RecordBatch.from_pylist([], SCHEMA.to_arrow())
    none = TimedRows.of(rows, np.zeros(0, np.int64), np.zeros(0, bool), ["k", "n"])
    assert none.find([pa.array(["a"]), pa.array([1])], np.array([3])).tolist() == [-1]

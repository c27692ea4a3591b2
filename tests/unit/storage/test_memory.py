"""Peculiarities of the store in memory: a snapshot converts the changes, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza.errors import StoreError
from airflow_samza.schema import Schema
from airflow_samza.storage.memory import MemoryStore
from airflow_samza.storage.store import StoreLayout, Values
from tests.support.store_entries import put_all


@pytest.fixture
def converted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of entries that each snapshot made of Python values."""
    counts: list[int] = []
    table = StoreLayout.table

    def counting(layout: StoreLayout, entries: Sequence[tuple[Any, Values]]) -> pa.Table:
        counts.append(len(entries))
        return table(layout, entries)

    monkeypatch.setattr(StoreLayout, "table", counting)
    return counts


def test_a_snapshot_converts_what_changed_since_the_former_one(converted: list[int]) -> None:
    store = MemoryStore(StoreLayout("counts", Schema.of("key int"), Schema.of("value int")))
    put_all(store, ((number, (number,)) for number in range(1000)))
    store.kept()["base"]
    del converted[:]
    store.put(7, (70,))
    store.delete(8)
    first = store.kept()["base"]
    assert (converted, first.num_rows) == ([1], 999)
    assert store.kept()["base"] is first  # nothing has changed since
    put_all(store, ((number, (0,)) for number in range(500)))
    store.kept()["base"]
    store.put(1, (1,))
    store.kept()["base"]
    assert converted[-2:] == [500, 1]  # many changes were taken over, so they are not converted again


def test_a_store_that_has_grown_too_large_is_rejected_when_it_is_kept() -> None:
    store = MemoryStore(StoreLayout("counts", Schema.of("key string"), Schema.of("value bigint")), 1000)
    store.put("a", (1,))
    assert store.kept()["base"].num_rows == 1
    put_all(store, ((f"k{n}", (n,)) for n in range(100)))
    with pytest.raises(
        StoreError, match=r"'counts' holds \d+ bytes in one task, and stores.counts.max.bytes allows 1000"
    ):
        store.kept()

"""Rows of tables that low-level tasks read and write: what is held as Python objects, and for how long."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_samza import Row
from airflow_samza.application.descriptors import TableDescriptor, TableKind
from airflow_samza.errors import StoreError
from airflow_samza.schema import Schema
from airflow_samza.task.operators.low_level.tables import TaskTable
from airflow_samza.task.tables import side_inputs
from airflow_samza.task.tables.store import TableStore

SCHEMA = Schema.of("k bigint, v string")


class Table:
    """A table of a task, by a clock that a test sets."""

    def __init__(self, ttl_ms: int | None = None) -> None:
        self.now = 0
        self.store = TableStore("t", SCHEMA, ("k",), ttl_ms)
        self.task = TaskTable(TableDescriptor("t", TableKind.LOCAL, ("k",), SCHEMA), self.store, lambda: self.now)

    def put(self, key: int, value: str | None) -> None:
        self.task.put(key, None if value is None else {"k": key, "v": value})
        self.task.flush()

    def values(self, *keys: int) -> dict[Any, Any]:
        return {key: row.v for key, row in self.task.get_all(keys).items()}


def test_a_row_that_was_read_is_not_found_any_more_when_its_time_to_live_is_over() -> None:
    table = Table(ttl_ms=1000)
    table.put(1, "a")
    table.now = 500
    table.put(2, "b")
    assert table.values(1, 2, 3) == {1: "a", 2: "b"}
    table.now = 999
    assert table.values(1, 2) == {1: "a", 2: "b"}
    table.now = 1000
    assert table.values(1, 2) == {2: "b"}
    table.put(1, "c")
    assert table.values(1, 2) == {1: "c", 2: "b"}


def test_a_row_is_as_it_was_written_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_inputs, "_MOST", 2)
    table = Table()
    for key in range(5):
        table.put(key, f"v{key}")
    table.put(3, None)
    table.put(4, "new")
    assert table.values(*range(6)) == {0: "v0", 1: "v1", 2: "v2", 4: "new"}
    assert len(table.task) == 4
    assert table.task.get(4) == Row(k=4, v="new")


def test_a_row_that_is_rejected_leaves_the_one_that_was_written_before() -> None:
    table = Table()
    table.task.put(1, {"k": 1, "v": "a"})
    with pytest.raises(StoreError, match="The task puts"):
        table.task.put(1, {"k": 1, "v": 2})
    assert table.values(1) == {1: "a"}


@pytest.mark.parametrize(("read", "held"), [(2, 3), (3, 1)])
def test_no_more_rows_are_held_as_objects_than_a_bound(monkeypatch: pytest.MonkeyPatch, read: int, held: int) -> None:
    monkeypatch.setattr(side_inputs, "_MOST", 2)
    table = Table()
    table.task.get_all(range(read))
    table.task.get(9)
    assert len(table.task._looked_up) == held

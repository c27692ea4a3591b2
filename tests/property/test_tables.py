"""A table of a task against a dict.

Random writes, deletions, look-ups and times, cut into epochs at random places, kept in files.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings, strategies as st

from airflow_samza.schema import Schema
from airflow_samza.storage.snapshots import TableCache, read_snapshot, write_snapshot
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.task.tables.store import TableStore
from tests.support.budgets import share

SCHEMA = Schema.of("k bigint, name string, n bigint")
KEYS = pa.schema([("k", pa.int64())])

WRITE = st.tuples(
    st.just("write"), st.lists(st.tuples(st.integers(0, 30), st.integers(0, 1 << 40)), min_size=1, max_size=12)
)
DELETE = st.tuples(st.just("delete"), st.lists(st.integers(0, 30), min_size=1, max_size=6))
EPOCH = st.tuples(st.just("epoch"), st.booleans())
WAIT = st.tuples(st.just("wait"), st.integers(1, 40))
STEPS = st.lists(st.one_of(WRITE, WRITE, DELETE, EPOCH, WAIT), max_size=40)


def rows_of(found: list[tuple[int, int]]) -> pa.RecordBatch:
    rows = [{"k": k, "name": f"name {n}", "n": n} for k, n in found]
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA.to_arrow())


class Model:
    """The model of the table: a dict, and the time at which each key was written."""

    def __init__(self, ttl: int | None) -> None:
        self.ttl = ttl
        self.now = 1000
        self.rows: dict[int, tuple[int, int]] = {}

    def visible(self) -> dict[int, int]:
        return {k: n for k, (n, at) in self.rows.items() if self.ttl is None or at > self.now - self.ttl}


def seen(store: TableStore, now: int) -> dict[int, int]:
    asked = pa.array([None, *range(31)], pa.int64())
    places = store.find([asked], now)
    assert places[0] == -1
    names, numbers = store.take(places, ["name", "n"])
    shown = {k: n for k, n in zip(range(31), numbers.to_pylist()[1:], strict=True) if n is not None}
    assert names.to_pylist()[1:] == [f"name {shown[k]}" if k in shown else None for k in range(31)]
    assert (np.flatnonzero(places[1:] >= 0) == sorted(shown)).all()
    return shown


@settings(max_examples=share(150), deadline=None)
@given(steps=STEPS, ttl=st.sampled_from([None, 25]))
def test_a_table_is_a_dict_however_it_is_cut_into_epochs(
    tmp_path_factory: Any, steps: list[tuple[str, Any]], ttl: int | None
) -> None:
    files = open_filesystem(str(tmp_path_factory.mktemp("tables")))
    known = TableCache()
    model, store = Model(ttl), TableStore("t", SCHEMA, ("k",), ttl)
    described: Any = None
    for number, (what, more) in enumerate(steps):
        if what == "write":
            store.write(rows_of(more), model.now)
            model.rows.update({k: (n, model.now) for k, n in more})
        elif what == "delete":
            store.delete(pa.RecordBatch.from_arrays([pa.array(more, pa.int64())], schema=KEYS))
            for key in more:
                model.rows.pop(key, None)
        elif what == "wait":
            model.now += more
        else:
            store.expire(model.now)
            tables = store.snapshot()
            assert all(store.snapshot()[name] is table for name, table in tables.items())
            described = write_snapshot(files, f"state/{number}", {"table": tables}, described, known)
            if more:  # the next epoch is run by another process
                known = TableCache()
            store = TableStore("t", SCHEMA, ("k",), ttl)
            if tables:
                store.restore(read_snapshot(files, described, known)["table"])
        assert seen(store, model.now) == model.visible()
    if ttl is None:
        assert store.count == len(model.rows) == store.rows.num_rows
        assert {row["k"]: row["n"] for row in store.rows.to_pylist()} == model.visible()

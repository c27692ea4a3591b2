"""Time until a task's store has come back.

In bulk from its snapshot, with changes on top, and from the version that the host still has.

``python -m benchmarks.restore [--rows 1000000] [--repeat 3] [--write-docs]``. What is measured is everything from the
bytes of checked files on the local disk to the first look-up.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa

from airflow_samza.schema import Schema
from airflow_samza.storage.columnar import ColumnarTable
from airflow_samza.storage.local_store import LocalStores
from airflow_samza.storage.memory import MemoryStore
from airflow_samza.storage.rocksdb import RocksStore
from airflow_samza.storage.snapshots import read_snapshot, write_snapshot
from airflow_samza.storage.store import BASE, DELETED, KeyValueStore, StoreLayout
from airflow_samza.systems.filesystems.opening import open_filesystem
from benchmarks.machine import describe_load, describe_machine

LAYOUT = StoreLayout(
    "profiles", Schema.of("member_id bigint"), Schema.of("name string, company string, age int, score double")
)
GOAL = 5.0
DOCS = Path(__file__).parents[1] / "docs" / "operate/restore.md"
PURPOSE = (
    "Use this page to size state. It shows how long a task waits for a large store: on a host that has a copy, "
    "and on one that has none."
)


def snapshot(rows: int) -> pa.Table:
    """Members and their profiles, as a store keeps them."""
    random = np.random.default_rng(3)
    number = np.arange(rows)
    columns = [
        pa.array(number),
        pa.array([f"member-{n}" for n in range(rows)]),
        pa.array([f"company-{n}" for n in random.integers(0, 20_000, rows)]),
        pa.array(random.integers(18, 80, rows).astype("int32")),
        pa.array(random.random(rows)),
    ]
    return pa.Table.from_arrays(columns, schema=LAYOUT.schema)


def changes(rows: int) -> pa.Table:
    """One in a hundred members written again, and some deleted."""
    some = snapshot(rows).take(pa.array(np.arange(0, rows, 100)))
    return some.append_column(DELETED, pa.array([n % 10 == 0 for n in range(some.num_rows)]))


def measured(action: Callable[[], Any], repeat: int) -> float:
    """The best of several times."""
    best = float("inf")
    for _ in range(repeat):
        begin = time.perf_counter()
        made = action()
        best = min(best, time.perf_counter() - begin)
        if hasattr(made, "close"):
            made.close()
    return best


class Restores:
    """The ways back, over files of a snapshot."""

    def __init__(self, rows: int, folder: Path) -> None:
        self.rows = rows
        self._folder = folder
        self._files = open_filesystem(str(folder / "root"))
        self._tables = {BASE: snapshot(rows), "changes-1": changes(rows)}
        self._described = write_snapshot(self._files, "state", {"op": self._tables})
        stores = LocalStores(str(folder / "stores"))
        stores.columnar("profiles", 0, "1", lambda: ColumnarTable.of(self._tables[BASE], ["key.member_id"]))
        with_version = RocksStore(LAYOUT, str(folder / "kept"))
        with_version.restore_kept(self._tables)
        with_version.put(1, ("name", "company", 1, 1.0))
        self._kept = with_version.kept()
        with_version.close()

    def read(self) -> dict[str, pa.Table]:
        """The tables, from checked files."""
        return read_snapshot(self._files, self._described)["op"]

    def into(self, store: KeyValueStore, tables: dict[str, pa.Table]) -> KeyValueStore:
        """A store that has taken over tables; two look-ups say that it has."""
        store.restore_kept(tables)
        if store.get(self.rows - 1) is None or store.get(0) is not None:
            raise SystemExit("what came back is not what was kept")
        return store

    def rocksdb(self) -> KeyValueStore:
        """On a host that has nothing: files read, base loaded in bulk, changes put on top."""
        return self.into(RocksStore(LAYOUT, str(self._folder / "new")), self.read())

    def rocksdb_here(self) -> KeyValueStore:
        """On a host that has the version: a clone of it."""
        store = RocksStore(LAYOUT, str(self._folder / "kept"))
        store.restore_kept(self._kept)
        if store.get(1) is None:
            raise SystemExit("the version is not there")
        return store

    def memory(self) -> KeyValueStore:
        """Into memory."""
        return self.into(MemoryStore(LAYOUT), self.read())

    def one_by_one(self) -> KeyValueStore:
        """Read a changelog message by message, for the cost of it."""
        store = RocksStore(LAYOUT, str(self._folder / "messages"))
        tables = self.read()
        for batch in tables[BASE].to_batches(max_chunksize=65_536):
            for row in batch.to_pylist():
                key, *values = row.values()
                store.put(key, tuple(values))
        return store

    def columnar(self) -> ColumnarTable:
        """A columnar table of a pushed version: rows read and indexed."""
        table = ColumnarTable.of(self.read()[BASE], ["key.member_id"])
        table.find([pa.array([5])])
        return table

    def columnar_here(self) -> ColumnarTable:
        """The same where the host has it: mapped."""
        table = LocalStores(str(self._folder / "stores")).find("profiles", 0, "1")
        if table is None:
            raise SystemExit("the table is not there")
        table.find([pa.array([5])])
        return table


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures how long stores take to come back.")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--write-docs", action="store_true")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="restore-"))
    before = psutil.getloadavg()[0]
    try:
        ways = Restores(arguments.rows, folder)
        found = {
            "RocksDB, a host without it: base in bulk, changes of one row in a hundred on top": measured(
                ways.rocksdb, arguments.repeat
            ),
            "RocksDB, a host that still has the version: a clone by hard links": measured(
                ways.rocksdb_here, arguments.repeat
            ),
            "RocksDB, message by message (for comparison)": measured(ways.one_by_one, 1),
            "in memory, from the same files": measured(ways.memory, arguments.repeat),
            "columnar, a host without it: rows read and indexed": measured(ways.columnar, arguments.repeat),
            "columnar, a host that has it: mapped": measured(ways.columnar_here, arguments.repeat),
        }
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    lines = [f"| a store of {arguments.rows:,} rows comes back | seconds |", "|---|---|"]
    lines += [f"| {what} | {seconds:.2f} |" for what, seconds in found.items()]
    print("\n".join(lines))
    worst = max(seconds for what, seconds in found.items() if "for comparison" not in what)
    print(f"goal: {GOAL} s or less; slowest of ours {worst:.2f} s")
    if arguments.write_docs:
        machine = describe_machine(1) + describe_load(before, psutil.getloadavg()[0])
        head = [
            "# How long a store takes to come back",
            "",
            PURPOSE,
            "",
            f"Written by `python -m benchmarks.restore --write-docs`. {machine}",
            "",
        ]
        DOCS.write_text("\n".join([*head, *lines]) + "\n")


if __name__ == "__main__":
    main()

"""Time until a task's store has come back.

In bulk from its snapshot, with changes on top, and from the version that the host still has.

``python -m benchmarks.restore [--rows 1000000] [--repeat 3] [--write-docs]``. What is measured is everything from the
bytes of checked files on the local disk to the first look-up.

Two further parts stand alone, and give processor seconds beside wall time:

- ``--tables 1000000 5000000``: the tasks of a run whose messages are joined with a table of so many rows, on a host
  that has nothing, and by two further processes of that host.
- ``--side-by-side [FOLDER]``: to open, put and get by the stores, and by slatedb if it is installed there
  (``pip install --target FOLDER slatedb``).
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa

from airflow_samza import stream_application
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.schema import Schema
from airflow_samza.storage.columnar import ColumnarTable
from airflow_samza.storage.local_store import LocalStores
from airflow_samza.storage.memory import MemoryStore
from airflow_samza.storage.rocksdb import RocksStore
from airflow_samza.storage.snapshots import read_snapshot, write_snapshot
from airflow_samza.storage.store import BASE, DELETED, KeyValueStore, StoreLayout
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import SystemBinding
from benchmarks.in_process import InProcess
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
        stores.kept("profiles", 0, "1", ColumnarTable, lambda: ColumnarTable.of(self._tables[BASE], ["key.member_id"]))
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
        table = LocalStores(str(self._folder / "stores")).find("profiles", 0, "1", ColumnarTable)
        if table is None:
            raise SystemExit("the table is not there")
        table.find([pa.array([5])])
        return table


# -- the first message of a task with a large table --------------------------------------------------------------------

PROFILE = "member_id bigint, tier string, age int, score double"


@stream_application("known-views", default_system="log")
def known_views(app: Any) -> None:
    """Views, each beside the profile of its member."""
    views = app.input_stream("views", schema="member_id bigint, page string", key="member_id")
    changes = app.side_input("profile-changes", schema=PROFILE, key="member_id")
    profiles = app.table("profiles", key="member_id", side_inputs=[changes])
    views.join(profiles, how="left", id="with-profile").send_to(app.output_stream("scored", key="member_id"))


def write_table(root: str, rows: int, messages: int) -> None:
    """Write profiles of members whose numbers are far apart, and views of some of them, in one partition."""
    log = LogSystem("log", SystemBinding("log", {"root": root}))
    random, tiers = np.random.default_rng(1), pa.array(["gold", "silver", "bronze", "none"])

    def members(numbers: Any) -> pa.Array:
        return pa.array((numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)).view(np.int64))

    def profiles() -> Iterator[pa.RecordBatch]:
        order = random.permutation(rows)
        for numbers in np.array_split(order, max(1, rows // 500_000)):
            columns = [
                members(numbers),
                tiers.take(pa.array(numbers % 4)),
                pa.array((numbers % 80).astype("i4")),
                pa.array(random.random(len(numbers))),
            ]
            yield pa.record_batch(columns, schema=Schema.of(PROFILE).to_arrow())

    log.append("profile-changes", profiles(), key=["member_id"], partitions=1)
    seen = members(random.integers(0, rows, messages))
    log.append("views", pa.table({"member_id": seen, "page": ["p"] * messages}), key=["member_id"], partitions=1)


def first_messages(root: str, run: str, host: str) -> None:
    """Run the tasks in this process, which ends then, and print what they took."""
    here = InProcess(Path(root), {})
    application = "benchmarks.restore:known_views"
    plan = here.runtime.prepare(RunRequest(application, run, config={"job.store.local.dir": host}))
    before = time.process_time()
    seconds = here.run_stage(plan, plan.plan.stages[0].stage_id).seconds["tasks"]
    status = Path("/proc/self/status").read_text().splitlines()
    own, *shared = (int(line.split()[1]) for line in status if line.startswith("Rss"))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    used = time.process_time() - before
    print(json.dumps([seconds, used, own >> 10, sum(shared) >> 10, peak >> 10]))


def measure_tables(sizes: list[int], messages: int, folder: Path) -> None:
    """Print what the first and the next processes of a host take."""
    print(
        "| rows | | seconds | processor seconds | own memory, MiB | mapped, MiB | at most, MiB |\n"
        "|---|---|---|---|---|---|---|"
    )
    for rows in sizes:
        root, host = folder / f"root-{rows}", folder / f"host-{rows}"
        write_table(str(root), rows, messages)
        for run in ("a new host", "the same host", "again"):
            command = [
                sys.executable,
                "-m",
                "benchmarks.restore",
                "--child",
                str(root),
                run.replace(" ", "-"),
                str(host),
            ]
            text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            seconds, used, *memory = json.loads(text)
            print(f"| {rows:,} | {run} | {seconds:.2f} | {used:.2f} | {' | '.join(map(str, memory))} |", flush=True)
        shutil.rmtree(root)
        shutil.rmtree(host)


# -- stores side by side -----------------------------------------------------------------------------------------------

_ASKED = 100_000
_SLATE_ROWS = 20_000
"""Rows for slatedb: a hundred times as many take minutes."""


def side_by_side(rows: int, slatedb: str, folder: Path) -> None:
    """Print the microseconds of a processor that each store takes for a row."""
    print(f"load {psutil.getloadavg()[0]:.1f}\n| {rows:,} rows | open, ms | put, µs | get, µs |\n|---|---|---|---|")
    base = snapshot(rows)
    keys = base.column(0).to_pylist()
    values = list(zip(*(column.to_pylist() for column in base.columns[1:]), strict=True))
    asked = np.random.default_rng(5).integers(0, rows, _ASKED)

    def shown(name: str, opened: float, put: float, got: float, count: int = rows, looked_up: int = _ASKED) -> None:
        print(f"| {name} | {1000 * opened:.1f} | {1e6 * put / count:.2f} | {1e6 * got / looked_up:.2f} |", flush=True)

    entries = list(zip(keys, values, strict=True))
    shown("RocksDB", *_entries(RocksStore(LAYOUT, str(folder / "rocks")), entries, asked.tolist()))
    shown("memory", *_entries(MemoryStore(LAYOUT), entries, asked.tolist()))
    spread = base.set_column(0, base.schema.field(0), pa.array(np.arange(rows) * 1_000_003))
    stores = LocalStores(str(folder / "columns"))
    shown("columns, keys close together", *_columns(stores, "close", base, asked))
    shown("columns, keys far apart", *_columns(stores, "apart", spread, asked))
    if slatedb:
        sys.path.insert(0, slatedb)
        asyncio.run(_slate(folder / "slate", shown))


def _entries(store: KeyValueStore, entries: list[Any], asked: list[Any]) -> tuple[float, float, float]:
    def put_all() -> None:
        for key, value in entries:
            store.put(key, value)

    opened = used(lambda: store.get(0))
    put = used(put_all)
    got = used(lambda: store.get_all(asked))
    store.close()
    return opened, put, got


def _columns(stores: LocalStores, name: str, rows: pa.Table, asked: Any) -> tuple[float, float, float]:
    wanted = [rows.column(0).combine_chunks().take(pa.array(asked))]
    put = used(lambda: stores.kept(name, 0, "1", ColumnarTable, lambda: ColumnarTable.of(rows, ["key.member_id"])))
    opened = used(lambda: stores.find(name, 0, "1", ColumnarTable))
    table = stores.find(name, 0, "1", ColumnarTable)
    assert table is not None
    return opened, put, used(lambda: table.rows.take(pa.array(table.find(wanted))))


def used(action: Callable[[], Any]) -> float:
    """Return the seconds of a processor that an action takes."""
    before = time.process_time()
    action()
    return time.process_time() - before


async def _slate(folder: Path, shown: Callable[..., None]) -> None:
    slate = importlib.import_module("slatedb.uniffi")

    folder.mkdir()
    keys, value = [n.to_bytes(8, "big") for n in range(_SLATE_ROWS)], b"x" * 40
    before = time.process_time()
    db = await slate.DbBuilder(str(folder).strip("/"), slate.ObjectStore.resolve("file:///")).build()
    opened, before = time.process_time() - before, time.process_time()
    for start in range(0, _SLATE_ROWS, 10_000):
        batch = slate.WriteBatch()
        for key in keys[start : start + 10_000]:
            batch.put(key, value)
        await db.write(batch)
    await db.flush()
    put, before = time.process_time() - before, time.process_time()
    for start in range(0, _SLATE_ROWS, 1000):
        await asyncio.gather(*(db.get(key) for key in keys[start : start + 1000]))
    got = time.process_time() - before
    await db.shutdown()
    shown(f"slatedb on a folder ({_SLATE_ROWS:,} rows)", opened, put, got, _SLATE_ROWS, _SLATE_ROWS)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures how long stores take to come back.")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--write-docs", action="store_true")
    parser.add_argument("--tables", type=int, nargs="+", metavar="ROWS")
    parser.add_argument("--messages", type=int, default=1000)
    parser.add_argument("--side-by-side", nargs="?", const="", metavar="FOLDER")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        first_messages(*arguments.child)
        return
    folder = Path(tempfile.mkdtemp(prefix="restore-"))
    before = psutil.getloadavg()[0]
    try:
        if arguments.tables or arguments.side_by_side is not None:
            if arguments.tables:
                measure_tables(arguments.tables, arguments.messages, folder)
            if arguments.side_by_side is not None:
                side_by_side(arguments.rows, arguments.side_by_side, folder)
            print(f"load {before:.0f} before, {psutil.getloadavg()[0]:.0f} after")
            return
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

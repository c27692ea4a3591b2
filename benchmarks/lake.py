"""Measures lakehouse tables beside PySpark with the formats' connectors, and beside Polars; writes its page of docs.

``python -m benchmarks.lake --work DIR [--rows 5000000] [--rounds 3] [--kinds iceberg delta] [--write-docs]``. All read
the same tables, and append to new ones of their own, in turn: whatever else the machine does hits all of them. Results
are compared row by row. Nothing of the package or the benchmarks may be edited meanwhile: workers of changed code start
anew. Environments and jars of the peers stay under DIR; all else is deleted at the end. Figures over another number of
rows stay on the page, until ``benchmarks-lake.json`` is deleted.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Protocol

import psutil
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.schema import Schema
from airflow_samza.systems.system import SystemBinding
from benchmarks import report
from benchmarks.applications import PAGE_VIEWS
from benchmarks.arguments import made_folder
from benchmarks.gen_data import page_views
from benchmarks.lake_workloads import DAYS, PEERS, PER_PAGE, WORKLOADS
from benchmarks.machine import describe_load, describe_machine
from benchmarks.measuring import Measured, Meter
from benchmarks.peer_process import Missing, PeerProcess
from benchmarks.results import OURS, Report, WorkloadResult
from benchmarks.run import in_one_order, reject_different
from benchmarks.warm import end_warm_runners

PAGE = report.DOCS / "project/benchmarks-lake.md"

NAMES = list(dict.fromkeys(name.partition(" ")[0] for name in WORKLOADS))
"""The workloads, each of which is over tables of each kind."""

_COMMITS = 8
"""Commits by which the table of views is filled, each of a file."""


class Tables(Protocol):
    """Tables in a folder, as the format's own library makes and reads them."""

    def create(self, name: str, schema: pa.Schema) -> None:
        """Make an empty table."""

    def append(self, name: str, rows: pa.Table) -> None:
        """Append rows in one commit."""

    def rows(self, name: str) -> pa.Table:
        """Return all rows."""


class IcebergTables:
    """Tables of an embedded catalog, by pyiceberg."""

    def __init__(self, folder: Path) -> None:
        from pyiceberg.catalog import load_catalog

        folder.mkdir(parents=True)
        where = {"uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}"}
        self._catalog = load_catalog("default", type="sql", **where)
        self._catalog.create_namespace("bench")

    def create(self, name: str, schema: pa.Schema) -> None:
        """Make an empty table."""
        self._catalog.create_table(f"bench.{name}", schema)

    def append(self, name: str, rows: pa.Table) -> None:
        """Append rows in one commit."""
        self._catalog.load_table(f"bench.{name}").append(rows)

    def rows(self, name: str) -> pa.Table:
        """Return all rows."""
        return self._catalog.load_table(f"bench.{name}").scan().to_arrow()


class DeltaTables:
    """Tables in folders, by the package deltalake."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "bench"

    def create(self, name: str, schema: pa.Schema) -> None:
        """Make an empty table."""
        from deltalake import DeltaTable

        DeltaTable.create(str(self._folder / name), schema)

    def append(self, name: str, rows: pa.Table) -> None:
        """Append rows in one commit."""
        from deltalake import write_deltalake

        write_deltalake(str(self._folder / name), rows, mode="append")

    def rows(self, name: str) -> pa.Table:
        """Return all rows."""
        from deltalake import DeltaTable

        return DeltaTable(str(self._folder / name)).to_pyarrow_table()


TABLES: dict[str, Callable[[Path], Tables]] = {"iceberg": IcebergTables, "delta": DeltaTables}


class Lake:
    """The tables of one kind that all contenders read, and those to which each of them appends."""

    def __init__(self, kind: str, folder: Path, rows: int) -> None:
        self.folder = folder
        self._tables = TABLES[kind](folder / "lake")
        self._views = page_views(rows)
        self.file = folder / "views.parquet"
        pq.write_table(self._views, self.file, row_group_size=max(1, rows // _COMMITS))
        for name in ("views", "days"):
            self._tables.create(name, self._views.schema)
            for part in range(_COMMITS):
                begin, end = part * rows // _COMMITS, (part + 1) * rows // _COMMITS
                self._tables.append(name, self._views.slice(begin, end - begin))

    def add_day(self) -> None:
        """Append the views of a day to the table that grows."""
        self._tables.append("days", self._views.slice(0, self._views.num_rows // DAYS))

    def prepare(self, workload: str, out: str) -> tuple[str, str]:
        """Make the output of a run that is new; return where the workload reads, and where it writes."""
        if workload == "scan":
            return "bench.views", str(self.folder / "out" / out)
        self._tables.create(out, Schema.of(PER_PAGE if workload == "aggregate" else PAGE_VIEWS).to_arrow())
        return str(self.file) if workload == "append" else f"bench.{_source(workload)}", f"bench.{out}"

    def result(self, workload: str, out: str) -> pa.Table:
        """Return the rows that a run has written, in one order."""
        if workload == "scan":
            files = [str(path) for path in (self.folder / "out" / out).rglob("part-*.parquet") if path.stat().st_size]
            return in_one_order(ds.dataset(files, format="parquet").to_table())
        return in_one_order(self._tables.rows(out))


def _source(workload: str) -> str:
    return "days" if workload == "day" else "views"


def started_with(folder: str) -> Iterator[int]:
    """Return the processes whose folder for temporary files is this one: those that runs have started."""
    for process in psutil.process_iter(["pid", "environ"]):
        if (process.info["environ"] or {}).get("TMPDIR") == folder:
            yield process.info["pid"]


class OnWarmRunner:
    """Runs of the applications: each is one of its own, from its plan to its end, and takes the warm runner."""

    def __init__(self, kind: str, lake: Lake, work: Path, cores: int) -> None:
        bindings = {
            "lake": SystemBinding("files", {"root": str(lake.folder)}),
            "tables": SystemBinding(kind, {"root": str(lake.folder / "lake")}),
            "results": SystemBinding("files", {"root": str(lake.folder / "out")}),
        }
        self._runtime = SparkRuntime(
            str(work / f"{kind}-root"),
            bindings,
            master=f"local[{cores}]",
            warm_runners="1,idle=600,runs=1000,memory=9000",
        )
        self._views = lake.file.name
        self._folder = os.environ["TMPDIR"]

    def run(self, workload: str, out: str) -> tuple[Measured, dict[str, float]]:
        """Return what a run took, and the seconds of its plan and of each stage."""
        with Meter(lambda: started_with(self._folder), children=False) as meter:
            begin = time.perf_counter()
            request = RunRequest(WORKLOADS[workload].application, out, config={"views": self._views, "out": out})
            run = self._runtime.prepare(request)
            stages = {"plan": round(time.perf_counter() - begin, 3)}
            for stage in run.plan.stages:
                begin = time.perf_counter()
                self._runtime.run_stage(run, stage.stage_id)
                stages[stage.stage_id] = round(time.perf_counter() - begin, 3)
        self._runtime.close(run, wait_seconds=30)
        return meter.result, stages


def measure(
    kind: str, name: str, lake: Lake, rows: int, rounds: int, ours: OnWarmRunner, peers: Mapping[str, PeerProcess]
) -> WorkloadResult:
    """Let everybody do a workload in turn; the first round warms up and does not count."""
    workload, title = name, f"{name} {kind}"
    runs: dict[str, list[Measured]] = {OURS: [], **{peer: [] for peer in peers}}
    stages: list[dict[str, float]] = []
    for number in range(rounds + 1):
        if workload == "day":
            lake.add_day()
        outs = {who: f"{workload}_{who.replace('-', '_')}_{number}" for who in runs}
        for who, out in outs.items():
            source, place = lake.prepare(workload, out)
            if who == OURS:
                result, times = ours.run(title, out)
                stages.append(times)
            else:
                with Meter(lambda pid=peers[who].pid: [pid], children=False) as meter:  # type: ignore[misc]
                    peers[who].ask(workload, f"{source}>{place}", rows)
                result = meter.result
            said = {"workload": title, "who": who, "seconds": round(result.seconds, 3), "warm": number > 0}
            print(json.dumps({**said, "cpu_seconds": round(result.cpu_seconds, 2)}), flush=True)
            if number:
                runs[who].append(result)
        print(json.dumps({"stages": stages[-1]}), flush=True)
        expected = lake.result(workload, outs[OURS])
        for peer in peers:
            reject_different(title, peer, expected, lake.result(workload, outs[peer]))
    best = min(range(rounds), key=lambda place: runs[OURS][place].seconds)
    return WorkloadResult(title, rows, runs, stages[best + 1])


@contextmanager
def temporary_folder(folder: Path) -> Iterator[None]:
    """Have what is started meanwhile put its temporary files there."""
    before = os.environ.get("TMPDIR")
    folder.mkdir()
    os.environ["TMPDIR"], tempfile.tempdir = str(folder), None
    try:
        yield
    finally:
        end_warm_runners(folder)
        tempfile.tempdir = None
        if before is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = before


def measure_kind(kind: str, asked: argparse.Namespace, work: Path) -> Iterator[tuple[WorkloadResult, list[str]]]:
    """Yield the result of each workload over tables of a kind, with the releases of the peers."""
    with ExitStack() as held:
        folder = Path(tempfile.mkdtemp(prefix="lake-", dir=work))
        held.callback(shutil.rmtree, folder, ignore_errors=True)
        lake = Lake(kind, folder, asked.rows)
        peers = {}
        for peer in PEERS[kind]:
            try:
                peers[peer.name] = PeerProcess(peer, work, str(folder / "lake"), asked.cores)
                held.callback(peers[peer.name].close)
            except Missing as error:
                print(error, flush=True)
        held.enter_context(temporary_folder(folder / "t"))
        ours = OnWarmRunner(kind, lake, folder, asked.cores)
        for name in asked.workloads:
            result = measure(kind, name, lake, asked.rows, asked.rounds, ours, peers)
            yield result, [peer.versions for peer in peers.values()]


def main() -> None:
    """Measure, print the table, and write the page where that is asked for: after each workload, as they take long."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=made_folder, required=True, help="where the peers' environments stay")
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--kinds", nargs="+", choices=list(PEERS), default=list(PEERS))
    parser.add_argument("--workloads", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--write-docs", action="store_true")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ended by whatever: all that was started ends, too
    before = os.getloadavg()[0]
    versions: dict[str, None] = {}
    results: list[WorkloadResult] = []
    for kind in asked.kinds:
        for result, releases in measure_kind(kind, asked, asked.work):
            results.append(result)
            versions.update(dict.fromkeys(releases))
            load = describe_load(before, os.getloadavg()[0])
            machine = f"{describe_machine(asked.cores)}, {', '.join(versions)}{load}"
            found = Report(machine, time.strftime("%Y-%m-%d"), results)
            print("\n".join(report.table(found, WORKLOADS)), flush=True)
            if asked.write_docs:
                report.write_figures(found, PAGE, PAGE.with_suffix(".json"), WORKLOADS, sizes=True)


if __name__ == "__main__":
    main()

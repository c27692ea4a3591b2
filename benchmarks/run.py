"""Runs the workloads through the local runtime and prints one JSON line for each.

``python -m benchmarks.run --workload W1 W2 --data DIR --rows 5000000 --repeat 5 [--peers]``. A repetition is the whole of a run:
planned anew, every stage submitted to the warm server and finished, the output published. The best of K counts; CPU and memory
are those of this process and of the server with all below it. ``--peers`` measures the same in plain PySpark afterwards and
compares the results row by row.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from airflow_samza.runs.run_plan import RunPlan
from airflow_samza.spark.runtime import LocalRuntime
from airflow_samza.systems.system import SystemBinding
from benchmarks.gen_data import ensure_data
from benchmarks.measuring import Measured, Meter, report
from benchmarks.peers.spark import WORKLOADS

APPLICATIONS = {"W1": ("benchmarks.applications:w1", "slow-views"), "W2": ("benchmarks.applications:w2", "views-per-page")}
"""Of each workload the application and its output."""


class Servers:
    """The process ids of the Spark servers that were started for a root; looked for until there is one, as looking costs CPU."""

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self._found: list[int] = []

    def __call__(self) -> list[int]:
        """The ids; empty before the first server is up."""
        if not any(psutil.pid_exists(pid) for pid in self._found):
            self._found = [int(p.info["pid"]) for p in psutil.process_iter(["pid", "cmdline"]) if self._is_ours(p.info["cmdline"] or [])]
        return self._found

    def _is_ours(self, words: list[str]) -> bool:
        return "airflow_samza.spark.server" in words and any(self._root in word for word in words)


def run_workload(workload: str, views: Path, rows: int, repeat: int, cores: int, work: Path) -> Path:
    """Runs one workload and prints its line; returns the directory of its output."""
    application, output = APPLICATIONS[workload]
    root = work / f"root-{workload}"
    shutil.rmtree(root, ignore_errors=True)  # run records of an earlier benchmark would be taken up
    bindings = {
        "lake": SystemBinding("files", {"root": str(views.parent)}),
        "results": SystemBinding("files", {"root": str(work / "samza")}),
    }
    runtime = LocalRuntime(str(root), bindings, master=f"local[{cores}]")
    servers = Servers(root)
    runs: list[Measured] = []
    stages: list[dict[str, float]] = []
    run: RunPlan | None = None
    try:
        for number in range(1, repeat + 1):  # the first one starts the server, so the best is a later one
            with Meter(servers) as meter:
                begin = time.perf_counter()
                run = runtime.prepare(application, "bench", generation=number, config={"views": views.name})
                seconds = {"plan": round(time.perf_counter() - begin, 3)}
                for stage in run.plan.stages:
                    begin = time.perf_counter()
                    result = runtime.run_stage(run, stage.stage_id)
                    seconds[stage.stage_id] = round(time.perf_counter() - begin, 3)
                    seconds[f"{stage.stage_id} (tasks)"] = round(result.task_seconds, 3)
            runs.append(meter.result)
            stages.append(seconds)
    finally:
        if run is not None:
            runtime.close(run, wait_seconds=30)
    best = min(range(len(runs)), key=lambda place: runs[place].seconds)
    report("airflow_samza", workload, rows, runs, stages=stages[best])
    return work / "samza" / output


def run_peers(workloads: list[str], views: Path, rows: int, repeat: int, cores: int, work: Path) -> None:
    """Runs the peers in a process of their own; they print their lines."""
    names = [peer for workload in workloads for peer in WORKLOADS[workload]]
    command = [sys.executable, "-m", "benchmarks.peers.spark", *names, "--data", str(views.parent), "--rows", str(rows)]
    options = ["--repeat", str(repeat), "--cores", str(cores), "--out", str(work / "peers")]
    subprocess.run([*command, *options], check=True)


def rows_of(directory: Path) -> pa.Table:
    """The rows of a directory of Parquet files, in one order, the columns by position."""
    table = pa.concat_tables(pq.read_table(path) for path in sorted(directory.glob("part-*.parquet")))
    table = table.rename_columns([f"c{place}" for place in range(table.num_columns)])
    table = table.cast(pa.schema([pa.field(field.name, field.type) for field in table.schema])).replace_schema_metadata()
    return table.sort_by([(name, "ascending") for name in table.column_names]).combine_chunks()


def check_equal(workload: str, ours: Path, work: Path) -> None:
    """Compares our output with each peer's; any difference ends the benchmark."""
    expected = rows_of(ours)
    for peer in WORKLOADS[workload]:
        found = rows_of(work / "peers" / peer)
        if not found.equals(expected):
            raise SystemExit(f"{workload}: the output differs from {peer}'s ({expected.num_rows} and {found.num_rows} rows)")
        print(json.dumps({"check": workload, "peer": peer, "rows": found.num_rows, "equal": True}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures the workloads.")
    parser.add_argument("--workload", action="extend", nargs="+", choices=sorted(APPLICATIONS), default=[])
    parser.add_argument("--data", required=True, type=Path, help="made there if it is missing")
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--out", type=Path, help="where roots and outputs lie afterwards; by default nothing is kept")
    parser.add_argument("--peers", action="store_true", help="measure plain PySpark, too, and compare the results")
    arguments = parser.parse_args()
    workloads = list(dict.fromkeys(arguments.workload)) or sorted(APPLICATIONS)
    views = ensure_data(arguments.data.resolve(), arguments.rows)
    work = (arguments.out or Path(tempfile.mkdtemp(prefix="samza-bench-"))).resolve()
    shutil.rmtree(work / "samza", ignore_errors=True)
    try:
        outputs = {
            workload: run_workload(workload, views, arguments.rows, arguments.repeat, arguments.cores, work) for workload in workloads
        }
        if arguments.peers:
            run_peers(workloads, views, arguments.rows, arguments.repeat, arguments.cores, work)
            for workload, output in outputs.items():
                check_equal(workload, output, work)
    finally:
        if arguments.out is None:
            shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()

"""Runs over files that keep coming, beside Spark's own file source with ``availableNow``; each with its checkpoint.

``python -m benchmarks.new_files --work DIR [--runs 5] [--small 200] [--large 2]``. Before each run so many small files
(1,000 rows) and large ones (500,000 rows) are put into a folder; then ours and the peer read what is new, in turn. Each
run starts a Spark of its own, as a scheduled run does.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import pyarrow.dataset as ds
import pyarrow.parquet as pq

from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.systems.system import SystemBinding
from benchmarks.arguments import made_folder
from benchmarks.gen_data import page_views
from benchmarks.machine import describe_load, describe_machine

SMALL_ROWS, LARGE_ROWS = 1_000, 500_000


@dataclass(frozen=True)
class Run:
    """Seconds of one run: of all, and without the start of a Spark."""

    seconds: float
    work: float


def put_files(folder: Path, run: int, small: int, large: int) -> int:
    """Put the files of a run into the folder, each at once; return the rows."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(small + large):
        rows = SMALL_ROWS if number < small else LARGE_ROWS
        table = page_views(rows, seed=run * 10_000 + number)
        hidden = folder / f".{run}-{number}"
        pq.write_table(table, hidden, row_group_size=125_000)
        os.rename(hidden, folder / f"{run:03}-{number:05}.parquet")
    return small * SMALL_ROWS + large * LARGE_ROWS


def ours(work: Path, run: int, cores: int) -> Run:
    """One run of the application, from its plan to its end."""
    bindings = {
        "lake": SystemBinding("files", {"root": str(work)}),
        "results": SystemBinding("files", {"root": str(work / "ours")}),
    }
    begin = time.perf_counter()
    runtime = SparkRuntime(str(work / "root"), bindings, master=f"local[{cores}]")
    plan = runtime.prepare(RunRequest("benchmarks.applications:new_files", f"run-{run}"))
    planned = time.perf_counter() - begin
    try:
        results = [runtime.run_stage(plan, stage.stage_id) for stage in plan.plan.stages]
    finally:
        runtime.close(plan, wait_seconds=30)
    took = time.perf_counter() - begin
    return Run(took, planned + sum(result.seconds for result in results))


def peer(work: Path, cores: int) -> Run:
    """One run of Spark's own source."""
    begin = time.perf_counter()
    places = [str(work / "in"), str(work / "peer"), str(work / "checkpoint"), str(cores)]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.peers.new_files", *places], check=True, capture_output=True, text=True
    )
    return Run(time.perf_counter() - begin, float(done.stdout.split()[-1]))


def rows_of(folder: Path, files: str) -> int:
    """The rows of the Parquet files of a folder."""
    found = sorted(str(path) for path in folder.glob(files) if path.stat().st_size)
    return int(ds.dataset(found, format="parquet").count_rows())


def measure(work: Path, runs: int, small: int, large: int, cores: int) -> dict[str, list[Run]]:
    """Runs of both, in turn, each over the files that came before it."""
    found: dict[str, list[Run]] = {"ours": [], "peer": []}
    for run in range(runs):
        put_files(work / "in", run, small, large)
        for name in ("ours", "peer") if run % 2 == 0 else ("peer", "ours"):
            taken = ours(work, run, cores) if name == "ours" else peer(work, cores)
            found[name].append(taken)
            print(json.dumps({"run": run, "who": name, **taken.__dict__}), flush=True)
    mine, theirs = rows_of(work / "ours" / "out", "*.parquet"), rows_of(work / "peer", "*.parquet")
    if mine != theirs:
        raise SystemExit(f"Ours wrote {mine} rows, the peer {theirs}.")
    return found


def main() -> None:
    """Measure, and print medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=made_folder)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--small", type=int, default=200)
    parser.add_argument("--large", type=int, default=2)
    parser.add_argument("--cores", type=int, default=2)
    asked = parser.parse_args()
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(dir=asked.work) as folder:
        found = measure(Path(folder), asked.runs, asked.small, asked.large, asked.cores)
    print(describe_machine(asked.cores), describe_load(before, os.getloadavg()[0]))
    for name, runs in found.items():
        whole, work = (statistics.median(getattr(run, part) for run in runs) for part in ("seconds", "work"))
        print(f"{name}: median {whole:.2f} s, of which {work:.2f} s without the start of a Spark")


if __name__ == "__main__":
    main()

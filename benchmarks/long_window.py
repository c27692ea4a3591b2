"""Daily runs over the last 90 days, of which each day is computed once, beside one run that computes all of them.

``python -m benchmarks.long_window --work DIR [--runs 30] [--days 90] [--rows 200000] [--pages 1000]``. A file for each
day, then so many daily runs, in process and without Spark: rows that were read, seconds and processor seconds of each.
The first run computes the whole window. The last is repeated under an empty root, and the results are compared row by
row.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.runs.records.data_interval import DataInterval
from airflow_samza.systems.system import SystemBinding
from benchmarks.arguments import made_folder
from benchmarks.gen_data import page_views
from benchmarks.in_process import InProcess
from benchmarks.machine import describe_load, describe_machine

FIRST = datetime(2026, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class Run:
    """One daily run: rows read, parts of days used and read, seconds and processor seconds."""

    rows: int
    used: int
    made: int
    seconds: float
    processor: float


def put_days(folder: Path, days: int, rows: int, pages: int) -> None:
    """Write a file for each day that is not there yet."""
    for number in range(days):
        path = folder / f"{FIRST + timedelta(days=number):%Y-%m-%d}" / "views.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            pq.write_table(page_views(rows, pages=pages, seed=number), path, row_group_size=100_000)


def run_day(here: InProcess, number: int, days: int) -> Run:
    """Run the window that ends with a day, from the plan to the end."""
    begin, processor = time.perf_counter(), time.process_time()
    interval = DataInterval(FIRST + timedelta(days=number), FIRST + timedelta(days=number + 1))
    config = {"intervals": str(days)}
    request = RunRequest("benchmarks.applications:long_window", f"day-{number}", config=config, interval=interval)
    run = here.runtime.prepare(request)
    stages = [here.run_stage(run, stage.stage_id) for stage in run.plan.stages]
    here.runtime.close(run)
    first = stages[0].result
    used, made = (int(first.task_facts.get(f"interval_results_{what}", 0)) for what in ("used", "made"))
    return Run(first.read, used, made, time.perf_counter() - begin, time.process_time() - processor)


def results(folder: Path, number: int) -> pa.Table:
    """Return what a run has written, by page."""
    files = sorted(str(path) for path in (folder / f"{FIRST + timedelta(days=number):%Y-%m-%d}").glob("*.parquet"))
    return ds.dataset(files, format="parquet").to_table().sort_by("page_id")


def main() -> None:
    """Measure, compare, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=made_folder)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--days", type=int, default=90)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--pages", type=int, default=1_000)
    asked = parser.parse_args()
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        work = asked.work or Path(folder)
        put_days(work / "in", asked.days + asked.runs - 1, asked.rows, asked.pages)
        found: list[Run] = []
        last = asked.days + asked.runs - 2
        for number in range(asked.days - 1, last + 1):
            found.append(run_day(_here(work, "shared"), number, asked.days))
            print(json.dumps({"day": number, **asdict(found[-1])}), flush=True)
        anew = run_day(_here(work, "anew"), last, asked.days)
        print(json.dumps({"day": last, "anew": True, **asdict(anew)}), flush=True)
        if not results(work / "shared-out", last).equals(results(work / "anew-out", last)):
            raise SystemExit("The last run wrote something else than a recomputation.")
    print(describe_machine(1), describe_load(before, os.getloadavg()[0]))
    for name in ("rows", "seconds", "processor"):
        of_runs, of_one = sum(getattr(run, name) for run in found), getattr(anew, name)
        print(f"{name}: {asked.runs} runs {of_runs:,.1f}, one anew {of_one:,.1f}: {of_runs / of_one:.2f} times one")


def _here(work: Path, name: str) -> InProcess:
    lake = {
        "lake": SystemBinding("files", {"root": str(work)}),
        "results": SystemBinding("files", {"root": str(work / f"{name}-out")}),
    }
    return InProcess(work / name, lake)


if __name__ == "__main__":
    main()

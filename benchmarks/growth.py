"""A thousand small runs of one application, without Spark, each followed by its sweep.

How many files and bytes lie under the root.

Run it with ``python -m benchmarks.growth [RUNS]``. The topics of the user (the input and the output) grow with what is
written to them, and are counted apart.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from airflow_samza.runs.upkeep.keep import Keep
from tests.support.runs_here import Here

APPLICATION = "tests.support.carrying_apps:joining"
"""Two inputs that go on, two topics of the run's own, a join that keeps state."""

OF_THE_USER = ("clicks", "views", "joined")
CLICK = pa.schema([("member", pa.int64()), ("page", pa.string()), ("n", pa.int64())])
VIEW = pa.schema([("member", pa.int64()), ("seconds", pa.int64())])
STEP = 100


@dataclass(frozen=True)
class Size:
    """Files and bytes under a root after ``runs`` runs.

    Files and bytes of ours, files of the user's topics, and what a sweep took at most.
    """

    runs: int
    files: int
    bytes: int
    user_files: int
    sweep_seconds: float
    on_record: int


def measured(root: Path, runs: int, keep: Keep, step: int = STEP) -> Iterator[Size]:
    """Runs so many runs under a root, and yields its size after every ``step`` of them."""
    here = Here(root)
    slowest = 0.0
    for run in range(runs):
        clicks = [{"member": run % 7, "page": f"p{run}", "n": run}]
        here.log.append("clicks", pa.Table.from_pylist(clicks, CLICK), key=["member"], partitions=1)
        here.log.append(
            "views", pa.Table.from_pylist([{"member": run % 7, "seconds": run}], VIEW), key=["member"], partitions=1
        )
        plan = here.plan(APPLICATION, f"run-{run:05}")
        here.stages(plan)
        here.runtime.close(plan, keep_seconds=-1.0)
        began = time.perf_counter()
        here.runtime.upkeep.sweep(plan.application, keep)
        slowest = max(slowest, time.perf_counter() - began)
        if (run + 1) % step == 0:
            yield _size(root, run + 1, slowest, len(here.log.filesystem.list(f"runs/{plan.application}")))
            slowest = 0.0


def _size(root: Path, runs: int, slowest: float, on_record: int) -> Size:
    files = total = user = 0
    for folder, _, names in os.walk(root):
        place = Path(folder).relative_to(root).parts
        if place[:1] == ("topics",) and place[1:2] and place[1] in OF_THE_USER:
            user += len(names)
            continue
        files += len(names)
        total += sum((Path(folder) / name).stat().st_size for name in names)
    return Size(runs, files, total, user, slowest, on_record)


def main(runs: int) -> None:
    """Prints a table, with few runs on record and with the default number of them."""
    for keep in (Keep(runs=20), Keep()):
        print(f"keep_runs = {keep.runs}")
        print("| runs | on record | files | MB | files of the user's topics | slowest sweep |")
        print("|---|---|---|---|---|---|")
        with tempfile.TemporaryDirectory() as folder:
            for size in measured(Path(folder), runs, keep, min(runs, STEP)):
                print(
                    f"| {size.runs:,} | {size.on_record} | {size.files:,} | {size.bytes / 1e6:.1f} | "
                    f"{size.user_files:,} | "
                    f"{size.sweep_seconds:.2f} s |",
                    flush=True,
                )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)

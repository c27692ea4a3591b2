"""The check of keys behind a callable (rule P11), in W2 and W4: the same stage with it and without, in turn.

``python -m benchmarks.key_checks --work DIR [--rows 4000000] [--rounds 5]``. Both have a callable that changes nothing
behind the re-partition, so that nobody can know where keys lie; without the check, ``assume_partitioned_by=`` says so.
Stages run task by task in this process, and seconds are those of the processor.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa

from airflow_samza import count, stream_application, tumbling
from airflow_samza.systems.system import SystemBinding
from benchmarks.applications import PAGE_VIEWS, page_views, results
from benchmarks.arguments import made_folder
from benchmarks.gen_data import ensure_data
from benchmarks.in_process import InProcess
from benchmarks.machine import describe_load, describe_machine


def _same(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


def _w2(app: Any, **more: Any) -> None:
    pages = page_views(app).partition_by("page_id", id="by-page").map_batches(_same, schema=PAGE_VIEWS)
    pages.aggregate("page_id", id="per-page", views=count(), **more).send_to(results(app, "views-per-page"))


def _w4(app: Any, **more: Any) -> None:
    views = page_views(app, timestamp="ts").partition_by("country", id="by-country")
    same = views.map_batches(_same, schema=PAGE_VIEWS)
    windows = same.window(tumbling("1 minute"), key="country", id="per-minute", views=count(), **more)
    windows.send_to(results(app, "views-per-minute"))


@stream_application("keys-w2")
def w2(app: Any) -> None:
    """W2 with the check."""
    _w2(app)


@stream_application("keys-w2-assumed")
def w2_assumed(app: Any) -> None:
    """W2 without it."""
    _w2(app, assume_partitioned_by="page_id")


@stream_application("keys-w4")
def w4(app: Any) -> None:
    """W4 with the check."""
    _w4(app)


@stream_application("keys-w4-assumed")
def w4_assumed(app: Any) -> None:
    """W4 without it."""
    _w4(app, assume_partitioned_by="country")


def seconds(work: Path, views: Path, application: str) -> float:
    """Return the seconds of the processor that the stage behind the re-partition takes."""
    with tempfile.TemporaryDirectory(dir=work) as folder:
        Path(folder, "results").mkdir()
        places = {"lake": views.parent, "results": Path(folder, "results")}
        bindings = {name: SystemBinding("files", {"root": str(place)}) for name, place in places.items()}
        here = InProcess(Path(folder) / "root", bindings)
        run = here.prepare(f"benchmarks.key_checks:{application}", {"views": views.name})
        first, second = (stage.stage_id for stage in run.plan.stages)
        here.run_stage(run, first)
        began = time.process_time()
        here.run_stage(run, second)
        return time.process_time() - began


def main() -> None:
    """Print a line for each workload."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=made_folder, required=True)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    views = ensure_data(given.work, given.rows)
    before = psutil.getloadavg()[0]
    for workload in ("w2", "w4"):
        found: dict[str, list[float]] = {workload: [], f"{workload}_assumed": []}
        for number in range(given.rounds + 1):
            for name in found if number % 2 else reversed(found):
                took = seconds(given.work, views, name)
                if number:  # the first one warms up
                    found[name].append(took)
        checked, assumed = (statistics.median(times) for times in found.values())
        cost = (checked - assumed) / given.rows * 1e9
        print(f"{workload.upper()}: {checked:.2f} s with the check, {assumed:.2f} s without: {cost:+.0f} ns a row")
    print(f"{describe_machine(1)}{describe_load(before, psutil.getloadavg()[0])}")


if __name__ == "__main__":
    main()

"""Memory that the tasks of a run need.

``python -m benchmarks.memory 100000 400000`` prints a JSON line for each number of rows.

Both stages of the application ``wide`` run in this process, task by task. ``arrow`` is the most that Arrow's buffers
have taken so far, ``anonymous`` the most that the process held of its own in this run, beyond what it had before (files
that are mapped do not count: the system takes them back at will), both in bytes.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
from pathlib import Path

import pyarrow as pa

from airflow_samza.systems.system import SystemBinding
from benchmarks.in_process import InProcess
from benchmarks.wide_data import ROW_BYTES, write_wide_views


def anonymous_memory() -> int:
    """Bytes of this process that no file stands behind; 0 where the system does not tell."""
    try:
        with open("/proc/self/status") as lines:
            return sum(int(line.split()[1]) for line in lines if line.startswith("RssAnon:")) * 1024
    except OSError:
        return 0


class Peak:
    """The most anonymous memory during a block, sampled, beyond what there was before."""

    def __enter__(self) -> Peak:
        self._before = self._most = anonymous_memory()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()
        return self

    def _sample(self) -> None:
        while not self._stop.wait(0.01):
            self._most = max(self._most, anonymous_memory())

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self.bytes = self._most - self._before


def measure(rows: int, work: Path) -> dict[str, int]:
    """Runs the application once over so many rows."""
    views = write_wide_views(work / "data", rows)
    bindings = {
        "lake": SystemBinding("files", {"root": str(views.parent)}),
        "results": SystemBinding("files", {"root": str(work / "out")}),
    }
    pa.set_cpu_count(1)
    here = InProcess(work / "root", bindings)
    config = {"views": views.name, "partitions": "2", "job.intermediate.stream.partitions": "4"}
    run = here.prepare("benchmarks.applications:wide", config)
    counted = 0
    with Peak() as peak:
        for stage in run.plan.stages:
            result = here.run_stage(run, stage.stage_id).result
            counted = sum(entry.messages for entry in result.inputs)
    return {
        "rows": rows,
        "read": counted,
        "bytes": rows * ROW_BYTES,
        "arrow": pa.default_memory_pool().max_memory(),
        "anonymous": peak.bytes,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="The memory that tasks need.")
    parser.add_argument("rows", type=int, nargs="+")
    for rows in parser.parse_args().rows:  # from few to many: Arrow only tells the most that there ever was
        with tempfile.TemporaryDirectory() as work:
            print(json.dumps(measure(rows, Path(work))), flush=True)


if __name__ == "__main__":
    main()

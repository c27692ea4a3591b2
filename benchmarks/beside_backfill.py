"""Latency of real-time events while the same application processes a history.

``python -m benchmarks.beside_backfill``.

``--work DIR [--seconds 30] [--rows 4000000] [--rate 200]``. Events have the higher priority, and an epoch takes no more
messages after 100 ms (``job.epoch.max.ms``). Latency is measured as in :mod:`benchmarks.latency`, first with no
history, then with one that is not done when the last event arrives.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa

from airflow_samza.prepare.run_request import RunRequest
from benchmarks.arguments import made_folder
from benchmarks.latency import PAGE, PER_SECOND, WARM_SECONDS, Flow
from benchmarks.machine import describe_load, describe_machine
from benchmarks.report import between_markers

APPLICATION = "benchmarks.applications:beside"


@dataclass(frozen=True)
class Beside:
    """Latencies in ms, commit to commit, of real-time events; messages of the history that went through per second."""

    history: int
    events: int
    median: float
    p99: float
    history_per_second: float


def measure(history: int, rate: int, seconds: float, work: Path) -> Beside:
    """A continuous run with events at a rate beside so many messages of history."""
    flow = Flow(work)
    ids = -np.arange(1, history + 1)
    flow.send(0, 1)
    schema = {"id": ids, "sent_at": np.zeros(history, np.int64)}
    flow.log.append("history", pa.table(schema), key=["id"], partitions=2)
    run = flow.runtime.prepare(RunRequest(APPLICATION, "run", mode="continuous"))
    (handle,) = [flow.runtime.submit(run, stage.stage_id) for stage in run.plan.stages]
    try:
        flow.until([handle], 1)
        begin, sent = time.time(), 1
        for number in range(int((seconds + WARM_SECONDS) * PER_SECOND)):
            time.sleep(max(begin + number / PER_SECOND - time.time(), 0.0))
            flow.send(sent, rate // PER_SECOND)
            sent += rate // PER_SECOND
        ended = time.time()
        while True:  # the last events
            arrived = flow.arrived()
            if (arrived[2] >= 0).sum() >= sent:
                break
            time.sleep(0.2)
        flow.runtime.stop(run)
        flow.runtime.wait(handle, timeout=120)
    finally:
        flow.runtime.close(run, wait_seconds=30)
    real = arrived[:, arrived[2] >= 0]
    counted = real[0] >= (begin + WARM_SECONDS) * 1000
    took = (real[1] - real[0])[counted]
    past = arrived[1][(arrived[2] < 0) & (arrived[1] >= (begin + WARM_SECONDS) * 1000) & (arrived[1] <= ended * 1000)]
    if history and (arrived[2] < 0).sum() >= history:
        raise SystemExit(f"{history} messages of history were too few: all had gone through before the last event")
    return Beside(
        history, int(counted.sum()), float(np.median(took)), float(np.percentile(took, 99)), past.size / seconds
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Latency of real-time events beside a backfill of the same application."
    )
    parser.add_argument("--work", required=True, type=made_folder)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--rows", type=int, default=8_000_000)
    parser.add_argument("--rate", type=int, default=200)
    parser.add_argument("--write-docs", action="store_true")
    arguments = parser.parse_args()
    before = psutil.getloadavg()[0]
    found = []
    for history in (0, arguments.rows):
        with tempfile.TemporaryDirectory(prefix="beside-", dir=arguments.work) as work:
            found.append(measure(history, arguments.rate, arguments.seconds, Path(work)))
        print(json.dumps(dataclasses.asdict(found[-1])), flush=True)
    alone, busy = found
    lines = [
        f"Measured on {describe_machine(2)}{describe_load(before, psutil.getloadavg()[0])}.",
        "",
        "| beside | events counted | median ms | p99 ms | history per second |",
        "|---|---:|---:|---:|---:|",
        f"| nothing | {alone.events:,} | {alone.median:.0f} | {alone.p99:.0f} | |",
        (
            f"| a history of {busy.history:,} | {busy.events:,} | {busy.median:.0f} | {busy.p99:.0f} | "
            f"{busy.history_per_second:,.0f} |"
        ),
        "",
        f"The 99th percentile beside the history is {busy.p99 / alone.p99:.2f} times that without.",
    ]
    print("\n".join(lines))
    if arguments.write_docs:
        PAGE.write_text(between_markers(PAGE.read_text(), "beside", lines))


if __name__ == "__main__":
    main()

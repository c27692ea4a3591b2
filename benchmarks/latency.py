"""Time of a record through two stages of a continuous run, and records per second through a pipelined one.

``python -m benchmarks.latency --work DIR [--seconds 30] [--rates 10 1000 20000] [--rows 4000000] [--write-docs]``. A
producer commits events to a topic twenty times a second; the latency of an event is the time from there to the commit
of the second stage's output topic. Throughput is that of a topic that is full before the run begins.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa

from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.stage_state import StageHandle
from airflow_samza.systems.log.commits import read_commits
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import MessageRun, OffsetRange, StreamSpec, SystemBinding, SystemStreamPartition
from benchmarks.arguments import made_folder
from benchmarks.machine import describe_load, describe_machine
from benchmarks.report import DOCS, between_markers

APPLICATION = "benchmarks.applications:flow"
PAGE = DOCS / "operate/latency.md"
FIGURES = DOCS / "operate/latency.json"

PER_SECOND = 20
"""Commits of the producer."""

WARM_SECONDS = 5.0
"""Records that are sent so early do not count: Python workers start, code is loaded."""


@dataclass(frozen=True)
class Latency:
    """Of events that were sent at a ``rate`` (per second).

    Milliseconds, and the mean seconds of an epoch of the first stage.
    """

    rate: int
    events: int
    median: float
    p99: float
    worst: float
    epoch_seconds: float


@dataclass(frozen=True)
class Throughput:
    """Of a full topic: events and seconds from the first intent to the end of the last stage."""

    events: int
    seconds: float
    epochs: int


class Flow:
    """A root of its own with the application."""

    def __init__(self, work: Path) -> None:
        self.root = str(work / "root")
        self.log = LogSystem("log", SystemBinding("log", {"root": self.root}))
        self.runtime = SparkRuntime(self.root, master="local[2]")

    def send(self, first: int, count: int) -> None:
        """Commits events that are sent now."""
        ids = np.arange(first, first + count)
        at = np.full(count, time.time_ns() // 1_000_000)
        self.log.append("events", pa.table({"id": ids, "sent_at": at}), key=["id"], partitions=2)

    def arrived(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Per event when it was sent and when it was committed to the last topic (ms since 1970), and its id."""
        topic = self.log.topic("arrived")
        ends: list[tuple[tuple[int, ...], int]] = [(commit.next, commit.at) for commit in read_commits(topic, 0)]
        found = [np.empty((3, 0), np.int64)]
        consumer = self.log.consumer(StreamSpec("arrived"))
        for partition in range(topic.partitions):
            place = SystemStreamPartition("log", "arrived", partition)
            bounds = np.array([next_[partition] for next_, _ in ends])
            times = np.array([at for _, at in ends])
            for envelope in consumer.read(place, OffsetRange(0, consumer.head[partition])):
                if isinstance(envelope, MessageRun):
                    offsets = envelope.offset + np.arange(envelope.messages)
                    committed = times[np.searchsorted(bounds, offsets, side="right")]
                    batch = envelope.batch
                    found.append(np.stack([batch["sent_at"].to_numpy(), committed, batch["id"].to_numpy()]))
        consumer.close()
        return np.concatenate(found, axis=1)

    def until(self, handles: Sequence[StageHandle], epochs: int) -> None:
        """Waits until every stage has committed so many epochs."""
        while True:
            told = [self.runtime.status(handle) for handle in handles]
            if all(status.progress is not None and status.progress.epochs >= epochs for status in told):
                return
            ended = next((status for status in told if status.is_final), None)
            if ended is not None:
                raise SystemExit(f"A stage has ended: {ended}, {ended.error}")
            time.sleep(0.1)


def measure_latency(rate: int, seconds: float, work: Path) -> Latency:
    """A continuous run with events at a rate."""
    flow = Flow(work)
    each = max(rate // PER_SECOND, 1)
    flow.send(0, 1)
    run = flow.runtime.prepare(RunRequest(APPLICATION, f"rate-{rate}", mode="continuous"))
    handles = [flow.runtime.submit(run, stage.stage_id) for stage in run.plan.stages]
    try:
        flow.until(handles, 1)
        begin = time.time()
        sent = 1
        for number in range(int((seconds + WARM_SECONDS) * PER_SECOND)):
            time.sleep(max(begin + number / PER_SECOND - time.time(), 0.0))
            flow.send(sent, each)
            sent += each
        flow.runtime.drain(run)
        for handle in handles:
            flow.runtime.wait(handle, timeout=120)
        first = flow.runtime.finish(handles[0])
    finally:
        flow.runtime.close(run, wait_seconds=30)
    found = flow.arrived()
    sent_at, committed, ids = found[0], found[1], found[2]
    if np.unique(ids).size != sent or ids.size != sent:
        raise SystemExit(f"{sent} events were sent, {ids.size} arrived")
    counted = sent_at >= (begin + WARM_SECONDS) * 1000
    took = (committed - sent_at)[counted]
    return Latency(
        rate,
        int(counted.sum()),
        float(np.median(took)),
        float(np.percentile(took, 99)),
        float(took.max()),
        round((time.time() - begin) / first.epochs, 3),
    )


def measure_throughput(rows: int, work: Path) -> Throughput:
    """A pipelined run over a full topic; a small one before it warms up the session."""
    flow = Flow(work)
    run: RunPlan | None = None
    flow.send(0, rows)
    try:
        run = flow.runtime.prepare(RunRequest(APPLICATION, "full", mode="pipelined", config={"bounded": "true"}))
        results = flow.runtime.run_stages(run)
        run = flow.runtime.prepare(
            RunRequest(APPLICATION, "full", generation=2, mode="pipelined", config={"bounded": "true"}, reuse=False)
        )
        began = time.monotonic()
        results = flow.runtime.run_stages(run)
        seconds = time.monotonic() - began
    finally:
        if run is not None:
            flow.runtime.close(run, wait_seconds=30)
    if results[-1].outputs[0].messages != rows:
        raise SystemExit(f"{rows} events were sent, {results[-1].outputs[0].messages} arrived")
    return Throughput(rows, seconds, results[0].epochs)


def table(latencies: Sequence[Latency], full: Throughput, machine: str) -> Iterator[str]:
    """The figures as Markdown."""
    yield f"Measured on {machine}."
    yield ""
    yield "| events per second | counted | median ms | p99 ms | worst ms | an epoch of the first stage s |"
    yield "|---:|---:|---:|---:|---:|---:|"
    for one in latencies:
        yield (
            f"| {one.rate:,} | {one.events:,} | {one.median:.0f} | {one.p99:.0f} | {one.worst:.0f} | "
            f"{one.epoch_seconds:.2f} |"
        )
    yield ""
    yield (
        f"A full topic of {full.events:,} events goes through both stages in {full.seconds:.1f} s: "
        f"{full.events / full.seconds / 1e6:.2f} M events per second, in {full.epochs} epochs of the first stage."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Latency and throughput of stages that run at the same time.")
    parser.add_argument("--work", required=True, type=made_folder)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--rates", type=int, nargs="+", default=[10, 1000, 20_000])
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--write-docs", action="store_true")
    arguments = parser.parse_args()
    before = psutil.getloadavg()[0]
    latencies = []
    for rate in arguments.rates:
        with tempfile.TemporaryDirectory(prefix="latency-", dir=arguments.work) as work:
            latencies.append(measure_latency(rate, arguments.seconds, Path(work)))
        print(json.dumps(dataclasses.asdict(latencies[-1])), flush=True)
    with tempfile.TemporaryDirectory(prefix="latency-", dir=arguments.work) as work:
        full = measure_throughput(arguments.rows, Path(work))
    print(json.dumps(dataclasses.asdict(full)), flush=True)
    machine = describe_machine(2) + describe_load(before, psutil.getloadavg()[0])
    lines = list(table(latencies, full, machine))
    print("\n".join(lines))
    if arguments.write_docs:
        PAGE.write_text(between_markers(PAGE.read_text(), "figures", lines))
        figures = {
            "machine": machine,
            "latencies": [dataclasses.asdict(one) for one in latencies],
            "throughput": dataclasses.asdict(full),
        }
        FIGURES.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()

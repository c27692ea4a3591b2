"""Two Dags' runs one after the other, and at the same time: when the second one has ended, in turn.

``python -m benchmarks.followed [--work DIR] [--rows 2000000] [--rounds 3]``. A run writes a shared stream, and a run of
another application aggregates it, each on a Spark of its own with one core. The consumer is planned when the producer
has ended, or follows it from the beginning. Seconds count from the start of the producer to the end of the consumer;
all consumers must write as many rows.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from airflow_samza import count, stream_application, sum_
from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import SystemBinding
from benchmarks.arguments import measure_rows

VISIT = "member bigint, country string, dwell_ms bigint"
BATCH = 250_000


@stream_application("teller", config={"job.epoch.max.messages": str(BATCH)})
def teller(app: Any) -> None:
    """Visits by member, in a shared stream."""
    visits = app.input_stream("visits", system="log", schema=VISIT, partitions=2, bounded=True)
    kept = visits.where("dwell_ms > 5 AND upper(country) <> 'XX'", id="kept")
    kept.partition_by("member", id="by-member").send_to(
        app.output_stream("told", system="log", schema=VISIT, key="member", partitions=2, shared=True)
    )


@stream_application("follower", config={"job.epoch.max.messages": str(BATCH)})
def follower(app: Any) -> None:
    """Visits per member and country."""
    told = app.shared_stream("told", system="log", schema=VISIT, key="member", bounded=True)
    lower = told.select("member", "lower(country) AS country", "dwell_ms * 2 AS dwell_ms", id="lower")
    lower.aggregate("member", visits=count(), dwell_ms=sum_("dwell_ms"), id="per-member").send_to(
        app.output_stream("heard", system="log", key="member", partitions=2)
    )


def write(root: Path, rows: int) -> None:
    """Append the visits."""
    draw = np.random.default_rng(1)
    log = LogSystem("log", SystemBinding("log", {"root": str(root)}))
    for first in range(0, rows, BATCH):
        size = min(BATCH, rows - first)
        batch = {
            "member": draw.integers(0, 100_000, size),
            "country": np.array(["nl", "de", "fr", "ch"])[draw.integers(0, 4, size)],
            "dwell_ms": draw.integers(0, 100, size),
        }
        log.append("visits", pa.table(batch), key=["member"], partitions=2, schema=VISIT)


def measured(root: Path, name: str, *, follows: bool) -> tuple[float, int]:
    """Return the seconds from the start of the producer to the end of the consumer, and the rows of the latter."""
    runtime = SparkRuntime(str(root), {}, master="local[1]")
    made: list[RunPlan] = []

    def planned(application: str, **more: Any) -> RunPlan:
        request = RunRequest(f"benchmarks.followed:{application}", f"{application}-{name}", mode="pipelined", **more)
        made.append(runtime.prepare(request))
        return made[-1]

    named = {"sections": {"told": f"teller/teller-{name}"}}
    began = time.monotonic()
    producer = planned("teller")
    if follows:
        consumer = planned("follower", **named)
        for stage in producer.plan.stages:
            runtime.submit(producer, stage.stage_id)
        results = runtime.run_stages(consumer)
        took = time.monotonic() - began
        runtime.run_stages(producer)
    else:
        runtime.run_stages(producer)
        results = runtime.run_stages(planned("follower", **named))
        took = time.monotonic() - began
    for run in made:
        runtime.close(run, wait_seconds=60)
    return took, results[-1].outputs[0].messages


def measure(folder: Path, rows: int, rounds: int) -> None:
    """Run both ways in turn after one that does not count, and print the medians and their ratio."""
    write(folder, rows)
    _, expected = measured(folder, "first", follows=False)  # warm runners begin
    took: dict[str, list[float]] = {"afterwards": [], "at the same time": []}
    for number in range(rounds):
        for way, follows in (("afterwards", False), ("at the same time", True)):
            seconds, found = measured(folder, f"{number}-{follows}", follows=follows)
            if found != expected:
                raise SystemExit(f"The consumer wrote {found} rows {way}, and {expected} in the first round.")
            took[way].append(seconds)
        print({name: [round(one, 2) for one in all_of] for name, all_of in took.items()}, flush=True)
    medians = {name: statistics.median(all_of) for name, all_of in took.items()}
    ratios = [b / a for a, b in zip(took["afterwards"], took["at the same time"], strict=True)]
    print(f"{rows:,} rows: {medians}; ratio of pairs {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    measure_rows(__doc__, measure)

"""The requests that a run of four stages sends to its root on an object store, by kind, and what they cost.

Run ``python -m benchmarks.requests``; it starts an S3 of its own (moto), plans a run, has Spark run its stages one
after the other, closes and sweeps it, and prints a table from what the run has on record. ``--without-spark`` runs the
tasks in the runner's process. Prices are per 1,000 requests, as the provider names them; the defaults are Amazon S3's
(Standard, us-east-1).
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from airflow_samza import count, stream_application, sum_
from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.runs.progress.run_costs import run_requests
from airflow_samza.runs.upkeep.keep import Keep
from airflow_samza.systems.filesystems.object_store.requests import KINDS, take
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import SystemBinding

NUMBERS = "n bigint, a bigint, b bigint, c string"
PRICES = {"PUT": 0.005, "COPY": 0.005, "LIST": 0.005, "GET": 0.0004, "HEAD": 0.0004, "DELETE": 0.0}
"""Dollars for 1,000 requests."""


@stream_application("four-stages", config={"job.intermediate.stream.partitions": "2"})
def four_stages(app) -> None:  # type: ignore[no-untyped-def]
    """Three repartitions, so four stages of two tasks each."""
    (
        app.input_stream("numbers", system="log", schema=NUMBERS, key="n")
        .partition_by("a", id="by-a")
        .where("n >= 0", id="some")
        .partition_by("b", id="by-b")
        .where("n >= 0", id="more")
        .partition_by("c", id="by-c")
        .aggregate(["c"], numbers=count(), total=sum_("n"), id="totals")
        .send_to(app.output_stream("totals", system="log", key="c", partitions=2))
    )


@dataclass(frozen=True)
class Measured:
    """A run: its seconds, and its requests by kind as its records hold them, with those of the sweep after it."""

    seconds: float
    requests: Mapping[str, int]
    sweep: Mapping[str, int]


def measure(root: str, rows: int = 1000) -> Measured:
    """Run the application once under a root."""
    log = LogSystem("log", SystemBinding("log", {"root": root}))
    columns = {"n": range(rows), "a": [n % 7 for n in range(rows)], "b": [n % 11 for n in range(rows)]}
    table = pa.table({**columns, "c": [str(n % 5) for n in range(rows)]})
    log.append("numbers", table, key=["n"], partitions=2, schema=NUMBERS)
    take()  # what comes from here on is the run's
    runtime, began = SparkRuntime(root, {"log": SystemBinding("log")}), time.monotonic()
    runtime.run_application(request := RunRequest(f"{__spec__.name}:four_stages", "run-1"))
    seconds = time.monotonic() - began
    run = runtime.load_plan("four-stages", request.run_id)
    until = time.monotonic() + 60
    while runtime.live_runners(run) and time.monotonic() < until:
        time.sleep(0.5)
    take()
    runtime.upkeep.sweep("four-stages", Keep())
    return Measured(seconds, run_requests(open_filesystem(root), run), take())


def table_of(found: Measured, prices: Mapping[str, float] = PRICES) -> list[str]:
    """Return the table of requests and prices."""
    lines = ["| kind | a run | its sweep | $ per 1,000 | $ for 1,000 runs |", "|---|---:|---:|---:|---:|"]
    total = dict.fromkeys(("run", "sweep"), 0)
    dollars = 0.0
    for kind in KINDS:
        run, sweep = found.requests.get(kind, 0), found.sweep.get(kind, 0)
        if not run and not sweep:
            continue
        total["run"] += run
        total["sweep"] += sweep
        price = prices.get(kind, 0.0) * (run + sweep)
        dollars += price
        lines.append(f"| {kind} | {run} | {sweep} | {prices.get(kind, 0.0):g} | {price:.2f} |")
    return [*lines, f"| all | {total['run']} | {total['sweep']} | | {dollars:.2f} |"]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--without-spark", action="store_true", help="run tasks in the runner's process")
    parser.add_argument("--json", action="store_true", help="print one JSON line instead of the table")
    for kind, price in PRICES.items():
        parser.add_argument(f"--{kind.lower()}", type=float, default=price, help=f"dollars for 1,000 {kind}")
    given = parser.parse_args()
    from demo.store_servers import S3Server  # not in the runner, which loads this module, too

    with tempfile.TemporaryDirectory() as folder:
        server = S3Server(Path(folder))
        try:
            server.start()
            os.environ.update(server.environment)
            if given.without_spark:
                use_no_spark(Path(folder))
            found = measure(server.url("benchmark"))
        finally:
            server.stop()
    if given.json:
        print(json.dumps({"seconds": found.seconds, "run": found.requests, "sweep": found.sweep}))
        return
    print(f"A run of four stages took {found.seconds:.1f} s.\n")
    print("\n".join(table_of(found, {kind: getattr(given, kind.lower()) for kind in PRICES})))


def use_no_spark(folder: Path) -> None:
    """Have runners without Spark started."""
    from airflow_samza.launch import launcher, own_process
    from tests.support import runner_without_spark

    os.environ[runner_without_spark.VARIABLE] = str(folder)
    own_process.RUNNER_MODULE = runner_without_spark.__name__
    launcher.check_place = lambda *_: None


if __name__ == "__main__":
    main()

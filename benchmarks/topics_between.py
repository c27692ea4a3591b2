"""The same application with its topics between stages in the log and on Kafka: ``python -m benchmarks.topics_between``.

A repartition, in this process, one task after the other: seconds and processor seconds of each stage, of the
broker, too. Each place is measured in turn, several times.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa

from airflow_samza import stream_application
from airflow_samza.systems.system import SystemBinding
from demo.kafka import Kafka
from tests.support.runs_here import Here

SCHEMA = "member bigint, page string, seconds bigint"


def _described(app: Any) -> None:
    views = app.input_stream("views", system="log", schema=SCHEMA)
    by_page = views.where("seconds >= 0", id="valid").partition_by("page", id="by-page")
    by_page.send_to(app.output_stream("pages", system="log", key="page", partitions=4))


def _on_kafka(app: Any) -> None:
    app.default_system("events")
    _described(app)


CONFIG = {"job.intermediate.stream.partitions": "4"}
in_the_log = stream_application("in-the-log", config=CONFIG)(_described)
on_kafka = stream_application("on-kafka", config=CONFIG)(_on_kafka)


def fill(here: Here, rows: int) -> None:
    """Append rows to the input, in four partitions."""
    step = 1_000_000
    for first in range(0, rows, step):
        members = range(first, min(first + step, rows))
        table = pa.table(
            {
                "member": pa.array(members, pa.int64()),
                "page": [f"/articles/{member * 7919 % 10_007}" for member in members],
                "seconds": pa.array([member % 300 for member in members], pa.int64()),
            }
        )
        here.log.append("views", table, key=["member"], partitions=4)


def main() -> None:
    """Measure, and print a line per run."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--times", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        broker = Kafka(Path(folder) / "broker")
        broker.start()
        assert broker.process is not None
        try:
            here = Here(Path(folder) / "root", bindings={"events": _binding(broker)})
            fill(here, options.rows)
            java = psutil.Process(broker.process.pid)
            for number in range(options.times + 1):  # the first is for what is loaded once
                for application in ("in_the_log", "on_kafka"):
                    plan = here.plan(f"benchmarks.topics_between:{application}", f"run-{application}-{number}")
                    for stage in plan.plan.stages:
                        before, at = _processor(java), time.perf_counter()
                        here.stages(plan, stage.stage_id)
                        seconds = time.perf_counter() - at
                        own, brokers = (after - former for after, former in zip(_processor(java), before, strict=True))
                        if number:
                            pace = f"{seconds:6.2f} s, {options.rows / seconds / 1e6:5.2f} M rows/s"
                            spent = f"processor seconds {own:5.2f}, of the broker {brokers:5.2f}"
                            load = os.getloadavg()[0]
                            print(f"{application:10} {stage.stage_id:8} {pace}, {spent}, load {load:.0f}", flush=True)
        finally:
            broker.stop()


def _binding(broker: Kafka) -> SystemBinding:
    return SystemBinding("kafka", {"bootstrap.servers": broker.address})


def _processor(java: psutil.Process) -> tuple[float, float]:
    own, broker = time.process_time(), java.cpu_times()
    return own, broker.user + broker.system


if __name__ == "__main__":
    main()

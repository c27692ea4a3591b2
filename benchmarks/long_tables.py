"""Time until a task has found the first keys of a long pushed table, on a new host and on one that has looked before.

``python -m benchmarks.long_tables [--rows 100000000] [--keys 1 10 100]``. One task has all rows. Its root is on the
local disk; where this process may, it empties the page cache before each first run.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa

from airflow_samza import stream_application
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.runs.tables import versions
from airflow_samza.runs.tables.table_version import DELETED, FULL, TableVersion, now
from airflow_samza.schema import Schema
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import Publication, StreamSpec, SystemBinding
from benchmarks.in_process import InProcess

PROFILE = "member_id bigint, tier string, age int, score double"
TOPIC = StreamSpec("profiles-push", 1, f"{PROFILE}, {DELETED} boolean", ("member_id",))
_SECTION = ("pushes/profiles/first", "1.1")
_APART = 1_000_003
"""The members' numbers are so far apart, so that no table over their range finds them."""
_AT_A_TIME = 500_000


@stream_application("views-by-profile", default_system="log")
def views_by_profile(app: Any) -> None:
    """Views, each beside the pushed profile of its member."""
    views = app.input_stream("views", schema="member_id bigint", key="member_id")
    profiles = app.pushed_table("profiles", key="member_id", schema=PROFILE, partitions=1)
    views.join(profiles, how="left", id="with-profile").send_to(app.output_stream("scored", key="member_id"))


def push(log: LogSystem, rows: int) -> None:
    """Write a version of profiles in the order of their keys, as the job of a push does."""
    log.create([TOPIC])
    producer, schema = log.producer(TOPIC, "first"), Schema.of(str(TOPIC.schema)).to_arrow()
    random, tiers = np.random.default_rng(1), pa.array(["gold", "silver", "bronze", "none"])
    for first in range(0, rows, _AT_A_TIME):
        numbers = np.arange(first, min(first + _AT_A_TIME, rows))
        columns = [
            pa.array(numbers * _APART),
            tiers.take(pa.array(numbers % 4)),
            pa.array((numbers % 80).astype("i4")),
            pa.array(random.random(len(numbers))),
            pa.array(np.zeros(len(numbers), bool)),
        ]
        producer.write_keyed(pa.RecordBatch.from_arrays(columns, schema=schema), ["member_id"])
    log.publish(TOPIC, Publication(*_SECTION, 0, {0: producer.finish()}))
    written = log.slice(TOPIC)
    version = TableVersion(
        number=1,
        push_id="first",
        kind=FULL,
        sections=(_SECTION,),
        offsets=tuple((int(first), int(end)) for first, end in written["offsets"]),
        commits=written["commit"],
        rows=rows,
        bytes=0,
        schema=PROFILE,
        key=("member_id",),
        pushed_at=now(),
        table="profiles",
    )
    versions.add(log.filesystem, "log", TOPIC.name, version)


def look_up(root: str, run: str, host: str) -> None:
    """Run the task in this process, which ends then, and print what it took."""
    here = InProcess(Path(root), {})
    request = RunRequest("benchmarks.long_tables:views_by_profile", run, config={"job.store.local.dir": host})
    plan = here.runtime.prepare(request)
    before = time.process_time()
    seconds = here.run_stage(plan, plan.plan.stages[0].stage_id).seconds["tasks"]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps([seconds, time.process_time() - before, peak >> 10]))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--keys", type=int, nargs="+", default=[1, 10, 100])
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        look_up(*arguments.child)
        return
    folder = Path(tempfile.mkdtemp(prefix="long-tables-"))
    try:
        log = LogSystem("log", SystemBinding("log", {"root": str(folder / "root")}))
        push(log, arguments.rows)
        print("| keys | host | seconds | processor seconds | at most, MiB | load |\n|---|---|---|---|---|---|")
        random, there = np.random.default_rng(2), 0
        for keys in arguments.keys:
            members = pa.table({"member_id": random.integers(0, arguments.rows, keys - there) * _APART})
            log.append("views", members, key=["member_id"], partitions=1)
            there = keys
            os.sync()
            with contextlib.suppress(OSError):
                Path("/proc/sys/vm/drop_caches").write_text("3")
            command = [sys.executable, "-m", "benchmarks.long_tables", "--child", str(folder / "root")]
            for host in ("new", "the same"):
                taken = subprocess.run(
                    [*command, f"run-{keys}-{host}", str(folder / f"host-{keys}")],
                    check=True,
                    capture_output=True,
                    text=True,
                )
                seconds, used, peak = json.loads(taken.stdout)
                load = psutil.getloadavg()[0]
                print(f"| {keys} | {host} | {seconds:.2f} | {used:.2f} | {peak} | {load:.0f} |", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()

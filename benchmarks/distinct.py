"""One of several copies, beside Spark's ``dropDuplicates`` and ``dropDuplicatesWithinWatermark``, in turn.

``python -m benchmarks.distinct --work DIR [--rows 2000000] [--rounds 3]``. Files of a day of events, of which a fifth
are copies that come at most half an hour after. Both read and write Parquet in one session of ``local[2]``: all of it
in a batch, and all of it as what has arrived since the last run of an unbounded input (Spark: ``availableNow``).
Seconds of a round are those from the plan to the end; the results are compared by their counts.
"""

from __future__ import annotations

import importlib
import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from airflow_samza import stream_application
from airflow_samza.systems.system import SystemBinding
from benchmarks.arguments import measure_rows
from tests.support.one_session import Runs, open_session

EVENTS = "event_id string, member_id bigint, amount double, at timestamp"
FILES = 4
SETTINGS = {"spark.sql.shuffle.partitions": "4", "spark.driver.memory": "6g"}
"""Settings of the session; in the gigabyte of Spark's default the state of 2,000,000 rows has no room."""
DAY_US = 86_400_000_000
START_US = 1_767_225_600_000_000


def put_files(folder: Path, rows: int) -> None:
    """Write the events, a partition in each file; the last event of each is a day later and moves the watermark on.

    A file is one row group: partitions of about equal size are cut at row groups, and one without a last event would
    hold back the end of the day.
    """
    random = np.random.default_rng(7)
    number = np.arange(rows)
    is_copy = random.random(rows) < 0.2
    number[is_copy] = random.integers(0, rows, int(is_copy.sum()))
    times = START_US + number * (DAY_US // rows) + np.where(is_copy, random.integers(0, DAY_US // 48, rows), 0)
    order = np.argsort(times)
    folder.mkdir(parents=True, exist_ok=True)
    for file in range(FILES):
        mine = order[file::FILES]
        ids = [*(f"event-{each:012}" for each in number[mine]), f"last-{file}"]
        at = np.append(times[mine], START_US + 2 * DAY_US)
        table = pa.table(
            {
                "event_id": pa.array(ids),
                "member_id": pa.array(random.integers(0, 100_000, len(ids))),
                "amount": pa.array(random.random(len(ids))),
                "at": pa.array(at, pa.timestamp("us", "UTC")),
            }
        )
        pq.write_table(table, folder / f"{file}.parquet", row_group_size=rows)


def _application(name: str, **said: Any) -> Any:
    def describe(app: Any) -> None:
        events = app.input_stream(
            "events",
            system="lake",
            schema=EVENTS,
            path="events",
            format="parquet",
            timestamp="at",
            max_delay="30 minutes",
            partitions=FILES,
            **said,
        )
        once = events.partition_by("event_id", id="by-id").distinct("event_id", within="1 hour", id="once")
        once.send_to(app.output_stream(name, system="results", format="parquet"))

    return stream_application(f"bench-{name}")(describe)


batch = _application("batch")
arrivals = _application("arrivals", slice="checkpoint")


def spark_batch(session: Any, events: Path, out: Path) -> None:
    """Drop all copies of the files."""
    session.read.parquet(str(events)).dropDuplicates(["event_id"]).write.parquet(str(out))


def spark_arrivals(session: Any, events: Path, out: Path) -> None:
    """Drop copies within the watermark from what has arrived."""
    read = session.readStream.schema(EVENTS).parquet(str(events)).withWatermark("at", "1 hour")
    query = read.dropDuplicatesWithinWatermark(["event_id"]).writeStream.format("parquet")
    query = query.option("path", str(out)).option("checkpointLocation", f"{out}-checkpoint")
    query.trigger(availableNow=True).start().awaitTermination()


PEERS: dict[str, Callable[[Any, Path, Path], None]] = {"batch": spark_batch, "arrivals": spark_arrivals}


def _count(folder: Path) -> int:
    files = [str(path) for path in folder.rglob("*.parquet")]
    found = ds.dataset(files, format="parquet").to_table(columns=["event_id"]).column("event_id").to_pylist()
    assert len(set(found)) == len(found), "a copy has been written"
    return sum(not event.startswith("last-") for event in found)


def measure(work: Path, rows: int, rounds: int) -> None:
    """Print the seconds of both for each workload, the median of the rounds, and how often one takes the other."""
    put_files(work / "lake" / "events", rows)
    importlib.import_module("benchmarks.distinct")  # by its name, under which workers find it
    session = open_session(work / "session", "benchmarks.distinct", SETTINGS)
    for name, peer in PEERS.items():
        seconds: dict[str, list[float]] = {"ours": [], "spark": []}
        for number in range(rounds + 1):
            folder = work / f"{name}-{number}"
            places = {"lake": work / "lake", "results": folder / "results"}
            places["results"].mkdir(parents=True)
            runs = Runs(
                session, folder / "root", {n: SystemBinding("files", {"root": str(p)}) for n, p in places.items()}
            )
            began = time.perf_counter()
            runs.one_by_one(runs.prepare(f"benchmarks.distinct:{name}", "run"))
            between = time.perf_counter()
            with session.stage_session({}, own=False) as spark:
                peer(spark, work / "lake" / "events", folder / "spark")
            ended = time.perf_counter()
            assert _count(folder / "results") == _count(folder / "spark"), "they differ"
            if number:  # the first round warms Java up
                seconds["ours"].append(between - began)
                seconds["spark"].append(ended - between)
            shutil.rmtree(folder)
        ours, theirs = (statistics.median(found) for found in seconds.values())
        print(
            f"{name:10} {rows:,} rows: ours {ours:.2f} s, Spark {theirs:.2f} s: {theirs / ours:.2f} times ours",
            flush=True,
        )
    session.stop()


def main() -> None:
    """Measure and print."""
    measure_rows(__doc__, measure)


if __name__ == "__main__":
    main()

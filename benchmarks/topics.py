"""Speed of writing topics by key and reading them back, in one process, against plain Parquet files with pyarrow.

Run ``python -m benchmarks.topics --rows 5000000 --repeat 3``; prints one JSON line per measurement (rows per second,
best of the repeats). The rows are those of the workloads: a bigint, an int, a bigint, a two-letter string and an int.
"""

from __future__ import annotations

import argparse
import functools
import json
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from airflow_samza.partitioner import partition_array, split_by_partition
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.memory.system import MemorySystem
from airflow_samza.systems.system import MessageRun, Publication, StreamSpec, SystemBinding, SystemStreamPartition

BATCH = 65_536


def page_views(rows: int, *, text: int = 0) -> pa.Table:
    """Rows like those of the workloads; ``text`` adds that many columns of distinct strings."""
    random = np.random.default_rng(7)
    countries = pa.array([f"{chr(65 + i // 10)}{chr(65 + i % 10)}" for i in range(50)])
    columns = {
        "member_id": pa.array(random.integers(0, 1_000_000, rows)),
        "page_id": pa.array(random.integers(0, 10_000, rows).astype("int32")),
        "ts": pa.array(1_767_225_600_000 + np.arange(rows)),
        "country": pa.DictionaryArray.from_arrays(
            pa.array(random.integers(0, 50, rows).astype("int32")), countries
        ).cast(pa.string()),
        "dwell_ms": pa.array(np.minimum(random.exponential(1500, rows), 600_000).astype("int32")),
    }
    for number in range(text):
        columns[f"text_{number}"] = pa.array(
            [f"{number}-{value:x}-some text" for value in random.integers(0, 1 << 60, rows).tolist()]
        )
    return pa.table(columns)


def best(repeat: int, work: Callable[[], object]) -> float:
    """The shortest time of several runs, in seconds."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def partition_all(batches: list[pa.RecordBatch], key: str) -> None:
    for batch in batches:
        partition_array(batch, [key], 16)


def split_all(pairs: list[tuple[pa.RecordBatch, np.ndarray[Any, Any]]], partitions: int) -> None:
    for batch, to in pairs:
        split_by_partition(batch, to, partitions)


def report(what: str, rows: int, seconds: float, **facts: object) -> None:
    line = {
        "benchmark": "topics",
        "what": what,
        "rows": rows,
        "seconds": round(seconds, 3),
        "rows_per_second": round(rows / seconds),
    }
    print(json.dumps({**line, **facts}), flush=True)


def write_and_read(table: pa.Table, partitions: int, repeat: int, directory: Path, label: str) -> None:
    """A keyed write with its commit, and the read of all partitions, for the log and for memory."""
    batches = table.to_batches(max_chunksize=BATCH)
    rows = table.num_rows
    for kind in ("log", "memory"):
        root = directory / f"{kind}-{label}-{partitions}"
        system = LogSystem("log", SystemBinding("log", {"root": str(root)})) if kind == "log" else MemorySystem()
        written: list[StreamSpec] = []

        def write(system: LogSystem | MemorySystem = system, written: list[StreamSpec] = written) -> None:
            stream = StreamSpec(f"{label}/{len(written)}", partitions=partitions)
            written.append(stream)
            system.create([stream])
            producer = system.producer(stream, "task-0")
            for batch in batches:
                producer.write_keyed(batch, ["page_id"])
            system.publish(stream, Publication("benchmark", "1.1", 0, {0: producer.finish()}))

        def read(
            columns: list[str] | None, system: LogSystem | MemorySystem = system, written: list[StreamSpec] = written
        ) -> None:
            consumer = system.consumer(written[-1])
            total = 0
            for partition in range(partitions):
                for envelope in consumer.read(SystemStreamPartition("log", written[-1].name, partition), None, columns):
                    total += envelope.batch.num_rows if isinstance(envelope, MessageRun) else 0
            if total != rows:
                raise SystemExit(f"{total} rows came back, not {rows}")

        seconds = best(repeat, write)
        files = [path.stat().st_size for path in root.rglob("*.arrow")]
        report(
            f"{kind} keyed write and commit, {label}",
            rows,
            seconds,
            partitions=partitions,
            bytes=files[0] if files else None,
        )
        report(
            f"{kind} read of all columns, {label}",
            rows,
            best(repeat, functools.partial(read, None)),
            partitions=partitions,
        )
        report(
            f"{kind} read of the key column, {label}",
            rows,
            best(repeat, functools.partial(read, ["page_id"])),
            partitions=partitions,
        )


def main() -> None:
    """Measures all of it."""
    parser = argparse.ArgumentParser(description="How fast topics are written by key and read back.")
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--partitions", type=int, nargs="*", default=[4, 16, 256, 2048])
    arguments = parser.parse_args()
    repeat = arguments.repeat
    directory = Path(tempfile.mkdtemp(prefix="topics-benchmark-"))
    try:
        for label, text in (("narrow", 0), ("wide", 4)):
            rows = arguments.rows if not text else arguments.rows // 5
            table = page_views(rows, text=text)
            batches = table.to_batches(max_chunksize=BATCH)
            path = directory / "plain.parquet"
            report(
                f"plain Parquet write (snappy), {label}",
                rows,
                best(repeat, functools.partial(pq.write_table, table, path)),
            )
            report(f"plain Parquet read, {label}", rows, best(repeat, functools.partial(pq.read_table, path)))
            for key in ("page_id", "member_id", "country"):
                seconds = best(repeat, functools.partial(partition_all, batches, key))
                report(f"partition by {key}, {label}", rows, seconds)
            for partitions in arguments.partitions:
                pairs = [(batch, partition_array(batch, ["page_id"], partitions)) for batch in batches]
                seconds = best(repeat, functools.partial(split_all, pairs, partitions))
                report(f"split, {label}", rows, seconds, partitions=partitions)
                write_and_read(table, partitions, repeat, directory, label)
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()

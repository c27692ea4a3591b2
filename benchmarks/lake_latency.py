"""Time of a message from a topic of Kafka until a reader of a table sees its row, beside Structured Streaming.

``python -m benchmarks.lake_latency --work DIR [--seconds 60] [--rate 1000] [--gather 0 250 500 1000] [--write-docs]``.
A process sends messages with their time twenty times a second. This one polls the table by pyiceberg or deltalake,
reads the files that are new by pyarrow, and notes when each row is there. Everybody writes to a new table, in turn.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow.parquet as pq
from confluent_kafka import Producer

from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.schema import Schema
from airflow_samza.systems.system import SystemBinding
from benchmarks.arguments import made_folder
from benchmarks.kafka import a_broker
from benchmarks.kafka_topics import create
from benchmarks.lake import PAGE, TABLES, started_with, temporary_folder
from benchmarks.lake_workloads import PEERS, TIMED
from benchmarks.machine import describe_load, describe_machine
from benchmarks.measuring import Meter
from benchmarks.peer_process import Missing, PeerProcess
from benchmarks.report import between_markers
from benchmarks.results import OURS

PER_SECOND = 20
"""Sends of the writer."""

WARM_SECONDS = 10.0
"""Rows that are sent so early do not count: code is loaded and compiled."""

_POLL_SECONDS = 0.01
_START_SECONDS = 180.0
_END_SECONDS = 120.0


@dataclass(frozen=True)
class Latency:
    """Of rows that ``who`` wrote with so many ms between its commits (0: as soon as it can); latencies are in ms."""

    kind: str
    who: str
    gather: int
    rows: int
    mean: float
    median: float
    p99: float
    commits: float
    """Commits a second."""
    cpu: float
    """Seconds of processor time a second."""
    metadata: int
    """Bytes beside the data files at the end."""


class Reader(Protocol):
    """A table as its format's own library reads it."""

    def look(self) -> list[str]:
        """Return the data files that have come since the last look."""

    def commits(self) -> int:
        """Return the number of commits that the table had at the last look."""


class IcebergReader:
    """A table of an embedded catalog, by pyiceberg."""

    def __init__(self, folder: Path, name: str) -> None:
        from pyiceberg.catalog import load_catalog

        where = {"uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}"}
        self._table = load_catalog("default", type="sql", **where).load_table(f"bench.{name}")
        self._snapshot: int | None = None
        self._files: set[str] = set()

    def look(self) -> list[str]:
        """Return the data files that have come since the last look."""
        now = self._table.refresh().metadata.current_snapshot_id
        if now == self._snapshot:
            return []
        self._snapshot = now
        files = {task.file.file_path.removeprefix("file://") for task in self._table.scan().plan_files()}
        new, self._files = files - self._files, files
        return sorted(new)

    def commits(self) -> int:
        """Return the number of commits that the table had at the last look."""
        return int(getattr(self._table.metadata, "last_sequence_number", 0))  # 0 of format version 1


class DeltaReader:
    """A table in a folder, by the package deltalake."""

    def __init__(self, folder: Path, name: str) -> None:
        from deltalake import DeltaTable

        self._table = DeltaTable(str(folder / "bench" / name))
        self._version = -1
        self._files: set[str] = set()

    def look(self) -> list[str]:
        """Return the data files that have come since the last look."""
        self._table.update_incremental()
        if self._table.version() == self._version:
            return []
        self._version = self._table.version()
        files = set(self._table.file_uris())
        new, self._files = files - self._files, files
        return sorted(new)

    def commits(self) -> int:
        """Return the number of commits that the table had at the last look."""
        return self._version


_READERS: dict[str, Callable[[Path, str], Reader]] = {"iceberg": IcebergReader, "delta": DeltaReader}


def send(address: str, topic: str, rate: int, seconds: float) -> None:
    """Send messages at a rate, twenty times a second, after one that is sent at once."""
    producer = Producer({"bootstrap.servers": address, "linger.ms": 0})
    number, each, begin = 1, rate // PER_SECOND, time.time()
    for tick in range(int(seconds * PER_SECOND)):
        time.sleep(max(begin + tick / PER_SECOND - time.time(), 0.0))
        for _ in range(each):
            producer.produce(topic, json.dumps({"number": number, "sent_at": time.time_ns() // 1_000_000}))
            number += 1
        producer.poll(0)
    producer.flush()


class Rows:
    """Rows that have been seen: their numbers, when they were sent, and when they were seen (ms since 1970)."""

    def __init__(self) -> None:
        self._seen: list[np.ndarray[Any, np.dtype[np.int64]]] = []
        self.count = 0

    def look(self, reader: Reader) -> None:
        """Read the files that are new."""
        for file in reader.look():
            rows = pq.read_table(file, columns=["number", "sent_at"], partitioning=None)
            now = np.full(rows.num_rows, time.time_ns() // 1_000_000)
            self._seen.append(np.stack([rows["number"].to_numpy(), rows["sent_at"].to_numpy(), now]))
            self.count += rows.num_rows

    def until(self, reader: Reader, count: int, seconds: float) -> None:
        """Look until there are so many rows."""
        deadline = time.monotonic() + seconds
        while self.count < count:
            self.look(reader)
            if time.monotonic() > deadline:
                raise SystemExit(f"Only {self.count} of {count} rows came within {seconds:.0f} s.")
            time.sleep(_POLL_SECONDS)

    def took(self, count: int, first: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return the ms that rows took from a number on; none may be missing or there twice."""
        numbers, sent, seen = np.concatenate(self._seen, axis=1)
        different = np.unique(numbers).size
        if numbers.size != count or different != count:
            raise SystemExit(f"{count} messages were sent, {numbers.size} rows are there, of which {different} differ.")
        took: np.ndarray[Any, np.dtype[np.int64]] = (seen - sent)[numbers >= first]
        return took


class Place:
    """The folder of the tables of a kind, and the broker."""

    def __init__(self, kind: str, folder: Path, address: str, cores: int) -> None:
        self.kind, self.folder, self.address = kind, folder, address
        self.tables = TABLES[kind](folder / "lake")
        self._cores = cores
        self._temporary = os.environ["TMPDIR"]

    @contextmanager
    def ours(self, topic: str, out: str, gather: int) -> Iterator[Callable[[], Iterable[int]]]:
        """Run the application."""
        bindings = {
            "events": SystemBinding("kafka", {"bootstrap.servers": self.address}),
            "tables": SystemBinding(self.kind, {"root": str(self.folder / "lake")}),
        }
        runtime = SparkRuntime(str(self.folder / f"root-{out}"), bindings, master=f"local[{self._cores}]")
        config = {"out": out, "streams.rows.samza.physical.name": topic, "job.epoch.min.ms": str(gather)}
        application = "benchmarks.lake_workloads:follow"
        run = runtime.prepare(RunRequest(application, out, mode="continuous", config=config, reuse=False))
        handles = [runtime.submit(run, stage.stage_id) for stage in run.plan.stages]
        try:
            yield lambda: started_with(self._temporary)
            runtime.drain(run)
            for handle in handles:
                runtime.wait(handle, timeout=_END_SECONDS)
        finally:
            runtime.close(run, wait_seconds=30)

    @contextmanager
    def spark(self, peer: PeerProcess, topic: str, out: str, gather: int) -> Iterator[Callable[[], Iterable[int]]]:
        """Run the query of Structured Streaming."""
        place = f"{self.address}/{topic}>bench.{out}"
        peer.ask("follow", place, gather)
        try:
            yield lambda: [peer.pid]
        finally:
            peer.ask("end", place, 0)

    def metadata(self, out: str) -> int:
        """Return the bytes of a table beside its data files."""
        folder = self.folder / "lake" / "bench" / out / ("metadata" if self.kind == "iceberg" else "_delta_log")
        return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def measure(place: Place, who: str, peer: PeerProcess | None, gather: int, rate: int, seconds: float) -> Latency:
    """Let somebody write a table from messages that come at a rate."""
    out = f"{who.replace('-', '_')}_{gather}"
    topic = f"{place.kind}-{out}"
    create(place.address, [topic], partitions=2)
    place.tables.create(out, Schema.of(TIMED).to_arrow())
    reader = _READERS[place.kind](place.folder / "lake", out)
    first = Producer({"bootstrap.servers": place.address})
    first.produce(topic, json.dumps({"number": 0, "sent_at": 0}))
    first.flush()
    running = place.spark(peer, topic, out, gather) if peer is not None else place.ours(topic, out, gather)
    rows = Rows()
    with running as find:
        rows.until(reader, 1, _START_SECONDS)
        processes = list(find())
        sending = (place.address, topic, rate, WARM_SECONDS + seconds)
        writer = multiprocessing.get_context("spawn").Process(target=send, args=sending)
        writer.start()
        try:
            rows.until(reader, 2, _START_SECONDS)
            commits = reader.commits()
            count = rate // PER_SECOND * int((WARM_SECONDS + seconds) * PER_SECOND) + 1
            with Meter(lambda: processes, children=False) as meter:
                rows.until(reader, count, WARM_SECONDS + seconds + _END_SECONDS)
        finally:
            writer.kill()
            writer.join()
        a_second = (reader.commits() - commits) / meter.result.seconds
    took = rows.took(count, int(rate * WARM_SECONDS))
    return Latency(
        place.kind,
        who,
        gather,
        took.size,
        float(took.mean()),
        float(np.median(took)),
        float(np.percentile(took, 99)),
        round(a_second, 2),
        round(meter.result.cpu_seconds / meter.result.seconds, 2),
        place.metadata(out),
    )


def table(latencies: Sequence[Latency], machine: str, rate: int) -> Iterator[str]:
    """Return the figures as Markdown."""
    yield f"{rate:,} rows a second, measured on {machine}."
    yield ""
    yield (
        "| table | who | ms between commits | rows | mean ms | median ms | p99 ms | commits a second | CPU s a second "
        "| metadata kB |"
    )
    yield "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|"
    for one in latencies:
        name = next((peer.what for peer in PEERS[one.kind] if peer.name == one.who), OURS)
        yield (
            f"| {one.kind} | {name} | {one.gather or '–'} | {one.rows:,} | **{one.mean:,.0f}** | {one.median:,.0f} | "
            f"{one.p99:,.0f} | {one.commits:.2f} | {one.cpu:.2f} | {one.metadata / 1000:,.0f} |"
        )


def measure_kind(kind: str, asked: argparse.Namespace, address: str) -> Iterator[Latency]:
    """Yield the latencies of each gathering time, ours and, of the first and the last one, Spark's in turn."""
    with ExitStack() as held:
        folder = Path(tempfile.mkdtemp(prefix="lake-latency-", dir=asked.work))
        held.callback(shutil.rmtree, folder, ignore_errors=True)
        held.enter_context(temporary_folder(folder / "t"))
        place = Place(kind, folder, address, asked.cores)
        peer = None
        try:
            peer = PeerProcess(PEERS[kind][0], asked.work, str(folder / "lake"), asked.cores)
            held.callback(peer.close)
        except Missing as error:
            print(error, flush=True)
        for gather in asked.gather:
            yield measure(place, OURS, None, gather, asked.rate, asked.seconds)
            if peer is not None and gather in (asked.gather[0], asked.gather[-1]):
                yield measure(place, peer.peer.name, peer, gather, asked.rate, asked.seconds)


def main() -> None:
    """Measure, print the table, and write it into the page where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=made_folder, required=True)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rate", type=int, default=1000, help="rows a second")
    parser.add_argument("--gather", type=int, nargs="+", default=[0, 250, 500, 1000], help="ms between commits")
    parser.add_argument("--kinds", nargs="+", choices=list(PEERS), default=list(PEERS))
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--write-docs", action="store_true")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ended by whatever: all that was started ends, too
    before = os.getloadavg()[0]
    found: list[Latency] = []
    with a_broker(asked.work / "broker") as broker:
        for kind in asked.kinds:
            for one in measure_kind(kind, asked, broker.address):
                found.append(one)
                print(json.dumps(asdict(one)), flush=True)
    machine = f"{describe_machine(asked.cores)}{describe_load(before, os.getloadavg()[0])}; {time.strftime('%Y-%m-%d')}"
    lines = list(table(found, machine, asked.rate))
    print("\n".join(lines))
    if asked.write_docs:
        PAGE.write_text(between_markers(PAGE.read_text(), "latency", lines))


if __name__ == "__main__":
    main()

"""Measures reading and publishing on Kafka beside other engines, and writes docs/project/benchmarks-kafka.md.

``python -m benchmarks.kafka --work DIR [--messages 5000000] [--rounds 3] [--write-docs]``. Starts a broker, fills a
topic with JSON and one with Avro, and has everybody filter and count them per page, in turn: whatever else the machine
does hits all of them. Results are compared with a model. Environments and jars of the peers stay under DIR; all else is
deleted at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.arguments import made_folder
from benchmarks.kafka_ours import OnSpark, WithoutSpark
from benchmarks.kafka_peers import PEERS
from benchmarks.kafka_report import OURS, Line, Report, write_page
from benchmarks.kafka_topics import FORMATS, POOL, PerPage, create, expected, messages_in, pool
from benchmarks.machine import describe_load, describe_machine
from benchmarks.peer_process import Missing, Peer, PeerProcess
from demo.kafka import Kafka

_SLOW = 20
"""Whose share is that small is measured once, without a round that warms up: it takes long enough."""

_POOLS_PUBLISHED = 4
"""Pools of views that are published: a million."""


@dataclass
class Contender:
    """Somebody who is measured; ``share``: they get one part of n of the messages."""

    name: str
    what: str
    run: Callable[[str, str, int], tuple[float, PerPage]]
    share: int = 1
    failed: str = ""
    lines: dict[str, Line] = field(default_factory=dict)


def topic_of(format_: str, messages: int) -> str:
    """Return the name of a topic of so many messages."""
    return f"views-{format_}-{messages}"


def size(messages: int, share: int) -> int:
    """Return a multiple of the pool, the share of the messages at least."""
    return max(1, messages // share // POOL) * POOL


def fill(address: str, sizes: Sequence[int]) -> None:
    """Make the topics, and fill them, one process per format at a time."""
    create(address, [topic_of(format_, one) for format_ in FORMATS for one in sizes])
    for one in sizes:
        command = [sys.executable, "-m", "benchmarks.kafka_topics", address]
        senders = [
            subprocess.Popen([*command, topic_of(format_, one), format_, str(one)], stderr=subprocess.DEVNULL)
            for format_ in FORMATS
        ]
        if any(sender.wait() for sender in senders):
            raise SystemExit(f"The topics of {one:,} messages could not be filled.")
        for format_ in FORMATS:
            found = messages_in(address, topic_of(format_, one))
            if found != one:
                raise SystemExit(f"The topic {topic_of(format_, one)} has {found:,} messages, not {one:,}.")


def measure(contenders: Sequence[Contender], messages: int, rounds: int) -> None:
    """Let everybody read every topic in turn; the first round is over a pool, warms up and does not count."""
    for number in range(rounds + 1):
        for format_ in FORMATS:
            for who in contenders:
                if who.failed or (who.share >= _SLOW and number != 1):
                    continue
                count = size(messages, who.share) if number else POOL
                try:
                    seconds, pages = who.run(format_, topic_of(format_, count), count)
                except Missing as error:
                    who.failed = str(error)
                    print(error, flush=True)
                    continue
                if pages != expected(count):
                    raise SystemExit(f"{who.what} counts otherwise than the model, over {format_}.")
                said = {"who": who.name, "format": format_, "messages": count, "seconds": round(seconds, 3)}
                print(json.dumps({**said, "warm": number > 0}), flush=True)
                if number:
                    who.lines.setdefault(format_, Line(count)).seconds.append(seconds)


def publish(ours: OnSpark, spark: PeerProcess | None, work: Path, address: str, rounds: int) -> dict[str, Line]:
    """Let ours and Spark's sink send a million views as JSON to topics, in turn."""
    views = work / "data" / "views.parquet"
    views.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_batches([pool()] * _POOLS_PUBLISHED), views, row_group_size=POOL // 2)
    count = POOL * _POOLS_PUBLISHED
    found: dict[str, Line] = {}
    for number in range(rounds + 1):
        for name in ("exactly_once", "at_least_once", "spark"):
            topic = f"published-{name}-{number}"
            create(address, [topic])
            if name != "spark":
                seconds = ours.publish(name, topic, views)
            elif spark is not None:
                seconds = spark.ask("write", f"{views}>{topic}", count)[0]
            else:
                continue
            if messages_in(address, topic) < count:
                raise SystemExit(f"{topic} does not have {count:,} messages.")
            said = {"who": name, "messages": count, "seconds": round(seconds, 3), "warm": number > 0}
            print(json.dumps({"publish": said}), flush=True)
            if number:
                found.setdefault(name, Line(count)).seconds.append(seconds)
    return found


@contextmanager
def a_broker(folder: Path) -> Iterator[Kafka]:
    """Run a broker in a folder that is new, and is gone at the end."""
    shutil.rmtree(folder, ignore_errors=True)
    broker = Kafka(folder)
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    """Measure, print the table, and write the page where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=made_folder, required=True, help="where the peers' environments stay")
    parser.add_argument("--messages", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--only", nargs="+", help="names of peers: spark, flink, bytewax, quix")
    parser.add_argument("--write-docs", action="store_true")
    asked = parser.parse_args()
    work, messages = asked.work, size(asked.messages, 1)
    before, began = os.getloadavg()[0], time.monotonic()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ended by whatever: all that was started ends, too
    with ExitStack() as held:
        held.callback(shutil.rmtree, work / "running", ignore_errors=True)
        held.callback(shutil.rmtree, work / "data", ignore_errors=True)
        broker = held.enter_context(a_broker(work / "broker"))
        peers: dict[str, PeerProcess] = {}
        missing = []
        for peer in PEERS:
            if asked.only is None or peer.name in asked.only:
                try:
                    peers[peer.name] = PeerProcess(peer, work, broker.address, asked.cores)
                    held.callback(peers[peer.name].close)
                except Missing as error:
                    missing.append(str(error))
                    print(error, flush=True)
        ours = OnSpark(work / "running", broker.address, asked.cores)
        held.callback(ours.close)
        alone = WithoutSpark(work / "running", broker.address)
        contenders = [
            Contender(OURS, f"airflow_samza, Spark `local[{asked.cores}]`", ours.run),
            Contender("alone", "airflow_samza, one process without Spark (one core)", alone.run),
            *(_contender(peers[peer.name]) for peer in PEERS if peer.name in peers),
        ]
        fill(broker.address, sorted({POOL, *(size(messages, who.share) for who in contenders)}))
        measure(contenders, messages, asked.rounds)
        published = publish(ours, peers.get("spark"), work, broker.address, asked.rounds)
    versions = ", ".join(process.versions for process in peers.values())
    load = describe_load(before, os.getloadavg()[0])
    found = Report(
        f"{describe_machine(asked.cores)}, {versions}{load}",
        time.strftime("%Y-%m-%d"),
        {who.name: who.what for who in contenders},
        {who.name: who.lines for who in contenders},
        published,
        [*missing, *(who.failed for who in contenders if who.failed)],
    )
    print("\n".join(found.table()))
    print(f"{time.monotonic() - began:.0f} s in all")
    if asked.write_docs:
        write_page(found)


def _contender(process: PeerProcess) -> Contender:
    peer: Peer = process.peer
    return Contender(peer.name, peer.what, process.ask, peer.share)


if __name__ == "__main__":
    main()

"""The work of :mod:`benchmarks.kafka` in Bytewax: ``python kafka_bytewax.py ADDRESS WORKERS``.

A process per worker, as Python's lock asks for; messages are taken batch by batch and counted in it first.
"""

from __future__ import annotations

import multiprocessing
import socket
import sys
from collections.abc import Callable, Iterator
from typing import Any

from bytewax import operators as op
from bytewax._bytewax import cluster_main
from bytewax.connectors.kafka import KafkaSource
from bytewax.dataflow import Dataflow
from bytewax.testing import TestingSink
from kafka_work import CLIENT, SLOW_MS, parser_of
from serving import Pages, serve

Counted = tuple[int, int]


def flow(address: str, format_: str, topic: str, out: list[tuple[str, Counted]]) -> Dataflow:
    """Return the dataflow."""
    parse = parser_of(format_)

    def per_page(batch: list[Any]) -> Iterator[tuple[str, Counted]]:
        found: dict[int, Counted] = {}
        for message in batch:
            view = parse(message.value)
            millis = view["dwell_ms"]
            if millis > SLOW_MS:
                views, total = found.get(view["page_id"], (0, 0))
                found[view["page_id"]] = views + 1, total + millis
        return ((str(page), counted) for page, counted in found.items())

    made = Dataflow("views")
    source = KafkaSource([address], [topic], tail=False, add_config=dict(CLIENT), batch_size=10_000)
    counted = op.flat_map_batch("per-batch", op.input("views", made, source), per_page)
    summed = op.reduce_final("per-page", counted, lambda one, other: (one[0] + other[0], one[1] + other[1]))
    op.output("out", summed, TestingSink(out))
    return made


def worker(
    address: str, format_: str, topic: str, cluster: list[str], number: int, results: multiprocessing.Queue[Any]
) -> None:
    """Run one worker, and hand over what it found."""
    out: list[tuple[str, Counted]] = []
    cluster_main(flow(address, format_, topic, out), cluster, number)
    results.put(out)


def free_addresses(count: int) -> list[str]:
    """Return addresses for the workers of a cluster."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]
    finally:
        for one in sockets:
            one.close()


def main(address: str, workers: str) -> None:
    """Serve requests."""

    def work(format_: str, topic: str, messages: int) -> Callable[[], Pages]:
        cluster = free_addresses(int(workers))
        results: multiprocessing.Queue[Any] = multiprocessing.Queue()
        processes = [
            multiprocessing.Process(target=worker, args=(address, format_, topic, cluster, number, results))
            for number in range(len(cluster))
        ]
        for process in processes:
            process.start()
        found = [counted for _ in processes for counted in results.get()]
        for process in processes:
            process.join()
        return lambda: ((int(page), views, millis) for page, (views, millis) in found)

    serve(work)


if __name__ == "__main__":
    main(*sys.argv[1:])

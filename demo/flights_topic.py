"""A topic of Kafka with the flights: ``python -m demo.flights_topic BROKER`` makes and fills the topic ``flights``.

A message is a scheduled departure: JSON, keyed by the plane's tail number, and its timestamp is the time (UTC) for
which the departure was scheduled. They come when the flights leave, so timestamps are in no order within a day.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from demo.flights_data import read_flights

TOPIC = "flights"
PARTITIONS = 3
COLUMNS = ("carrier", "flight", "tailnum", "origin", "dest", "dep_delay", "arr_delay")

_SECONDS = 60.0
_WAITING = 50_000
"""Messages that the client holds until the broker has taken them."""

Flight = dict[str, Any]


def flights() -> list[Flight]:
    """Return all flights as they left, each day's cancelled ones at its end.

    ``month`` and ``day`` are local, ``at`` is the time for which a departure was scheduled (ms since 1970).
    """
    table = read_flights()
    table = table.take(pc.sort_indices(table, [(name, "ascending") for name in ("month", "day", "dep_time", "flight")]))
    hours = table["time_hour"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
    at = pc.add(hours, pc.multiply(table["minute"], 60_000))
    rows: list[Flight] = table.select([*COLUMNS, "month", "day"]).append_column("at", at).to_pylist()
    return rows


def fill(address: str, rows: Iterable[Flight], topic: str = TOPIC) -> int:
    """Make the topic and send flights to it; returns the number of messages."""
    from confluent_kafka.admin import AdminClient, NewTopic

    # Without a retention of its own the brokers would delete messages of 2013 at once.
    made = NewTopic(topic, PARTITIONS, 1, config={"retention.ms": "-1"})
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([made])[topic].result(_SECONDS)
    return send(address, rows, topic)


def send(address: str, rows: Iterable[Flight], topic: str = TOPIC) -> int:
    """Send flights to the topic; returns the number of messages."""
    from confluent_kafka import Producer

    settings = {"enable.idempotence": True, "linger.ms": 50, "partitioner": "murmur2_random", "log_level": 3}
    producer = Producer({"bootstrap.servers": address, **settings})
    sent = 0
    for row in rows:
        value = json.dumps({name: row[name] for name in COLUMNS})
        while len(producer) >= _WAITING:
            producer.poll(0.1)
        producer.produce(topic, value, row["tailnum"], timestamp=row["at"])
        sent += 1
    if left := producer.flush(_SECONDS):
        raise RuntimeError(f"The broker {address} has not taken {left} messages in {_SECONDS:.0f} s.")
    return sent


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("Usage: python -m demo.flights_topic HOST:PORT")
    print(f"{fill(sys.argv[1], flights()):,} messages are in the topic {TOPIC!r}.")

"""The steps of a publication on Kafka, at each of which something may happen to its process, or to the broker.

``python -m tests.support.publication_steps ADDRESS ROOT TOPIC STAGED STEP TIMES DELIVERY SIGNAL`` publishes epochs, and
is sent the signal when it reaches a step for the nth time.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

from confluent_kafka import Producer

from airflow_samza.errors import SamzaError
from airflow_samza.systems.kafka import publication as module, writing
from airflow_samza.systems.kafka.markers import TOPIC
from tests.support.kafka_outputs import outputs, publication, stream

CHUNK = 40
"""Messages of a transaction."""

STEPS = {
    "init": [1],
    "initialized": [1],
    "begin": [1, 5],
    "message": [1, 190],
    "flushed": [1, 4],
    "marker": [1, 4],
    "commit": [1, 4],
    "committed": [1, 3, 4],
}
"""Steps, and the how manieth of the kind something happens at, in three epochs of a hundred messages.

``flushed``: the messages of a transaction have come, and its marker has not. ``commit``: so has its marker, and it is
not committed. ``committed``: it is, and nobody knows; the third one is the last of its epoch, whose staged messages are
there still.
"""


def watched_producer(reach: Callable[[str, int], None]) -> type[Producer]:
    """A client that calls ``reach`` with each step, just before it, and how many times it was reached."""
    times = Counter[str]()

    def reached(step: str) -> None:
        times[step] += 1
        reach(step, times[step])

    class Watched(Producer):
        def init_transactions(self, *arguments: Any) -> None:
            reached("init")
            super().init_transactions(*arguments)
            reached("initialized")

        def begin_transaction(self) -> None:
            reached("begin")
            super().begin_transaction()

        def produce(self, topic: str, *arguments: Any, **more: Any) -> None:
            reached("marker" if topic == TOPIC else "message")
            super().produce(topic, *arguments, **more)

        def flush(self, *arguments: Any) -> int:
            found = super().flush(*arguments)
            reached("flushed")
            return found

        def commit_transaction(self, *arguments: Any) -> None:
            super().flush(10)  # the marker, too, has come
            reached("commit")
            super().commit_transaction(*arguments)
            reached("committed")

    return Watched


def watch(reach: Callable[[str, int], None]) -> None:
    """Have all publications of this process call ``reach``."""
    setattr(writing, "Producer", watched_producer(reach))  # noqa: B010


def signalled(step: str, times: int, number: int) -> Callable[[str, int], None]:
    """Returns what sends this process a signal at a step."""

    def reach(found: str, count: int) -> None:
        if (found, count) == (step, times):
            os.kill(os.getpid(), number)

    return reach


def main(address: str, root: str, topic: str, staged: str, step: str, times: str, delivery: str, number: str) -> int:
    """Publishes the epochs; the exit code is 3 when another process was to publish them."""
    module.CHUNK_ROWS = CHUNK
    watch(signalled(step, int(times), signal.Signals[number]))
    found, spec = outputs(address, root), stream(topic, delivery=delivery)
    try:
        for epoch, described in enumerate(json.loads(staged)):
            found.publish(spec, publication({int(task): one for task, one in described.items()}, epoch))
    except SamzaError as error:
        print(error, file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

"""The work of :mod:`benchmarks.kafka` in Quix Streams: ``python kafka_quix.py ADDRESS STATE_FOLDER``.

The topic is keyed by page already, so the sums per page are states of its own partitions. One process: it has no other
way to use two cores than a second one in its consumer group.
"""

from __future__ import annotations

import logging
import sys
import uuid
from collections.abc import Callable
from typing import Any

from kafka_work import AVRO, CLIENT, SLOW_MS
from quixstreams import Application, State
from quixstreams.models import IntegerDeserializer
from quixstreams.models.serializers.avro import AvroDeserializer
from serving import Pages, serve


def main(address: str, folder: str) -> None:
    """Serve requests."""

    def work(format_: str, topic: str, messages: int) -> Callable[[], Pages]:
        name = f"bench-{uuid.uuid4().hex}"
        app = Application(
            broker_address=address,
            consumer_group=name,
            state_dir=f"{folder}/{name}",
            auto_offset_reset="earliest",
            use_changelog_topics=False,
            consumer_extra_config=dict(CLIENT),
            loglevel=logging.WARNING,
        )
        views = app.topic(
            topic,
            key_deserializer=IntegerDeserializer(),
            value_deserializer="json" if format_ == "json" else AvroDeserializer(AVRO),
        )
        found: dict[int, tuple[int, int]] = {}
        seen = 0

        def add(view: dict[str, Any], state: State) -> None:
            count, total = state.get("views", 0) + 1, state.get("millis", 0) + view["dwell_ms"]
            state.set("views", count)
            state.set("millis", total)
            found[view["page_id"]] = count, total

        def note(view: dict[str, Any]) -> None:
            nonlocal seen
            seen += 1
            if seen == messages:
                app.stop()

        frame = app.dataframe(views).update(note)
        frame = frame[frame["dwell_ms"] > SLOW_MS]
        frame.update(add, stateful=True)
        app.run(collect=False)
        return lambda: ((page, count, total) for page, (count, total) in found.items())

    serve(work)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Applications whose tables are fed by topics of Kafka, and the plain model of a compacted topic."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from airflow_samza import change_events, debezium, stream_application
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.systems.system import StreamSpec, SystemBinding
from tests.support.kafka_topics import Sent, Topics, offsets as offsets_of, read
from tests.support.runs_here import Here
from tests.support.waiting import until

APPS = "tests.support.kafka_side_inputs"
ROWS = "id bigint, tier string"
QUICK = {"cleanup_policy": "compact", "segment_ms": "100", "min_cleanable_dirty_ratio": "0.01"}
"""Settings of a topic that is compacted soon after a test has asked for it."""


def key_of(number: int) -> bytes:
    """A key as Kafka's serializer of whole numbers (64 bits) writes it."""
    return struct.pack(">q", number)


def change(number: int, tier: str | None) -> Sent:
    """A message that sets or (None) deletes the row of a key; its partition is the one of the views of the key."""
    value = None if tier is None else json.dumps({"id": number, "tier": tier})
    return Sent(value, key_of(number), partition=number % 2)


def changes(seed: int, count: int, keys: int = 40) -> list[tuple[int, str | None]]:
    """Random changes; a third of them deletes."""
    chance = random.Random(seed)
    return [(chance.randrange(keys), None if chance.random() < 1 / 3 else f"t{n}") for n in range(count)]


def model(found: Iterable[tuple[int, str | None]]) -> dict[int, str]:
    """The rows that changes leave."""
    rows = dict(found)
    return {number: tier for number, tier in rows.items() if tier is not None}


def _profiled(app: Any, views: dict[str, Any], side: dict[str, Any], **table: Any) -> None:
    found = app.input_stream("views", system="events", schema="id bigint", key="id", **views)
    changed = app.side_input("changes", system="events", schema=ROWS, key="id", **side)
    profiles = app.table("profiles", key="id", side_inputs=[changed], **table)
    found.join(profiles, how="left", id="with-profile").send_to(app.output_stream("scored", system="log", partitions=1))


profiled = stream_application("profiled")(lambda app: _profiled(app, {}, {}))
again = stream_application("again")(lambda app: _profiled(app, {}, {}))
by_key = stream_application("profiled")(lambda app: _profiled(app, {}, {"options": {"key_column": "id"}}))
dropping = stream_application("profiled")(lambda app: _profiled(app, {}, {"on_error": "drop"}))
followed = stream_application("followed")(
    lambda app: _profiled(app, {"slice": "checkpoint"}, {"bounded": False}),
)


class Latest:
    """A processor that keeps the last tier of each key; a message that deletes is None."""

    def __init__(self, config: Any, metrics: Any) -> None:
        pass

    def process(self, message: Any, store: Any) -> Any:
        yield message.key, None if message.message is None else {"tier": message.message.tier}


processed = stream_application("processed")(lambda app: _profiled(app, {}, {}, schema=ROWS, processor=Latest))


@stream_application("configured")
def configured(app: Any) -> None:
    """A table whose side inputs the configuration names."""
    found = app.input_stream("views", system="events", schema="id bigint", key="id")
    profiles = app.table("profiles", key="id", schema=ROWS)
    found.join(profiles, how="left", id="with-profile").send_to(app.output_stream("scored", system="log", partitions=1))


@stream_application("pushed-there")
def pushed_there(app: Any) -> None:
    """A pushed table that is to lie on Kafka."""
    found = app.input_stream("views", system="events", schema="id bigint", key="id")
    profiles = app.pushed_table("profiles", key="id", schema=ROWS, system="events", partitions=2)
    found.join(profiles, how="left", id="with-profile").send_to(app.output_stream("scored", system="log", partitions=1))


@stream_application("pushed-beside", default_system="events")
def pushed_beside(app: Any) -> None:
    """A pushed table of an application whose other streams are on Kafka."""
    found = app.input_stream("views", schema="id bigint", key="id").partition_by("id", id="by-id")
    profiles = app.pushed_table("profiles", key="id", schema=ROWS, partitions=2)
    found.join(profiles, how="left", id="with-profile").send_to(app.output_stream("scored", partitions=1))


@stream_application("counting")
def counting(app: Any) -> None:
    """A table of the keys that were seen."""
    found = app.input_stream("views", system="events", schema="id bigint", key="id")
    found.send_to(app.local_table("seen", key="id", schema="id bigint"))


class Profiles:
    """Runs that join views with the profiles of a topic, under one root."""

    def __init__(self, root: Path, topics: Topics, **settings: str) -> None:
        self.topics = topics
        self.here = Here(root, bindings={"events": SystemBinding("kafka", {"bootstrap.servers": topics.address})})
        self.views = topics.make("views", partitions=2)
        self.changes = topics.make("changes", partitions=2, **settings)
        self._run = 0

    def view(self, numbers: Iterable[int]) -> None:
        sent = [Sent(json.dumps({"id": number}), key_of(number), partition=number % 2) for number in numbers]
        self.topics.send(self.views, sent)

    def change(self, found: Iterable[tuple[int, str | None]]) -> None:
        self.topics.send(self.changes, [change(*one) for one in found])

    def plan(
        self,
        application: str = "profiled",
        host: Path | None = None,
        more: dict[str, str] | None = None,
        **options: Any,
    ) -> RunPlan:
        """A plan of the next run; ``host`` is the folder of what a host keeps, ``more`` further configuration."""
        self._run += 1
        config = {
            "streams.views.samza.physical.name": self.views,
            "streams.changes.samza.physical.name": self.changes,
            **({"streams.again.samza.physical.name": self.changes} if application.startswith("of_") else {}),
            **({} if host is None else {"job.store.local.dir": str(host)}),
            **(more or {}),
        }
        return self.here.plan(f"{APPS}:{application}", f"run-{self._run}", config=config, **options)

    def whole(self, application: str = "profiled", **more: Any) -> RunPlan:
        plan = self.plan(application, **more)
        self.here.stages(plan)
        self.here.runtime.close(plan)
        return plan

    def tiers(self) -> dict[int, str | None]:
        """The tier that the last views of each key got."""
        return {row["id"]: row["tier"] for row in self.here.rows("scored")}

    def compact(self, topic: str, offsets: Sequence[int]) -> None:
        """Waits until of partition 0 no message of these offsets is left; a filler closes the segment before it."""

        def gone() -> bool:
            self.topics.send(topic, [Sent(json.dumps({"id": 998, "tier": "z"}), key_of(998))])
            left = offsets_of(read(self.topics.system, StreamSpec(topic, schema=ROWS)))
            return not set(left) & set(offsets)

        until(gone, 60)


def _captured(app: Any, form: Any, columns: str) -> None:
    """Changes of a topic as a stream, in their order, and as a table."""
    topic = {"system": "events", "schema": columns, "changes": form}
    stream = app.input_stream("changes", slice="checkpoint", **topic).partition_by("id", id="by-id")
    stream.apply_changes("id", sequence_by="lsn", id="in-order").send_to(
        app.output_stream("applied", system="log", partitions=1)
    )
    changed = app.side_input("again", key="id", **topic)
    profiles = app.table("profiles", key="id", side_inputs=[changed], sequence_by="lsn")
    found = app.input_stream("views", system="events", schema="id bigint", key="id", slice="checkpoint")
    found.join(profiles, how="left", id="with-profile").send_to(app.output_stream("scored", system="log", partitions=1))


of_debezium = stream_application("of-debezium")(
    lambda app: _captured(app, debezium(columns={"lsn": "source.lsn"}), f"{ROWS}, lsn bigint")
)
of_columns = stream_application("of-columns")(lambda app: _captured(app, change_events(), f"{ROWS}, lsn bigint"))

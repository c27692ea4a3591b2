"""Applications with tables that they write: in one operator written and in another looked up.

Read, changed and written again.
"""

from __future__ import annotations

from typing import Any

from airflow_samza import StreamTask, stream_application, task_application

FACT = "id bigint, payload string"
VISIT = "id bigint, n bigint"
KNOWN = "id bigint, n bigint, payload string"
SEEN = "id bigint, n bigint, nth bigint"


def known(visit: Any, fact: Any) -> dict[str, Any]:
    return {"id": visit.id, "n": visit.n, "payload": None if fact is None else fact.payload[-8:]}


def describe(app: Any, bounded: bool) -> None:
    facts = app.input_stream("facts", system="log", schema=FACT, key="id", partitions=4, bounded=bounded)
    visits = app.input_stream("visits", system="log", schema=VISIT, key="id", partitions=4, bounded=bounded)
    table = app.local_table("facts-by-id", key="id", schema=FACT)
    facts.send_to(table)
    joined = visits.join(table, known, id="known", how="left", schema=KNOWN)
    joined.send_to(app.output_stream("known", system="log", schema=KNOWN, partitions=4, key="id"))


@stream_application("written-and-joined")
def written_and_joined(app: Any) -> None:
    describe(app, True)


@stream_application("written-and-joined-on")
def written_and_joined_on(app: Any) -> None:
    describe(app, False)


def nth(visit: Any, row: Any) -> dict[str, Any]:
    return {"id": visit.id, "n": visit.n, "nth": 1 if row is None else row.nth + 1}


def count(app: Any, bounded: bool) -> None:
    visits = app.input_stream("visits", system="log", schema=VISIT, key="id", partitions=4, bounded=bounded)
    table = app.local_table("seen", key="id", schema=SEEN)
    counted = visits.join(table, nth, id="counted", how="left", schema=SEEN)
    counted.send_to(table)
    counted.send_to(app.output_stream("seen-so-far", system="log", schema=SEEN, partitions=4, key="id"))


@stream_application("read-and-written")
def read_and_written(app: Any) -> None:
    count(app, True)


@stream_application("read-and-written-on")
def read_and_written_on(app: Any) -> None:
    count(app, False)


class Counting(StreamTask):
    """The same by a low-level task."""

    def init(self, context: Any) -> None:
        self.seen = context.get_table("seen")

    def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
        visit = envelope.message
        row = nth(visit, self.seen.get(visit.id))
        self.seen.put(visit.id, row)
        collector.send("seen-so-far", row)


def low_level(bounded: bool) -> Any:
    def describe(app: Any) -> None:
        app.input_stream("visits", system="log", schema=VISIT, key="id", partitions=4, bounded=bounded)
        app.local_table("seen", key="id", schema=SEEN)
        app.output_stream("seen-so-far", system="log", schema=SEEN, partitions=4, key="id")
        app.task(Counting)

    return task_application("by-a-task" if bounded else "by-a-task-on")(describe)


by_a_task, by_a_task_on = low_level(True), low_level(False)

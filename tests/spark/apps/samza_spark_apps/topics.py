"""Applications that read and write topics of Kafka."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa

from airflow_samza import count, stream_application, sum_

VIEWS = "id bigint, member_id bigint, dwell_ms bigint"


@stream_application("dwelling")
def dwelling(app: Any) -> None:
    """A stage that reads a topic, and one that writes another."""
    views = app.input_stream("views", system="events", schema=VIEWS)
    (
        views.where("dwell_ms >= 10")
        .partition_by("member_id", id="by-member")
        .aggregate("member_id", views=count(), dwell=sum_("dwell_ms"), id="per-member")
        .send_to(app.output_stream("members", system="events", key="member_id"))
    )


@stream_application("dwelling-between")
def dwelling_between(app: Any) -> None:
    """Stages over a repartition, a second one and a join, all of whose topics lie with the brokers."""
    app.default_system("events")
    views = app.input_stream("views", system="log", schema=VIEWS)
    by_member = views.where("dwell_ms >= 10").partition_by("member_id", id="by-member")
    per_member = by_member.aggregate("member_id", views=count(), dwell=sum_("dwell_ms"), id="per-member")
    per_member.send_to(app.output_stream("members", system="log", partitions=2, key="member_id"))
    per_count = per_member.select("views AS n", "dwell", id="counted").partition_by("n", id="by-count")
    per_count.aggregate("n", members=count(), dwell=sum_("dwell"), id="per-count").send_to(
        app.output_stream("histogram", system="log", partitions=1)
    )


def with_worker(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Add the process, and the clients of Kafka that live in it, by their main threads."""
    threads = [path.parent.name for path in Path("/proc/self/task").glob("*/comm") if "rdk:main" in path.read_text()]
    names = pa.array([f"{os.getpid()} {' '.join(sorted(threads))}"] * batch.num_rows)
    return pa.record_batch({"id": batch["id"], "worker": names})


@stream_application("passing-on")
def passing_on(app: Any) -> None:
    """From a topic that goes on to another one."""
    views = app.input_stream("views", system="events", schema=VIEWS, bounded=False)
    views.map_batches(with_worker, schema="id bigint, worker string", id="with-worker").send_to(
        app.output_stream("seen", system="events", partitions=1)
    )


@stream_application("taking-in")
def taking_in(app: Any) -> None:
    """From a topic into the log."""
    views = app.input_stream("views", system="events", schema=VIEWS)
    views.where("id >= 0", id="good").send_to(app.output_stream("taken", system="log", partitions=1))

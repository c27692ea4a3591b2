"""An application that tests edit between a run and one that is compared with it."""

from __future__ import annotations

from typing import Any

from airflow_samza import StreamTask, count, stream_application, sum_, task_application, tumbling, unique

EDIT: dict[str, Any] = {}
"""The edits: the ``select`` of the rows, a ``where``, more outputs (``more``), and parameters of the output (``out``)."""

USUAL = ("n", "n * 10 as cents", "concat('n', n) as name")


def _edited(rows: Any) -> Any:
    rows = rows.where(EDIT["where"]) if "where" in EDIT else rows
    return rows.select(*EDIT.get("select", USUAL))


def _daily(app: Any) -> Any:
    path = EDIT.get("path", "in/{ds}.jsonl")
    return _edited(app.input_stream("rows", system="lake", schema="n bigint", path=path, partitions=1))


def _send(app: Any, rows: Any, **output: Any) -> None:
    rows.send_to(app.output_stream("out", **{"expect": [unique("n")], **output, **EDIT.get("out", {})}))
    if "more" in EDIT:
        rows.send_to(app.output_stream(EDIT["more"], system="log", partitions=1))


@stream_application("sales")
def sales(app: Any) -> None:
    """Write the rows of a day to files, and their sums by tens to a log, from a second stage."""
    rows = _daily(app)
    _send(app, rows, system="lake", path="out", format="parquet")
    summed = rows.select("cast(floor(n / 10) as bigint) as tens", "cents").partition_by("tens", id="by-tens")
    sums = summed.aggregate("tens", id="sums", cents=sum_("cents"), sales=count())
    sums.send_to(app.output_stream("sums", system="log", partitions=1))


@stream_application("sales")
def sales_as_json(app: Any) -> None:
    """Write the rows of a day to files of JSON."""
    _send(app, _daily(app), system="lake", path="out", format="json")


@stream_application("sales")
def sales_in_log(app: Any) -> None:
    """Write the rows of a day to a topic of the log."""
    _send(app, _daily(app), system="log", partitions=2, key="n")


@stream_application("sales")
def sales_in_iceberg(app: Any) -> None:
    """Write the rows of a day to a table of a catalog."""
    table = {"table": "web.sales", "create": True, "partition_by": "name", "run_column": "run"}
    _send(app, _daily(app), system="tables", **table)


@stream_application("sales")
def sales_in_delta(app: Any) -> None:
    """Write the rows of a day to a table in a folder."""
    _send(app, _daily(app), system="deltas", table="web.sales", create=True, partition_by="name")


@stream_application("other-sales")
def other_sales(app: Any) -> None:
    """Write, as another application, to the place of the first."""
    _send(app, _daily(app), system="lake", path="out", format="parquet")


class _Tallying(StreamTask):
    """Says of every event how often its number has come."""

    def init(self, context: Any) -> None:
        self.counts = context.get_store("counts")

    def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
        n = envelope.message.n
        times = (self.counts.get(n) or 0) + 1
        self.counts.put(n, times)
        collector.send("tally", {"n": n, "times": times * EDIT.get("factor", 1)})


@task_application("tally")
def tally(app: Any) -> None:
    """Count what has come of each number since the first run."""
    app.input_stream("events", system="log", schema="n bigint", key="n", slice="checkpoint")
    app.output_stream("tally", system="log", schema="n bigint, times bigint", key="n", partitions=2)
    app.store("counts", key="bigint", value="bigint")
    app.task(_Tallying)


@stream_application("either")
def either(app: Any) -> None:
    """Count events by minutes, in runs with an end and without."""
    events = app.input_stream(
        "events", system="log", schema="n bigint, at timestamp", timestamp="at", max_delay="1 hour", key="n"
    )
    minutes = events.partition_by("n", id="by-n").window(tumbling("1 minute"), key="n", times=count(), id="minutes")
    minutes.where(EDIT.get("where", "true")).send_to(app.output_stream("minutes", system="log", partitions=1))


@stream_application("lake-copy")
def lake_copy(app: Any) -> None:
    """Copy a table, or what was appended to it since the run before."""
    rows = app.input_stream("views", system="tables", table="web.views", **EDIT.get("input", {}))
    rows.where(EDIT.get("where", "true")).send_to(
        app.output_stream("copy", system="log", schema="n bigint", partitions=1, expect=[unique("n")])
    )


@stream_application("looked-up")
def looked_up(app: Any) -> None:
    """Join events with a pushed table."""
    events = app.input_stream("events", system="log", schema="id bigint", key="id")
    profiles = app.pushed_table("profiles", key="id", schema="id bigint, tier string", partitions=2)
    joined = events.join(profiles, how="left", id="profiled").select("id", EDIT.get("tier", "tier"))
    joined.send_to(app.output_stream("profiled", system="log", partitions=1, key="id"))


@stream_application("minutes-of-files")
def minutes_of_files(app: Any) -> None:
    """Count rows of files by minutes, in runs with an end and without."""
    events = app.input_stream(
        "events",
        system="lake",
        path="in/**",
        format="json",
        schema="n bigint, at timestamp",
        timestamp="at",
        max_delay="1 hour",
        partitions=2,
    )
    minutes = events.partition_by("n", id="by-n").window(tumbling("1 minute"), key="n", times=count(), id="minutes")
    minutes.where(EDIT.get("where", "true")).send_to(app.output_stream("minutes", system="log", partitions=1))

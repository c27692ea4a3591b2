"""Applications that write what a run reads for its data interval, all into one folder or topic, for tests."""

from __future__ import annotations

from typing import Any

from airflow_samza import count, stream_application

OUTPUT: dict[str, Any] = {}
"""Parameters of the output, which a test sets over the usual ones."""


def _copy(app: Any, **output: Any) -> None:
    rows = app.input_stream("rows", system="lake", schema="n bigint", path="in/{ds}.jsonl", partitions=1)
    rows.send_to(app.output_stream("out", schema="n bigint", **{**output, **OUTPUT}))


@stream_application("daily")
def daily(app: Any) -> None:
    """Copy the rows of a day into a folder of files."""
    _copy(app, system="lake", path="out")


@stream_application("daily-log")
def daily_log(app: Any) -> None:
    """Copy the rows of a day into a topic of the log."""
    _copy(app, system="log", partitions=1)


@stream_application("daily-table")
def daily_table(app: Any) -> None:
    """Copy the rows of a day into a table of a catalog."""
    _copy(app, system="tables", table="web.out", create=True)


@stream_application("daily-delta")
def daily_delta(app: Any) -> None:
    """Copy the rows of a day into a table in a folder."""
    _copy(app, system="deltas", table="web.out", create=True)


@stream_application("auditing")
def auditing(app: Any) -> None:
    """Copy what waits of a run of :func:`daily_delta` for its publication into a folder."""
    run = {"waiting": "daily-delta/{config[audited]}"}
    rows = app.input_stream("rows", system="deltas", table="web.out", options=run)
    rows.send_to(app.output_stream("out", system="lake", schema="n bigint", path="audited"))


@stream_application("others")
def others(app: Any) -> None:
    """Write, as another application, into the folder of :func:`daily`."""
    _copy(app, system="lake", path="out")


@stream_application("others-log")
def others_log(app: Any) -> None:
    """Write, as another application, into the topic of :func:`daily_log`."""
    _copy(app, system="log", partitions=1)


@stream_application("others-table")
def others_table(app: Any) -> None:
    """Write, as another application, into the table of :func:`daily_table`."""
    _copy(app, system="tables", table="web.out", create=True)


@stream_application("others-delta")
def others_delta(app: Any) -> None:
    """Write, as another application, into the table of :func:`daily_delta`."""
    _copy(app, system="deltas", table="web.out", create=True)


@stream_application("undated")
def undated(app: Any) -> None:
    """Copy a file into a folder, whatever the interval is."""
    rows = app.input_stream("rows", system="lake", schema="n bigint", path="in/2013-01-01.jsonl", partitions=1)
    rows.send_to(app.output_stream("out", system="lake", schema="n bigint", path="out"))


@stream_application("catching-up")
def catching_up(app: Any) -> None:
    """Copy into a folder what has come since the run before."""
    rows = app.input_stream("rows", system="lake", schema="n bigint", path="in/**", slice="checkpoint", partitions=1)
    rows.send_to(app.output_stream("out", system="lake", schema="n bigint", path="out"))


@stream_application("counting")
def counting(app: Any) -> None:
    """Write two outputs, of two stages, into one folder: the rows of a day, and how often each comes."""
    rows = app.input_stream("rows", system="lake", schema="n bigint", path="in/{ds}.jsonl", partitions=1)
    rows.send_to(app.output_stream("out", system="lake", schema="n bigint", path="out"))
    counted = rows.partition_by("n", id="by-n").aggregate("n", count=count(), id="count")
    counted.select("count + 1000 as n").send_to(app.output_stream("counts", system="lake", path="out"))


@stream_application("reading")
def reading(app: Any) -> None:
    """Copy what has come to the topic of :func:`daily_log` since the run before."""
    rows = app.input_stream("out", system="log", schema="n bigint", slice="checkpoint")
    rows.send_to(app.output_stream("copied", system="log", schema="n bigint", partitions=1))


@stream_application("sharing")
def sharing(app: Any) -> None:
    """Write what is read for a day into a stream that applications share."""
    rows = app.input_stream("rows", system="lake", schema="n bigint", path="in/{ds}.jsonl", partitions=1)
    rows.send_to(app.output_stream("shared", system="log", schema="n bigint", partitions=1, shared=True))


@stream_application("taking")
def taking(app: Any) -> None:
    """Copy the new sections of the stream of :func:`sharing`."""
    rows = app.shared_stream("shared", system="log", schema="n bigint")
    rows.send_to(app.output_stream("taken", system="log", schema="n bigint", partitions=1))

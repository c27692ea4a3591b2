"""Applications whose keys and event times are made anew, by callables, by Catalyst and behind it."""

from __future__ import annotations

from typing import Any

from airflow_samza import count, stream_application, tumbling

ROWS = "k bigint, at timestamp"


def _rows(app: Any, **more: Any) -> Any:
    return app.input_stream("rows", system="log", schema=ROWS, timestamp="at", partitions=2, **more)


@stream_application("columns-moved")
def moved(app: Any) -> None:
    """Count by a key that a callable has changed, behind a function of DataFrames."""
    changed = _rows(app).partition_by("k", id="by-k").map(lambda row: {"k": row.k // 2, "at": row.at}, schema=ROWS)
    counted = changed.transform(lambda frame: frame.where("k >= 0"), schema=ROWS).aggregate("k", id="n", n=count())
    counted.send_to(app.output_stream("out", system="log"))


@stream_application("columns-kept")
def kept(app: Any) -> None:
    """Count by a key that a callable has kept, under another name and behind a function of DataFrames."""
    same = _rows(app).partition_by("k", id="by-k").map(lambda row: {"k": row.k, "at": row.at}, schema=ROWS)
    renamed = same.transform(lambda frame: frame.where("k >= 0"), schema=ROWS).select("k AS kk", "at")
    renamed.aggregate("kk", id="n", n=count()).send_to(app.output_stream("out", system="log"))


@stream_application("columns-days")
def days(app: Any) -> None:
    """Count by days that an expression of Catalyst makes the event time, in catch-up runs."""
    rows = _rows(app, bounded=False, max_delay="0 seconds", slice="checkpoint")
    made = rows.select("k", "to_timestamp(date_format(at, 'yyyy-MM-dd')) AS at", timestamp="at", max_delay="1 day")
    windows = made.partition_by("k", id="by-k").window(tumbling("1 day"), key="k", id="days", n=count())
    windows.send_to(app.output_stream("out", system="log"))

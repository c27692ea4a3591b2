"""One application with a stage for each thing to be shown, so that all tests can share one run and its runner."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Any

from airflow_samza import count, stream_application, sum_
from samza_spark_apps.limits import LONG_MS


@dataclass(frozen=True)
class View:
    member_id: int
    country: str
    dwell_ms: int


def shout(view: View) -> View:
    return View(view.member_id, view.country.upper(), view.dwell_ms)


def is_long(view: View) -> bool:
    return bool(view.dwell_ms > LONG_MS)


def wait_for_the_flag(view: View) -> bool:
    """Holds the task until the test lets it go; the flag's file is named by the country column."""
    open(view.country + ".entered", "a").close()
    while not os.path.exists(view.country):
        time.sleep(0.02)
    return True


def reject_member_13(view: View) -> View:
    if view.member_id == 13:
        raise ValueError("no thirteen")
    return view


def only_long(frame: Any) -> Any:
    return frame.where("dwell_ms > 1000").withColumn("initial", frame["country"].substr(1, 1))


def counted(frame: Any) -> Any:
    return frame.groupBy("country").count()


def views_of(app: Any, name: str, path: str = "views") -> Any:
    return app.input_stream(name, system="lake", schema=View, partitions=2, path=path)


@stream_application("spark-two-stages")
def two_stages(app: Any) -> None:
    (
        views_of(app, "views")
        .where("dwell_ms > 100")
        .map(shout)
        .filter(is_long)
        .partition_by("country", id="by-country")
        .aggregate("country", views=count(), dwell=sum_("dwell_ms"), id="per-country")
        .send_to(app.output_stream("per-country", system="lake", path="out/per-country", format="parquet"))
    )


@stream_application("spark-views")
def everything(app: Any) -> None:
    two_stages.describe(app)
    (
        views_of(app, "for-sql")
        .where("rlike(country, '^(nl|d.)$') AND dwell_ms >= 0")
        .select("country", "member_id + 1 AS next", "regexp_replace(country, 'n', 'N') AS shown")
        .filter(lambda row: row.next % 2 == 0)
        .send_to(app.output_stream("by-sql", system="lake", path="out/by-sql", format="parquet"))
    )
    (
        views_of(app, "for-nothing")
        .where("rlike(country, '^$') AND 1 = 0")
        .partition_by("country", id="nothing")
        .aggregate("country", views=count(), id="no-country")
        .send_to(app.output_stream("nobody", system="lake", path="out/nobody", format="parquet"))
    )
    views_of(app, "for-transform").transform(only_long, id="only-long").partition_by(
        "initial", id="by-initial"
    ).aggregate("initial", views=count(), id="per-initial").send_to(
        app.output_stream("per-initial", system="lake", path="out/per-initial", format="parquet")
    )
    views_of(app, "for-wide").transform(counted, id="counted", schema="country string, count bigint").send_to(
        app.output_stream("wide", system="lake", path="out/wide", format="parquet")
    )
    views_of(app, "for-error").map(reject_member_13).send_to(
        app.output_stream("errors", system="lake", path="out/errors", format="parquet")
    )
    views_of(app, "for-waiting", "flags").filter(wait_for_the_flag).send_to(
        app.output_stream("waited", system="lake", path="out/waited", format="parquet")
    )

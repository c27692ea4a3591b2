"""The workloads as stream applications.

What the benchmarks run, and small examples of each way to write an operator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_samza import count, max_, stream_application, sum_, tumbling

PAGE_VIEWS = "member_id bigint, page_id int, ts bigint, country string, dwell_ms int"
SLOW_VIEWS = f"{PAGE_VIEWS}, slow int"
PARTITIONS = 4
STAGES = 30
"""Of the long chain."""


def page_views(app: Any, schema: object = PAGE_VIEWS, timestamp: str | None = None) -> Any:
    """The benchmarks' input."""
    return app.input_stream(
        "page-views",
        system="lake",
        schema=schema,
        path="{config[views]}",
        partitions=PARTITIONS,
        format="parquet",
        timestamp=timestamp,
    )


def results(app: Any, name: str) -> Any:
    """An output in Parquet."""
    return app.output_stream(name, system="results", format="parquet")


@stream_application("bench-w1")
def w1(app: Any) -> None:
    """Long views with their length in seconds: a filter and a projection, Parquet to Parquet."""
    views = page_views(app).where("dwell_ms > 1000").select("*", "cast(dwell_ms / 1000 as int) AS slow")
    views.send_to(results(app, "slow-views"))


@stream_application("bench-w2")
def w2(app: Any) -> None:
    """Views per page: rows go through a topic by page, and are counted at the end of the stream."""
    counted = page_views(app).partition_by("page_id", id="by-page").aggregate("page_id", id="per-page", views=count())
    counted.send_to(results(app, "views-per-page"))


PROFILES = "member_id bigint, name string, company string, age int"


def profiles(app: Any) -> Any:
    """A table of a profile per member: each task reads all of them, as the views lie anyhow."""
    side_input = app.side_input(
        "profiles-file",
        system="lake",
        schema=PROFILES,
        path="profiles.parquet",
        partitions=1,
        format="parquet",
        broadcast=True,
    )
    return app.table("profiles", key="member_id", schema=PROFILES, side_inputs=[side_input])


@stream_application("bench-w3")
def w3(app: Any) -> None:
    """Views with the profiles of their members, columns beside columns."""
    page_views(app).join(profiles(app), id="with-profile").send_to(results(app, "views-with-profile"))


@stream_application("bench-w3-topics")
def w3_topics(app: Any) -> None:
    """The same behind topics by member of both: a table of which each task holds its part."""
    members = app.input_stream(
        "members", system="lake", schema=PROFILES, path="profiles.parquet", partitions=PARTITIONS, format="parquet"
    )
    table = app.local_table("members-table", key="member_id", schema=PROFILES)
    members.partition_by("member_id", id="members-by-id").send_to(table)
    views = page_views(app).partition_by("member_id", id="views-by-member")
    views.join(table, id="with-profile").send_to(results(app, "views-with-profile"))


def with_profile(view: Mapping[str, Any], profile: Mapping[str, Any]) -> dict[str, Any]:
    """The function that an author writes who joins by a callable: the peer calls this very function."""
    return {**view, "name": profile["name"], "company": profile["company"], "age": profile["age"]}


WITH_PROFILE = f"{PAGE_VIEWS}, name string, company string, age int"


@stream_application("bench-w3-python")
def w3_python(app: Any) -> None:
    """The same with a callable per message."""
    joined = page_views(app).join(profiles(app), with_profile, id="with-profile", schema=WITH_PROFILE)
    joined.send_to(results(app, "views-with-profile"))


@stream_application("bench-w4")
def w4(app: Any) -> None:
    """Views per minute and country: windows of event time, behind a topic by country."""
    views = page_views(app, timestamp="ts").partition_by("country", id="by-country")
    views.window(tumbling("1 minute"), key="country", id="per-minute", views=count()).send_to(
        results(app, "views-per-minute")
    )


CLICKS = "member_id bigint, page_id int, clicked_at bigint, button int"


@stream_application("bench-w5")
def w5(app: Any) -> None:
    """Views with the clicks on them within a minute.

    Both streams go through topics by member and page, and are joined in time.
    """
    views = page_views(app, timestamp="ts")
    clicks = app.input_stream(
        "clicks",
        system="lake",
        schema=CLICKS,
        path="{config[clicks]}",
        partitions=PARTITIONS,
        format="parquet",
        timestamp="clicked_at",
    )
    key = ["member_id", "page_id"]
    seen, clicked = views.partition_by(key, id="views-by-page"), clicks.partition_by(key, id="clicks-by-page")
    seen.join(clicked, id="clicked-views", ttl="1 minute").send_to(results(app, "clicked-views"))


# -- W6: the user's own Python
# -------------------------------------------------------------------------------------------


def is_slow(view: Mapping[str, Any]) -> bool:
    """The function that an author writes for a message that is a mapping: the peers call this very function."""
    return bool(view["dwell_ms"] > 1000)


def with_seconds(view: Mapping[str, Any]) -> dict[str, Any]:
    """The view with its length in seconds."""
    return {**view, "slow": view["dwell_ms"] // 1000}


@stream_application("bench-w6")
def w6(app: Any) -> None:
    """W1 with two callables per message, on rows."""
    page_views(app).filter(is_slow).map(with_seconds, schema=SLOW_VIEWS).send_to(results(app, "slow-views"))


@dataclass(frozen=True)
class PageView:
    """A page view."""

    member_id: int
    page_id: int
    ts: int
    country: str
    dwell_ms: int


@dataclass(frozen=True)
class SlowView(PageView):
    """A page view that took long."""

    slow: int


def took_long(view: PageView) -> bool:
    """The same question to an instance."""
    return view.dwell_ms > 1000


def as_slow_view(view: PageView) -> SlowView:
    """The same answer as an instance."""
    return SlowView(**vars(view), slow=view.dwell_ms // 1000)


@stream_application("bench-w6-dataclasses")
def w6_dataclasses(app: Any) -> None:
    """W1 with two callables per message, on frozen dataclasses."""
    page_views(app, PageView).filter(took_long).map(as_slow_view).send_to(results(app, "slow-views"))


def slow_batch(views: pa.RecordBatch) -> pa.RecordBatch:
    """W1 for a whole batch."""
    views = views.filter(pc.greater(views.column("dwell_ms"), 1000))
    return views.append_column("slow", pc.divide(views.column("dwell_ms"), pa.scalar(1000, pa.int32())))


@stream_application("bench-w6-batches")
def w6_batches(app: Any) -> None:
    """W1 with one callable per batch."""
    page_views(app).map_batches(slow_batch, schema=SLOW_VIEWS).send_to(results(app, "slow-views"))


# -- W7: many stages
# -----------------------------------------------------------------------------------------------------


@stream_application("bench-w7")
def w7(app: Any) -> None:
    """Thirty stages on little data: what a stage costs that has nothing to do."""
    views = page_views(app)
    for number in range(STAGES - 1):
        key = ("member_id", "page_id")[number % 2]
        views = views.where("dwell_ms >= 0").partition_by(key, id=f"step-{number}")
    views.send_to(results(app, "page-views-again"))


# -- memory and scale
# ----------------------------------------------------------------------------------------------------

WIDE_VIEWS = f"{PAGE_VIEWS}, payload binary"


def payload_sizes(views: pa.RecordBatch) -> pa.RecordBatch:
    """Return the weight of each view. It looks at the payload, so the payload goes through the topic."""
    return pa.RecordBatch.from_arrays(
        [views.column("page_id"), pc.binary_length(views.column("payload")).cast(pa.int64())], ["page_id", "bytes"]
    )


@stream_application("bench-wide")
def wide(app: Any) -> None:
    """W2 with wide rows, all of which go through the topic."""
    partitions = int(app.config.get("partitions", str(PARTITIONS)))
    views = app.input_stream(
        "page-views", system="lake", schema=WIDE_VIEWS, path="{config[views]}", partitions=partitions, format="parquet"
    )
    sizes = views.partition_by("page_id", id="by-page").map_batches(payload_sizes, schema="page_id int, bytes bigint")
    sizes.aggregate("page_id", id="per-page", views=count(), bytes=sum_("bytes")).send_to(
        results(app, "bytes-per-page")
    )


@stream_application("bench-new-files")
def new_files(app: Any) -> None:
    """Long views of the files that came since the run before, Parquet to Parquet."""
    views = app.input_stream(
        "page-views",
        system="lake",
        schema=PAGE_VIEWS,
        path="in",
        partitions=2,
        format="parquet",
        slice="checkpoint",
    )
    slow = views.where("dwell_ms > 1000").select("*", "cast(dwell_ms / 1000 as int) AS slow")
    slow.send_to(app.output_stream("slow-views", system="results", path="out", format="parquet"))


@stream_application("bench-long-window")
def long_window(app: Any) -> None:
    """Long views of the last days by page, Parquet to Parquet."""
    views = app.input_stream(
        "page-views",
        system="lake",
        schema=PAGE_VIEWS,
        path="in/{ds}",
        partitions=2,
        format="parquet",
        intervals=int(app.config["intervals"]),
    )
    by_page = views.where("dwell_ms > 1000").partition_by("page_id", id="by-page")
    by_page.aggregate("page_id", id="per-page", views=count(), dwelt=sum_("dwell_ms"), most=max_("dwell_ms")).send_to(
        app.output_stream("busy-pages", system="results", path="{ds}", format="parquet")
    )


@stream_application("bench-scale")
def scale(app: Any) -> None:
    """Two re-partitions over ``partitions``.

    The stage in the middle reads a topic of so many and writes one of so many.
    """
    partitions = int(app.config["partitions"])
    views = app.input_stream(
        "page-views", system="lake", schema=PAGE_VIEWS, path="{config[views]}", partitions=partitions, format="parquet"
    )
    again = views.partition_by("member_id", id="by-member").partition_by("page_id", id="by-page")
    again.send_to(results(app, "page-views-again"))


# -- latency
# -------------------------------------------------------------------------------------------------------------

EVENTS = "id bigint, sent_at bigint"


@stream_application("bench-flow")
def flow(app: Any) -> None:
    """Two stages with a topic between; events carry the time (ms) at which they were sent."""
    bounded = app.config.get("bounded", "false") == "true"
    events = app.input_stream("events", system="log", schema=EVENTS, partitions=2, bounded=bounded)
    arrived = app.output_stream("arrived", system="log", schema=EVENTS, partitions=2, key="id")
    events.where("id >= 0").partition_by("id", id="by-id").send_to(arrived)


def scored(event: Any) -> Any:
    """Some work per message, as a model's score would be."""
    score = event.id
    for _ in range(100):
        score = (score * 1103515245 + 12345) & 0x7FFFFFFF
    return {"id": event.id, "sent_at": event.sent_at} if score >= 0 else None


@stream_application("bench-beside", config={"job.epoch.max.ms": "100"})
def beside(app: Any) -> None:
    """Real-time events before a history that is processed by the same code."""
    events = app.input_stream("events", system="log", schema=EVENTS, partitions=2, bounded=False, priority=10)
    history = app.input_stream("history", system="log", schema=EVENTS, partitions=2, bounded=False)
    arrived = app.output_stream("arrived", system="log", schema=EVENTS, partitions=2, key="id")
    events.merge(history).map(scored).send_to(arrived)

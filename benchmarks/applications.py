"""The workloads as stream applications: what the benchmarks run, and the smallest examples of a filter and of a re-partitioning."""

from __future__ import annotations

from typing import Any

from airflow_samza import count, stream_application

PAGE_VIEWS = "member_id bigint, page_id int, ts bigint, country string, dwell_ms int"
PARTITIONS = 4


@stream_application("bench-w1")
def w1(app: Any) -> None:
    """Long views with their length in seconds: a filter and a projection, Parquet to Parquet."""
    (
        app.input_stream("page-views", system="lake", schema=PAGE_VIEWS, path="{config[views]}", partitions=PARTITIONS, format="parquet")
        .where("dwell_ms > 1000")
        .select("*", "cast(dwell_ms / 1000 as int) AS slow")
        .send_to(app.output_stream("slow-views", system="results", format="parquet"))
    )


@stream_application("bench-w2")
def w2(app: Any) -> None:
    """Views per page: whole rows go through a topic by page, and are counted at the end of the stream."""
    (
        app.input_stream("page-views", system="lake", schema=PAGE_VIEWS, path="{config[views]}", partitions=PARTITIONS, format="parquet")
        .partition_by("page_id", id="by-page")
        .aggregate("page_id", id="per-page", views=count())
        .send_to(app.output_stream("views-per-page", system="results", format="parquet"))
    )

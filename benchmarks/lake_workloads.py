"""The workloads over lakehouse tables: applications, and who does the same by hand.

The applications do not say of what kind their system ``tables`` is.
"""

from __future__ import annotations

from typing import Any

from airflow_samza import count, stream_application, sum_
from benchmarks import workloads
from benchmarks.applications import PARTITIONS, page_views
from benchmarks.peer_process import Peer
from benchmarks.workloads import Workload

DAYS = 10
"""A day has one part in so many of the rows."""

PER_PAGE = "page_id int, views bigint, millis bigint"

TIMED = "number bigint, sent_at bigint"
"""Messages with the time at which they were sent (ms since 1970)."""


def _table(app: Any, name: str, **more: Any) -> Any:
    return app.input_stream("views", system="tables", table=f"bench.{name}", partitions=PARTITIONS, **more)


def _appended(app: Any) -> Any:
    return app.output_stream("out", system="tables", table=f"bench.{app.config['out']}", mode="append")


@stream_application("bench-lake-scan")
def scan(app: Any) -> None:
    """Long views of a table with their length in seconds."""
    views = _table(app, "views").where("dwell_ms > 1000").select("*", "cast(dwell_ms / 1000 as int) AS slow")
    views.send_to(app.output_stream("slow-views", system="results", format="parquet", path="{config[out]}"))


@stream_application("bench-lake-append")
def append(app: Any) -> None:
    """A file of views becomes rows of a table."""
    page_views(app).where("dwell_ms >= 0").send_to(_appended(app))


@stream_application("bench-lake-aggregate")
def aggregate(app: Any) -> None:
    """Views and milliseconds per page of a table, into another."""
    by_page = _table(app, "views").partition_by("page_id", id="by-page")
    per_page = by_page.aggregate("page_id", id="per-page", views=count(), millis=sum_("dwell_ms"))
    per_page.send_to(_appended(app))


@stream_application("bench-lake-day")
def day(app: Any) -> None:
    """Long views of what was appended to a table since the last run, into another."""
    _table(app, "days", slice="checkpoint").where("dwell_ms > 1000").send_to(_appended(app))


@stream_application("bench-lake-follow")
def follow(app: Any) -> None:
    """Messages of a topic become rows of a table as they come."""
    rows = app.input_stream("rows", system="events", schema=TIMED, serde="json", bounded=False)
    rows.where("number >= 0").send_to(_appended(app))


@stream_application("bench-lake-every-day")
def every_day(app: Any) -> None:
    """All files of a table, which is only planned."""
    _table(app, "views").send_to(app.output_stream("out", system="log", partitions=PARTITIONS))


@stream_application("bench-lake-one-day")
def one_day(app: Any) -> None:
    """The files of one day, which are only planned."""
    _table(app, "views").where("day = 7").send_to(app.output_stream("out", system="log", partitions=PARTITIONS))


def _kafka_jars(spark: str, clients: str, pool: str) -> tuple[str, ...]:
    return (
        f"org.apache.spark:spark-sql-kafka-0-10_2.13:{spark}",
        f"org.apache.spark:spark-token-provider-kafka-0-10_2.13:{spark}",
        f"org.apache.kafka:kafka-clients:{clients}",
        f"org.apache.commons:commons-pool2:{pool}",
    )


_DELTA = "io.delta:{}:4.4.0"

PEERS = {
    "iceberg": (
        Peer(
            "iceberg",
            "PySpark 4.1.3 with iceberg-spark-runtime 1.12.0",
            "lake_spark.py",
            packages=("pyspark==4.1.3",),
            jars=(
                "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
                "org.xerial:sqlite-jdbc:3.50.3.0",  # of the embedded catalog
                *_kafka_jars("4.1.1", "3.9.1", "2.12.1"),
            ),
            arguments=("iceberg", "{cores}", "{folder}"),
        ),
        Peer(
            "polars-iceberg",
            "Polars with pyiceberg",
            "lake_polars.py",
            packages=("polars==2.1.0", "pyiceberg[sql-sqlite,pyarrow]==0.12.0"),
            arguments=("iceberg",),
        ),
    ),
    "delta": (
        Peer(
            "delta",
            "PySpark with delta-spark 4.4.0",
            "lake_spark.py",
            jars=(
                *(
                    _DELTA.format(name)
                    for name in (
                        "delta-spark_4.2_2.13",
                        "delta-storage",
                        "delta-kernel-api",
                        "delta-kernel-defaults",
                        "delta-kernel-unitycatalog",
                    )
                ),
                *_kafka_jars("4.2.0", "3.9.2", "2.13.1"),
            ),
            arguments=("delta", "{cores}", "{folder}"),
        ),
        Peer(
            "polars-delta",
            "Polars with deltalake",
            "lake_polars.py",
            packages=("polars==2.1.0", "deltalake==1.6.6"),
            arguments=("delta",),
        ),
    ),
}
"""Peers of the application, by the kind of table."""

_WHAT = {
    "scan": "scan and filter, table to Parquet",
    "append": "Parquet appended to a table",
    "aggregate": "sums per page of a table, into another",
    "day": f"filter of what was appended to a table since the last run (1/{DAYS} of the rows), into another",
}

WORKLOADS = {
    f"{name} {kind}": Workload(
        f"{name} {kind}",
        what,
        f"benchmarks.lake_workloads:{name}",
        "out",
        tuple(workloads.Peer(peer.name, peer.what) for peer in peers),
    )
    for name, what in _WHAT.items()
    for kind, peers in PEERS.items()
}
"""By name and kind of table, in the order of the report."""

"""The workloads that are measured: each with its peers written by hand in PySpark, and the ratios that are wanted."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Peer:
    """The same work in plain PySpark.

    ``goal``: by what factor the application should be faster; None: it is only shown.
    """

    name: str
    what: str
    goal: float | None = None


@dataclass(frozen=True)
class Workload:
    """An application with its output, and its peers. ``rows``: always so many, whatever is asked for."""

    name: str
    what: str
    application: str
    output: str
    peers: tuple[Peer, ...]
    rows: int | None = None


_DICTS = Peer("W6dicts", "`mapInArrow` over dicts, the same two functions", 1.3)

WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload(
            "W1",
            "filter and projection in SQL, Parquet to Parquet",
            "benchmarks.applications:w1",
            "slow-views",
            (
                Peer("W1", "DataFrame", 1.5),
                Peer("W1polars", "Polars, lazy, into one file with as large row groups", 0.7),
            ),
        ),
        Workload(
            "W2",
            "re-partitioning by page, then a count per page",
            "benchmarks.applications:w2",
            "views-per-page",
            (
                Peer("W2mat", "two DataFrame jobs, with the re-partitioned rows in Parquet between them", 2.5),
                Peer("W2agg", "one DataFrame job, nothing durable between", 0.7),
            ),
        ),
        Workload(
            "W3",
            "views joined with a table of 1,000,000 profiles, which is loaded as part of it",
            "benchmarks.applications:w3",
            "views-with-profile",
            (
                Peer("W3shuffle", "one DataFrame job, shuffle join (sort-merge), nothing durable between", 2.0),
                Peer("W3broadcast", "one DataFrame job, broadcast join"),
            ),
        ),
        Workload(
            "W3-topics",
            "the same behind topics by member, each task with its part of the table",
            "benchmarks.applications:w3_topics",
            "views-with-profile",
            (Peer("W3mat", "three DataFrame jobs, with both sides' rows in Parquet between them"),),
        ),
        Workload(
            "W3-python",
            "the same join by a Python callable per message",
            "benchmarks.applications:w3_python",
            "views-with-profile",
            (Peer("W3dicts", "`mapInArrow` over dicts, the profiles in a dict per Python worker, the same function"),),
        ),
        Workload(
            "W4",
            "event-time windows per minute and country, behind a re-partitioning by country",
            "benchmarks.applications:w4",
            "views-per-minute",
            (
                Peer("W4", "one DataFrame job (`window`), nothing durable between", 0.8),
                Peer("W4mat", "two DataFrame jobs, with the re-partitioned rows in Parquet between them"),
            ),
        ),
        Workload(
            "W5",
            "views joined with the clicks on them within a minute, both re-partitioned",
            "benchmarks.applications:w5",
            "clicked-views",
            (
                Peer("W5mat", "three DataFrame jobs, with both streams' rows in Parquet between them", 1.0),
                Peer("W5", "one DataFrame job (interval join), nothing durable between"),
            ),
        ),
        Workload("W6", "a Python callable per message, on rows", "benchmarks.applications:w6", "slow-views", (_DICTS,)),
        Workload(
            "W6-dataclasses",
            "a Python callable per message, on frozen dataclasses",
            "benchmarks.applications:w6_dataclasses",
            "slow-views",
            (_DICTS,),
        ),
        Workload(
            "W6-batches",
            "a Python callable per batch (`map_batches`)",
            "benchmarks.applications:w6_batches",
            "slow-views",
            (Peer("W6pandas", "`mapInPandas`", 2.0), Peer("W6arrow", "`mapInArrow` on whole batches")),
        ),
        Workload(
            "W7",
            "thirty stages on 1,000 rows",
            "benchmarks.applications:w7",
            "page-views-again",
            (Peer("W7", "thirty DataFrame jobs, chained by Parquet"),),
            rows=1000,
        ),
    )
}
"""By name, in the order of the report."""

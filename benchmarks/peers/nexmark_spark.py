"""Nexmark's queries over bounded events in Spark SQL.

``python nexmark_spark.py EVENTS CORES`` serves requests ``QUERY-batch OUT EVENTS``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

os.environ["PYSPARK_PYTHON"] = sys.executable

from nexmark_queries import SPARK
from pyspark.sql import SparkSession
from serving import Pages, serve

COLUMNS = {
    "people": "id bigint, name string, email string, city string, state string, at timestamp",
    "auctions": (
        "id bigint, item string, initial_bid bigint, reserve bigint, seller bigint, category bigint, at timestamp, "
        "expires timestamp"
    ),
    "bids": "auction bigint, bidder bigint, price bigint, at timestamp, extra string",
}


def main(events: str, cores: str) -> None:
    """Serve requests."""
    spark = (
        SparkSession.builder.master(f"local[{cores}]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "4g")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    for name, columns in COLUMNS.items():
        rows = spark.read.schema(columns).json(f"{events}/{name}")
        rows.withColumnRenamed("at", "made").createOrReplaceTempView(name)

    def work(name: str, out: str, count: int) -> Callable[[], Pages]:
        query, _, mode = name.partition("-")
        if mode != "batch":
            raise NotImplementedError(f"{name} is not written here")
        spark.sql(SPARK[query]).write.parquet(out)
        return lambda: ()

    serve(work)


if __name__ == "__main__":
    main(*sys.argv[1:])

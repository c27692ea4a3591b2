"""Nexmark's queries in Spark SQL, over bounded events and over files that a query of Structured Streaming follows.

``python nexmark_spark.py EVENTS CORES FILES`` serves requests ``QUERY-batch OUT EVENTS`` and ``QUERY-streaming …``,
with so many files a batch. An event of the next day, below ``closing``, lets Structured Streaming close all windows.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

os.environ["PYSPARK_PYTHON"] = sys.executable

from nexmark_queries import SPARK, SPARK_STREAMING
from pyspark.sql import DataFrame, SparkSession
from serving import Pages, serve

COLUMNS = {
    "people": "id bigint, name string, email string, city string, state string, at timestamp",
    "auctions": (
        "id bigint, item string, initial_bid bigint, reserve bigint, seller bigint, category bigint, at timestamp, "
        "expires timestamp"
    ),
    "bids": "auction bigint, bidder bigint, price bigint, at timestamp, extra string",
}


CLOSED = ("q5", "q7", "q8", "q11")
"""Queries with windows."""

LATE = "10 seconds"
"""The watermark's distance: files come in the order of their times."""


def main(events: str, cores: str, files: str) -> None:
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

    def follow(query: str) -> DataFrame:
        streams = spark.newSession()
        for name, columns in COLUMNS.items():
            place = f"{events}/{{{name},closing/{name}}}" if query in CLOSED else f"{events}/{name}"
            rows = streams.readStream.schema(columns).option("maxFilesPerTrigger", files).json(place)
            rows.withColumnRenamed("at", "made").withWatermark("made", LATE).createOrReplaceTempView(name)
        return streams.sql(SPARK_STREAMING[query])

    def work(name: str, out: str, count: int) -> Callable[[], Pages]:
        query, _, mode = name.partition("-")
        if mode == "batch":
            spark.sql(SPARK[query]).write.parquet(out)
        else:
            sink = follow(query).writeStream.option("checkpointLocation", f"{out}-checkpoint")
            sink.trigger(availableNow=True).start(out, format="parquet").awaitTermination()
        return lambda: ()

    serve(work)


if __name__ == "__main__":
    main(*sys.argv[1:])

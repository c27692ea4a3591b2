"""The work of :mod:`benchmarks.new_files` by Spark's own file source: a run with ``availableNow``, and its checkpoint.

``python -m benchmarks.peers.new_files IN OUT CHECKPOINT CORES`` writes the seconds of the query, without Spark's start,
to standard output.
"""

from __future__ import annotations

import sys
import time

from benchmarks.applications import PAGE_VIEWS


def main(source: str, out: str, checkpoint: str, cores: str) -> None:
    """Run the query once."""
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master(f"local[{cores}]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .getOrCreate()
    )
    begin = time.perf_counter()
    views = spark.readStream.schema(PAGE_VIEWS).parquet(source)
    slow = views.where("dwell_ms > 1000").selectExpr("*", "cast(dwell_ms / 1000 as int) AS slow")
    query = slow.writeStream.trigger(availableNow=True).option("checkpointLocation", checkpoint).format("parquet")
    query.start(out).awaitTermination()
    print(round(time.perf_counter() - begin, 3))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

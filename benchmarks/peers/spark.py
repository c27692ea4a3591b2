"""The same workloads written by hand in PySpark, as a peer to measure against.

``python -m benchmarks.peers.spark --data DIR --rows N --out DIR W1 W2mat W2agg``: W2mat writes the re-partitioned rows to Parquet
and counts what it reads back, as two jobs with something durable between them have to; W2agg is one job with partial counts.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.measuring import Measured, Meter, report

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WORKLOADS = {"W1": ("W1",), "W2": ("W2mat", "W2agg")}
"""The peers of each workload."""


class Peers:
    """The workloads over one session."""

    def __init__(self, spark: SparkSession, views: Path, out: Path) -> None:
        self.spark = spark
        self.views = views
        self.out = out

    def run(self, workload: str) -> None:
        """Runs one workload; its result lies in ``out/<workload>``."""
        runs: dict[str, Callable[[], DataFrame]] = {"W1": self.long_views, "W2mat": self.counts_of_topic, "W2agg": self.counts}
        runs[workload]().write.mode("overwrite").parquet(str(self.out / workload))

    def read(self) -> DataFrame:
        """The page views."""
        return self.spark.read.parquet(str(self.views))

    def long_views(self) -> DataFrame:
        """W1: a filter and a computed column."""
        return self.read().where("dwell_ms > 1000").selectExpr("*", "cast(dwell_ms / 1000 as int) AS slow")

    def counts(self) -> DataFrame:
        """W2 in one job, with partial counts before the shuffle."""
        return self.read().groupBy("page_id").count()

    def counts_of_topic(self) -> DataFrame:
        """W2 with the re-partitioned rows made durable between two jobs."""
        middle = str(self.out / "W2mat-middle")
        self.read().repartition(4, "page_id").write.mode("overwrite").parquet(middle)
        return self.spark.read.parquet(middle).groupBy("page_id").count()


def main() -> None:
    parser = argparse.ArgumentParser(description="The workloads in plain PySpark.")
    parser.add_argument("workloads", nargs="+", choices=[name for names in WORKLOADS.values() for name in names])
    parser.add_argument("--data", required=True, type=Path)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--out", required=True, type=Path)
    arguments = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable

    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(f"local[{arguments.cores}]").appName("peers")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "4g",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.session.timeZone": "UTC",
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    peers = Peers(spark, arguments.data / f"pv-{arguments.rows}.parquet", arguments.out)
    for workload in arguments.workloads:
        runs: list[Measured] = []
        for _ in range(arguments.repeat):
            shutil.rmtree(arguments.out / workload, ignore_errors=True)
            with Meter() as meter:
                peers.run(workload)
            runs.append(meter.result)
        report(f"pyspark/local[{arguments.cores}]", workload, arguments.rows, runs)
    spark.stop()


if __name__ == "__main__":
    main()

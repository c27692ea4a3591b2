"""The workloads written by hand in PySpark, as peers to measure against.

``python -m benchmarks.peers.spark --data DIR --out DIR --cores 2`` reads lines ``NAME ROWS`` from standard input, runs
each over one
session, and answers each with a line of JSON: what was measured. The result of a run lies in ``OUT/NAME``.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from benchmarks.applications import SLOW_VIEWS, STAGES, WITH_PROFILE, is_slow, slow_batch, with_profile, with_seconds
from benchmarks.gen_data import clicks_file, views_file
from benchmarks.measuring import Meter

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


def over_dicts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The functions of W6 on the dicts of each batch."""
    import pyarrow as pa

    from airflow_samza.schema import Schema

    schema = Schema.of(SLOW_VIEWS).to_arrow()
    for batch in batches:
        yield pa.RecordBatch.from_pylist([with_seconds(view) for view in batch.to_pylist() if is_slow(view)], schema)


def over_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The function of W6-batches."""
    return map(slow_batch, batches)


def over_frames(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """The same in pandas."""
    for frame in frames:
        chosen = frame[frame.dwell_ms > 1000]
        yield chosen.assign(slow=(chosen.dwell_ms // 1000).astype("int32"))


class WithProfiles:
    """The function of W3-python on the dicts of each batch; a Python worker loads the profiles once."""

    loaded: ClassVar[dict[int, dict[str, Any]]] = {}

    def __init__(self, path: str) -> None:
        self._path = path

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The views of which the member is known, with the profile."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        from airflow_samza.schema import Schema

        schema = Schema.of(WITH_PROFILE).to_arrow()
        if not self.loaded:
            self.loaded.update({profile["member_id"]: profile for profile in pq.read_table(self._path).to_pylist()})
        profiles = self.loaded
        for batch in batches:
            views = [view for view in batch.to_pylist() if view["member_id"] in profiles]
            yield pa.RecordBatch.from_pylist(
                [with_profile(view, profiles[view["member_id"]]) for view in views], schema
            )


class Peers:
    """The workloads over one session."""

    def __init__(self, spark: SparkSession, data: Path, out: Path) -> None:
        self.spark = spark
        self.data = data
        self.out = out
        self.rows = 0
        self._runs: dict[str, Callable[[], DataFrame]] = {
            "W1": self.long_views,
            "W2mat": self.counts_of_topic,
            "W2agg": self.counts,
            "W3shuffle": lambda: self.views().join(self.profiles().hint("merge"), "member_id"),
            "W3broadcast": lambda: self.views().join(self.profiles().hint("broadcast"), "member_id"),
            "W3mat": self.joined_topics,
            "W3dicts": lambda: self.views().mapInArrow(WithProfiles(str(self.data / "profiles.parquet")), WITH_PROFILE),
            "W4": lambda: self.per_minute(self.views()),
            "W4mat": lambda: self.per_minute(self._through(self.views(), "country", "W4mat-middle")),
            "W5": lambda: self.clicked(self.views(), self.clicks()),
            "W5mat": self.clicked_of_topics,
            "W6dicts": lambda: self.views().mapInArrow(over_dicts, SLOW_VIEWS),
            "W6arrow": lambda: self.views().mapInArrow(over_batches, SLOW_VIEWS),
            "W6pandas": lambda: self.views().mapInPandas(over_frames, SLOW_VIEWS),
            "W7": self.chain,
        }

    def run(self, name: str, rows: int) -> None:
        """Runs one workload; its result lies in ``out/<name>``."""
        self.rows = rows
        self._runs[name]().write.mode("overwrite").parquet(str(self.out / name))

    def views(self) -> DataFrame:
        """The page views."""
        return self.spark.read.parquet(str(views_file(self.data, self.rows)))

    def long_views(self) -> DataFrame:
        """W1: a filter and a computed column."""
        return self.views().where("dwell_ms > 1000").selectExpr("*", "cast(dwell_ms / 1000 as int) AS slow")

    def counts(self) -> DataFrame:
        """W2 in one job, with partial counts before the shuffle."""
        return self.views().groupBy("page_id").count()

    def counts_of_topic(self) -> DataFrame:
        """W2 with the re-partitioned rows made durable between two jobs."""
        return self._through(self.views(), "page_id", "W2mat-middle").groupBy("page_id").count()

    def profiles(self) -> DataFrame:
        """The profiles."""
        return self.spark.read.parquet(str(self.data / "profiles.parquet"))

    def joined_topics(self) -> DataFrame:
        """W3 with the re-partitioned rows of both sides made durable before."""
        profiles = self._through(self.profiles(), "member_id", "W3mat-profiles")
        return self._through(self.views(), "member_id", "W3mat-views").join(profiles.hint("merge"), "member_id")

    def per_minute(self, views: DataFrame) -> DataFrame:
        """W4: Spark's own windows."""
        views.createOrReplaceTempView("views")
        windows = (
            "SELECT country, window(timestamp_millis(ts), '1 minute') AS w, count(*) AS views FROM views GROUP BY 1, 2"
        )
        return self.spark.sql(f"SELECT country, w.start, w.end, views FROM ({windows})")

    def clicks(self) -> DataFrame:
        """The clicks."""
        return self.spark.read.parquet(str(clicks_file(self.data, self.rows)))

    def clicked(self, views: DataFrame, clicks: DataFrame) -> DataFrame:
        """W5: an interval join."""
        near = "clicked_at BETWEEN ts - 60000 AND ts + 60000"
        views.createOrReplaceTempView("views")
        clicks.createOrReplaceTempView("clicks")
        return self.spark.sql(
            f"SELECT v.*, clicked_at, button FROM views v JOIN clicks USING (member_id, page_id) WHERE {near}"
        )

    def clicked_of_topics(self) -> DataFrame:
        """W5 with the re-partitioned rows of both sides made durable before."""
        key = ("member_id", "page_id")
        return self.clicked(
            self._through(self.views(), key, "W5mat-views"), self._through(self.clicks(), key, "W5mat-clicks")
        )

    def chain(self) -> DataFrame:
        """W7: each job reads what the one before it wrote."""
        views = self.views()
        for number in range(STAGES - 1):
            views = self._through(
                views.where("dwell_ms >= 0"), ("member_id", "page_id")[number % 2], f"W7-middle/{number}"
            )
        return views

    def _through(self, rows: DataFrame, key: str | tuple[str, ...], name: str) -> DataFrame:
        place = str(self.out / name)
        rows.repartition(4, *([key] if isinstance(key, str) else key)).write.mode("overwrite").parquet(place)
        return self.spark.read.parquet(place)


def session(cores: int) -> SparkSession:
    """A session as one would set it up for such jobs."""
    os.environ["PYSPARK_PYTHON"] = sys.executable

    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(f"local[{cores}]").appName("peers")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "4g",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.session.timeZone": "UTC",
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark: SparkSession = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def main() -> None:
    parser = argparse.ArgumentParser(description="The workloads in plain PySpark.")
    parser.add_argument("--data", required=True, type=Path)
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--cores", type=int, default=2)
    arguments = parser.parse_args()
    spark = session(arguments.cores)
    peers = Peers(spark, arguments.data, arguments.out)
    for line in sys.stdin:
        name, rows = line.split()
        shutil.rmtree(arguments.out / name, ignore_errors=True)
        with Meter() as meter:
            peers.run(name, int(rows))
        print(json.dumps(dataclasses.asdict(meter.result)), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()

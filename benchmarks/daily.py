"""A small daily application of four stages, and the same by hand in PySpark with Parquet between its steps.

``python -m benchmarks.daily DAY DATA OUT`` is the hand-written one, which spark-submit starts.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_samza import count, stream_application, sum_

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = 2000
APPLICATION = "benchmarks.daily:daily"


def write_day(data: Path, day: str) -> None:
    """Write the views of a day."""
    folder = data / f"day-{day}"
    folder.mkdir(parents=True, exist_ok=True)
    views = [
        {"member": n * 7 % 200, "page": f"p{n % 50}", "country": ("nl", "de", "fr", "us")[n % 4], "ms": n * 13 % 3000}
        for n in range(ROWS)
    ]
    (folder / "1.jsonl").write_text("".join(json.dumps(view) + "\n" for view in views))


@stream_application("daily")
def daily(app: Any) -> None:
    """Per member, then per group of members, then in all: each step is a stage."""
    schema = "member bigint, page string, country string, ms bigint"
    views = app.input_stream("views", system="lake", schema=schema, partitions=2, path="day-{config[day]}")
    members = (
        views.where("ms > 100")
        .partition_by("member", id="by-member")
        .aggregate("member", views=count(), ms=sum_("ms"), id="per-member")
    )
    groups = (
        members.map(_with_group, schema="part bigint, views bigint, ms bigint")
        .partition_by("part", id="by-part")
        .aggregate("part", views=sum_("views"), ms=sum_("ms"), id="per-part")
    )
    groups.map(_all, schema="part bigint, views bigint, ms bigint").partition_by("part", id="in-all").aggregate(
        "part", views=sum_("views"), ms=sum_("ms"), id="total"
    ).send_to(app.output_stream("out", system="results", path="total-{config[day]}"))


def _with_group(member: Any) -> dict[str, Any]:
    return {"part": member.member % 4, "views": member.views, "ms": member.ms}


def _all(part: Any) -> dict[str, Any]:
    return {"part": 0, "views": part.views, "ms": part.ms}


def by_hand(spark: SparkSession, day: str, data: Path, out: Path) -> None:
    """Do the same with a Parquet file between the steps, as four tasks would."""
    from pyspark.sql import functions as f

    def stored(frame: DataFrame, step: str) -> DataFrame:
        path = str(out / f"{step}-{day}")
        frame.write.mode("overwrite").parquet(path)
        return spark.read.parquet(path)

    schema = "member bigint, page string, country string, ms bigint"
    views = spark.read.json(str(data / f"day-{day}"), schema=schema)
    kept = stored(views.where("ms > 100").repartition(2, "member"), "kept")
    members = stored(kept.groupBy("member").agg(f.count("*").alias("views"), f.sum("ms").alias("ms")), "members")
    groups = members.groupBy((members.member % 4).alias("part")).agg(
        f.sum("views").alias("views"), f.sum("ms").alias("ms")
    )
    parts = stored(groups, "parts")
    stored(parts.groupBy(f.lit(0).alias("part")).agg(f.sum("views").alias("views"), f.sum("ms").alias("ms")), "total")


def main(arguments: list[str]) -> None:
    """Run a day by hand."""
    from pyspark.sql import SparkSession

    day, data, out = arguments
    spark = SparkSession.builder.appName("daily").config("spark.sql.shuffle.partitions", "2").getOrCreate()
    by_hand(spark, day, Path(data), Path(out))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])

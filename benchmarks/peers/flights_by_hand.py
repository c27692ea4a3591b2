"""The flights of the demo by hand in PySpark, as one job: ``spark-submit flights_by_hand.py DATA OUT``."""

from __future__ import annotations

import sys


def main(data: str, out: str) -> None:
    """Count and average the delays per maker and hour."""
    from pyspark.sql import SparkSession, functions as f

    spark = SparkSession.builder.appName("flights").config("spark.sql.shuffle.partitions", "4").getOrCreate()
    flights = spark.read.parquet(f"{data}/flights").where("dep_delay IS NOT NULL")
    planes = spark.read.parquet(f"{data}/planes").select("tailnum", "manufacturer")
    made = flights.join(planes, "tailnum", "left").withColumn(
        "manufacturer", f.coalesce("manufacturer", f.lit("unknown"))
    )
    made.groupBy("manufacturer", "hour").agg(
        f.count("*").alias("flights"),
        f.avg("dep_delay").alias("departure_delay"),
        f.avg("arr_delay").alias("arrival_delay"),
    ).write.mode("overwrite").parquet(out)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

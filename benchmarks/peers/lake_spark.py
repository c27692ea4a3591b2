"""The work of :mod:`benchmarks.lake` in PySpark, by the connectors of the formats.

``python lake_spark.py LAKE FORMAT CORES FOLDER JAR…`` serves requests ``WORKLOAD SOURCE>OUT ROWS``; checkpoints are in
FOLDER. ``follow ADDRESS/TOPIC>OUT MS`` starts a query whose batches begin so many ms apart, and ``end`` ends it.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable

os.environ["PYSPARK_PYTHON"] = sys.executable

from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.streaming.query import StreamingQuery
from serving import Pages, serve

SETTINGS = {
    "iceberg": {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.default": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.default.type": "jdbc",
        "spark.sql.catalog.default.uri": "jdbc:sqlite:{lake}/catalog.db",
        "spark.sql.catalog.default.warehouse": "file://{lake}",
        "spark.sql.catalog.default.jdbc.schema-version": "V1",
        "spark.sql.catalog.default.cache-enabled": "false",  # others commit to the tables, too
    },
    "delta": {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "2",  # of so small logs, fifty would only cost time
    },
}


def main(lake: str, format_: str, cores: str, folder: str, *jars: str) -> None:
    """Serve requests."""
    for former in ("checkpoint", "follows"):  # of tables that are gone
        shutil.rmtree(f"{folder}/{former}", ignore_errors=True)
    builder = (
        SparkSession.builder.master(f"local[{cores}]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "4g")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", f"{folder}/warehouse")
        .config("spark.jars", ",".join(jars))
    )
    for key, value in SETTINGS[format_].items():
        builder = builder.config(key, value.format(lake=lake))
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")

    def path_of(table: str) -> str:
        return f"{lake}/{table.replace('.', '/')}"

    def name_of(table: str) -> str:
        return f"default.{table}" if format_ == "iceberg" else f"delta.`{path_of(table)}`"

    def append(rows: DataFrame, table: str) -> None:
        rows.writeTo(name_of(table)).append()

    def day(source: str, out: str) -> None:
        read = spark.readStream.format(format_)
        views = read.table(name_of(source)) if format_ == "iceberg" else read.load(path_of(source))
        new = views.writeStream.trigger(availableNow=True).option("checkpointLocation", f"{folder}/checkpoint")
        new.foreachBatch(lambda batch, _: append(batch.where("dwell_ms > 1000"), out)).start().awaitTermination()

    def follow(address: str, topic: str, out: str, millis: int) -> None:
        messages = (
            spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", address)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .load()
        )
        row = functions.from_json(functions.col("value").cast("string"), "number bigint, sent_at bigint").alias("row")
        rows = messages.select(row).select("row.*").where("number >= 0").writeStream.format(format_)
        if millis:
            rows = rows.trigger(processingTime=f"{millis} milliseconds")
        rows = rows.option("checkpointLocation", f"{folder}/follows/{out}")
        queries.append(rows.toTable(name_of(out)) if format_ == "iceberg" else rows.start(path_of(out)))

    queries: list[StreamingQuery] = []

    def work(workload: str, place: str, rows: int) -> Callable[[], Pages]:
        source, _, out = place.partition(">")
        if workload == "scan":
            views = spark.read.table(name_of(source)).where("dwell_ms > 1000")
            views.selectExpr("*", "cast(dwell_ms / 1000 as int) AS slow").write.parquet(out)
        elif workload == "append":
            append(spark.read.parquet(source).where("dwell_ms >= 0"), out)
        elif workload == "aggregate":
            pages = spark.read.table(name_of(source)).groupBy("page_id")
            append(pages.agg(functions.count("*").alias("views"), functions.sum("dwell_ms").alias("millis")), out)
        elif workload == "day":
            day(source, out)
        elif workload == "follow":
            address, topic = source.split("/")
            follow(address, topic, out, rows)
        else:
            queries.pop().stop()
        return lambda: ()

    serve(work)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

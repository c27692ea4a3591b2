"""The work of :mod:`benchmarks.kafka` by Spark's own Kafka source and sink.

``python kafka_spark.py ADDRESS CORES OUT JAR…`` serves requests. One whose format is ``write`` sends the rows of a
Parquet file as JSON: its topic is ``FILE>TOPIC``.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable

from kafka_work import AVRO_FILE, SLOW_MS
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.avro.functions import from_avro
from serving import Pages, serve

VIEWS = "member_id bigint, page_id int, ts bigint, country string, dwell_ms int"


def main(address: str, cores: str, out: str, *jars: str) -> None:
    """Serve requests."""
    spark = (
        SparkSession.builder.master(f"local[{cores}]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "4g")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.jars", ",".join(jars))
        .getOrCreate()
    )

    def counted(format_: str, topic: str) -> DataFrame:
        messages = (
            spark.read.format("kafka")
            .option("kafka.bootstrap.servers", address)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .option("endingOffsets", "latest")
            .load()
        )
        if format_ == "json":
            view = functions.from_json(functions.col("value").cast("string"), VIEWS)
        else:
            view = from_avro("value", AVRO_FILE.read_text())
        views = messages.select(view.alias("view")).select("view.*")
        return (
            views.where(functions.col("dwell_ms") > SLOW_MS)
            .groupBy("page_id")
            .agg(functions.count("*"), functions.sum("dwell_ms"))
        )

    def work(format_: str, topic: str, messages: int) -> Callable[[], Pages]:
        if format_ == "write":
            file, _, topic = topic.partition(">")
            key = functions.expr("unhex(lpad(hex(page_id), 8, '0'))").alias("key")
            rows = spark.read.parquet(file).select(key, functions.to_json(functions.struct("*")).alias("value"))
            rows.write.format("kafka").option("kafka.bootstrap.servers", address).option("topic", topic).option(
                "kafka.compression.type", "lz4"
            ).option("kafka.linger.ms", "20").option("kafka.batch.size", "1000000").save()
            return lambda: ()
        shutil.rmtree(out, ignore_errors=True)
        counted(format_, topic).toDF("page_id", "views", "millis").write.parquet(out)
        return lambda: ((row.page_id, row.views, row.millis) for row in spark.read.parquet(out).collect())

    serve(work)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

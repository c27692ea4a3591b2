"""Timestamps with and without a zone keep their kind between Spark and Arrow, whatever pyspark's release has as default."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampNTZType, TimestampType

from airflow_samza.spark.arrow_types import arrow_schema, spark_schema

SPARK = StructType(
    [
        StructField("id", LongType()),
        StructField("name", StringType()),
        StructField("at", TimestampType()),
        StructField("local", TimestampNTZType()),
    ]
)
ARROW = pa.schema(
    [("id", pa.int64()), ("name", pa.string()), ("at", pa.timestamp("us", "UTC")), ("local", pa.timestamp("us"))]
)


def test_timestamps_become_arrows_in_utc_and_those_without_a_zone_stay_so() -> None:
    assert arrow_schema(SPARK).equals(ARROW)


def test_arrows_timestamps_become_sparks_by_their_zone() -> None:
    assert spark_schema(ARROW) == SPARK

"""A PySpark job as there are many, and what goes on from it: the hours at which an airport is busier than usual.

``departures_by_hour`` was there before: it reads the flights, counts them with a shuffle, and knows nothing of streams.
It comes in by ``from_dataframe``; behind it, everything is as after any other input.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_samza import avg, count, stream_application

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def departures_by_hour(spark: SparkSession) -> DataFrame:
    """The existing job: departures of each airport in each hour of each day.

    The flights lie where a setting of Spark says.
    """
    from pyspark.sql import functions as f

    flights = spark.read.parquet(spark.conf.get("spark.flights.data") or "flights")
    departed = flights.where("dep_delay IS NOT NULL").withColumn("day", f.to_date("time_hour"))
    return departed.groupBy("origin", "day", "hour").agg(
        f.count("*").alias("departures"), f.avg("dep_delay").alias("delay")
    )


@dataclass(frozen=True)
class Hour:
    """The departures from one airport in one hour."""

    origin: str
    hour: int
    departures: int
    delay: float


def is_busy(hour: Hour) -> bool:
    """More than twenty departures an hour is what these airports' towers call busy."""
    return hour.departures > 20


@stream_application("busy-airports")
def busy_airports(app: Any) -> None:
    """The existing job → busy hours → by airport → how many there are, and how late one leaves in them."""
    hours = app.from_dataframe(departures_by_hour, id="departures-by-hour", schema=Hour, partitions=2)
    (
        hours.filter(is_busy, id="busy")
        .partition_by("origin", id="by-airport")
        .aggregate("origin", busy_hours=count(), delay=avg("delay"), id="per-airport")
        .send_to(app.output_stream("busy-airports", system="warehouse", path="busy-airports/{run_id}"))
    )

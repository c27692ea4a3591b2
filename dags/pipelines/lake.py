"""The flights of days in a table of Iceberg, and what is made of those that are new in it: the delays of complete days.

A day is complete when a flight of a later one is there. Its delays are a partition of a table of Delta, from which
applications get them as a pushed table.
"""

from __future__ import annotations

from typing import Any

from airflow_samza import avg, count, stream_application, tumbling

DELAYS = "carrier string, day date, flights bigint, delay double"


@stream_application("flights-to-lake")
def flights_to_lake(app: Any) -> None:
    """Write the departures of the run's day; another run of the day replaces them."""
    flights = app.input_stream("flights", system="data", path="flights/{ds}.parquet", format="parquet")
    departures = flights.where("dep_delay IS NOT NULL").select(
        "to_date(concat(year, '-', month, '-', day)) AS day", "carrier", "origin", "dest", "dep_delay"
    )
    departures.send_to(
        app.output_stream("departures", system="lake", table="air.departures", create=True, partition_by="day")
    )


@stream_application("delays-of-lake")
def delays_of_lake(app: Any) -> None:
    """Count the departures that are new in the table; the days that they complete replace these days in the result."""
    departures = app.input_stream(
        "departures", system="lake", table="air.departures", slice="checkpoint", timestamp="day", max_delay=0
    )
    days = departures.partition_by("carrier", id="by-carrier").window(
        tumbling("1 day"), key="carrier", id="per-day", flights=count(), delay=avg("dep_delay")
    )
    days.select("carrier", "cast(window_start AS date) AS day", "flights", "delay").send_to(
        app.output_stream(
            "delays",
            system="mart",
            table="air.delays",
            schema=DELAYS,
            create=True,
            partition_by="day",
            mode="replace partitions",
        )
    )


@stream_application("flights-with-delays")
def flights_with_delays(app: Any) -> None:
    """Give the flights of the run's day the delays that their carriers had on the last complete day."""
    delays = app.pushed_table("delays", key="carrier", schema=DELAYS, partitions=1)
    flights = app.input_stream("flights", system="data", path="flights/{ds}.parquet", format="parquet", partitions=1)
    flights.select("carrier", "flight", "origin", "dest").join(delays, how="left", id="with-delays").send_to(
        app.output_stream("flights-with-delays", system="warehouse", path="flights-with-delays/{ds}")
    )

"""The flights of a day into a table of Iceberg, and the delays of all days that are in it into another one."""

from __future__ import annotations

from typing import Any

from airflow_samza import avg, count, stream_application


@stream_application("flights-to-lake")
def flights_to_lake(app: Any) -> None:
    """Write the departures of the run's day; another run of the day replaces them."""
    flights = app.input_stream("flights", system="data", path="flights/{ds}.parquet", format="parquet")
    departures = flights.where("dep_delay IS NOT NULL").select("carrier", "origin", "dest", "dep_delay", "time_hour")
    table = app.output_stream(
        "departures", system="lake", table="air.departures", create=True, partition_by="day(time_hour)"
    )
    departures.send_to(table)


@stream_application("delays-of-lake")
def delays_of_lake(app: Any) -> None:
    """Count the departures of all days by carrier; each run replaces the whole table."""
    departures = app.input_stream("departures", system="lake", table="air.departures")
    by_carrier = departures.partition_by("carrier", id="by-carrier")
    delays = by_carrier.aggregate("carrier", id="delays", flights=count(), delay=avg("dep_delay"))
    delays.send_to(app.output_stream("delays", system="lake", table="air.delays", create=True, mode="replace table"))

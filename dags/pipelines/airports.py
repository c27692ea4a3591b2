"""The airports of New York City day by day, as partitions: a file per day is read, a folder per day is written.

The key of a day's partition, such as ``2013-01-31``, names the file, the folder, and the data interval. A second
application reads the folder of the same key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airflow_samza import count, stream_application, sum_


@dataclass(frozen=True)
class Flight:
    """The columns of a scheduled departure that count here."""

    carrier: str
    origin: str
    dep_delay: int | None


@dataclass(frozen=True)
class AirportDay:
    """The flights of a carrier that left an airport on a day, and the minutes by which they were late."""

    origin: str
    carrier: str
    flights: int
    minutes: int


@stream_application("airport-days")
def airport_days(app: Any) -> None:
    """Count what left each airport on the day of the partition."""
    flights = app.input_stream("flights", system="data", schema=Flight, path="flights/{ds}.parquet", partitions=2)
    (
        flights.where("dep_delay IS NOT NULL", id="that-left")
        .partition_by(["origin", "carrier"], id="by-airport")
        .aggregate(["origin", "carrier"], flights=count(), minutes=sum_("dep_delay"), id="per-airport")
        .send_to(app.output_stream("airport-days", system="warehouse", path="airport-days/{partition_key}"))
    )


@stream_application("carrier-days")
def carrier_days(app: Any) -> None:
    """Sum up the airports by carrier; the days lie in one folder, where each replaces its own rows."""
    airports = app.input_stream(
        "airport-days", system="warehouse", schema=AirportDay, path="airport-days/{partition_key}", partitions=1
    )
    (
        airports.partition_by("carrier", id="by-carrier")
        .aggregate("carrier", flights=sum_("flights"), minutes=sum_("minutes"), id="per-carrier")
        .send_to(app.output_stream("carrier-days", system="warehouse", path="carrier-days"))
    )

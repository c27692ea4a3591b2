"""The flights of New York City as messages of a topic of Kafka: an hour of it per run, or as they come.

A message is a scheduled departure: JSON, keyed by the plane, and its timestamp is the time for which the departure was
scheduled. ``python -m demo.flights_topic BROKER`` fills such a topic.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from airflow_samza import avg, count, stream_application, tumbling


@dataclass(frozen=True)
class Flight:
    """Columns of a message that count here; ``at`` is its timestamp, the others are in its value."""

    carrier: str
    dep_delay: int | None
    at: datetime


def departures(app: Any, **more: Any) -> Any:
    """The flights that left, by their carriers; the topic has them by their planes."""
    flights = app.input_stream(
        "flights", system="events", schema=Flight, timestamp="at", options={"timestamp_column": "at"}, **more
    )
    return flights.where("dep_delay IS NOT NULL", id="that-left").partition_by("carrier", id="by-carrier")


@stream_application("kafka-hourly")
def hourly(app: Any) -> None:
    """The messages whose timestamps lie in the data interval; wherever they are in the topic."""
    departures(app, slice="timestamp").aggregate(
        "carrier", flights=count(), delay=avg("dep_delay"), id="per-carrier"
    ).send_to(app.output_stream("carriers", system="warehouse", path="kafka-hourly/{data_interval_start:%Y-%m-%dT%H}"))


@stream_application("kafka-live")
def live(app: Any) -> None:
    """From topic to topic: windows as their time is over; a run goes on where the one before has stopped."""
    departures(app, slice="checkpoint", max_delay="1 day").window(
        tumbling("1 hour"), key="carrier", flights=count(), delay=avg("dep_delay"), id="per-hour"
    ).send_to(app.output_stream("carrier-hours", system="events", key="carrier", partitions=2))


@stream_application("kafka-arrivals")
def arrivals(app: Any) -> None:
    """The messages that came since the run before, each in one run; that run's state says which they are."""
    app.input_stream(
        "flights",
        system="events",
        schema=Flight,
        timestamp="at",
        options={"timestamp_column": "at"},
        slice="checkpoint",
    ).where("dep_delay IS NOT NULL", id="that-left").send_to(
        app.output_stream("departures", system="warehouse", path="kafka-arrivals/{run_id}")
    )

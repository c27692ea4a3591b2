"""Departures from New York City as a stream: fed day by day into a topic, and read from it in several ways.

Of the flights in :mod:`pipelines.flights`; a day's file is the batch in which departures become known, so they come up
to a day late.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from airflow_samza import avg, count, stream_application, tumbling


@dataclass(frozen=True)
class Flight:
    """The columns of a scheduled departure that count here."""

    carrier: str
    origin: str
    dep_delay: int | None
    time_hour: datetime


@dataclass(frozen=True)
class Departure:
    """A flight that left: minutes of delay, and the hour for which it was scheduled (UTC)."""

    carrier: str
    origin: str
    dep_delay: int
    at: datetime


def of_a_day(app: Any) -> Any:
    """The departures of the day that the run's configuration names."""
    flights = app.input_stream(
        "flights", system="data", schema=Flight, path="flights/{config[day]}.parquet", partitions=1
    )
    return flights.where("dep_delay IS NOT NULL", id="that-left").select(
        "carrier", "origin", "dep_delay", "time_hour AS at", id="departure"
    )


def known_so_far(app: Any, **more: Any) -> Any:
    """The topic of departures, which goes on; its watermark follows a day behind."""
    return app.input_stream("departures", system="log", schema=Departure, timestamp="at", max_delay="1 day", **more)


def per_hour(departures: Any) -> Any:
    """Count departures per carrier and hour, and their delays."""
    return departures.partition_by("carrier", id="by-carrier").window(
        tumbling("1 hour"), key="carrier", flights=count(), delay=avg("dep_delay"), id="per-hour"
    )


@stream_application("departures-feed")
def feed(app: Any) -> None:
    """A day's file into the topic of departures."""
    of_a_day(app).send_to(app.output_stream("departures", system="log", schema=Departure, key="origin", partitions=2))


@stream_application("departures-live")
def live(app: Any) -> None:
    """Windows as their time is over, for as long as the run is on."""
    departures = known_so_far(app, bounded=False)
    per_hour(departures).send_to(app.output_stream("hours", system="warehouse", path="departures-live/{run_id}"))


@stream_application("departures-catch-up")
def catch_up(app: Any) -> None:
    """Read all since the run before; a window may begin in one run and end in another."""
    departures = known_so_far(app, slice="checkpoint")
    per_hour(departures).send_to(app.output_stream("hours", system="warehouse", path="departures-catch-up/{run_id}"))


@stream_application("departures-hours")
def hours(app: Any) -> None:
    """Read all, what is new, or whatever comes: the run says it, since the input leaves ``bounded`` out."""
    per_hour(known_so_far(app)).send_to(
        app.output_stream("hours", system="warehouse", path="departures-hours/{run_id}")
    )


@stream_application("departures-files")
def files(app: Any) -> None:
    """The days' files that came since the run before; no topic and no feeder in between."""
    flights = app.input_stream(
        "flights",
        system="data",
        schema=Flight,
        path="flights/*.parquet",
        partitions=1,
        slice="checkpoint",
        timestamp="time_hour",
        max_delay="1 day",
        options={"order": "name"},  # a file is named after its day
    )
    per_hour(flights.where("dep_delay IS NOT NULL", id="that-left")).send_to(
        app.output_stream("hours", system="warehouse", path="departures-files/{run_id}")
    )


@stream_application("departures-shared")
def shared(app: Any) -> None:
    """A day's departures, by carrier, in a stream that other applications read."""
    by_carrier = of_a_day(app).partition_by("carrier", id="by-carrier")
    by_carrier.send_to(
        app.output_stream(
            "carrier-departures", system="log", schema=Departure, key="carrier", partitions=2, shared=True
        )
    )


@stream_application("departures-by-carrier")
def by_carrier(app: Any) -> None:
    """Reads what a run of ``departures-shared`` has written, and ends where that ended."""
    departures = app.shared_stream("carrier-departures", system="log", schema=Departure, key="carrier", bounded=True)
    departures.aggregate("carrier", flights=count(), delay=avg("dep_delay"), id="per-carrier").send_to(
        app.output_stream("carriers", system="warehouse", path="departures-by-carrier/{run_id}")
    )


@stream_application("departures-told", config={"job.epoch.max.messages": "200"})
def told(app: Any) -> None:
    """A day's departures, by carrier, in a stream that other applications follow while it is written."""
    by_carrier = of_a_day(app).partition_by("carrier", id="by-carrier")
    by_carrier.send_to(
        app.output_stream("told-departures", system="log", schema=Departure, key="carrier", partitions=2, shared=True)
    )


@stream_application("departures-told-by-carrier")
def told_by_carrier(app: Any) -> None:
    """Follow a run of ``departures-told``, and end where that ends."""
    departures = app.shared_stream("told-departures", system="log", schema=Departure, key="carrier", bounded=True)
    departures.aggregate("carrier", flights=count(), delay=avg("dep_delay"), id="per-carrier").send_to(
        app.output_stream("carriers", system="warehouse", path="departures-told/{run_id}")
    )

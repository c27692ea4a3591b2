"""Probability that a flight leaves late.

A small model, trained anew every day, pushed as a table of weights, and used on flights as they come.

The model is a logistic regression (scikit-learn) over carrier and scheduled hour, on the real flights of
:mod:`pipelines.flights`. Its weights, a row per carrier, are the table ``delay-model``; each row says which day the
model was trained up to, so that every score tells who made it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow_samza import stream_application

LATE_MINUTES = 15
DAYS = 7
"""A model learns from so many days, or as many of them as there are."""

PARTITIONS = 2


@dataclass(frozen=True)
class Weights:
    """The model's row for one carrier: the log odds of a late departure are ``bias + per_hour * hour``."""

    carrier: str
    bias: float
    per_hour: float
    trained_to: str


@dataclass(frozen=True)
class Flight:
    """A scheduled departure; ``hour`` is local, ``time_hour`` UTC."""

    carrier: str
    flight: int
    origin: str
    hour: int
    time_hour: datetime


@dataclass(frozen=True)
class Score:
    """The probability of a late departure, and the model's version; null when the model does not know the carrier."""

    carrier: str
    flight: int
    origin: str
    hour: int
    time_hour: datetime
    late: float | None
    trained_to: str | None


def train(data: Path, last: date) -> list[dict[str, Any]]:
    """The weights of a model that has learned from the flights of the days up to ``last``."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
    from sklearn.linear_model import LogisticRegression

    days = [data / "flights" / f"{last - timedelta(days=back)}.parquet" for back in range(DAYS)]
    flights = pa.concat_tables(
        [pq.read_table(day, columns=["carrier", "hour", "dep_delay"]) for day in days if day.exists()]
    )
    flights = flights.filter(pa.compute.is_valid(flights["dep_delay"]))
    names, carrier = np.unique(flights["carrier"].to_pylist(), return_inverse=True)
    known = np.column_stack([np.eye(len(names))[carrier], flights["hour"].to_numpy()])
    model = LogisticRegression(max_iter=1000).fit(known, flights["dep_delay"].to_numpy() > LATE_MINUTES)
    *of_carriers, per_hour = model.coef_[0]
    return [
        {
            "carrier": str(name),
            "bias": float(model.intercept_[0] + own),
            "per_hour": float(per_hour),
            "trained_to": last.isoformat(),
        }
        for name, own in zip(names, of_carriers, strict=True)
    ]


def train_to_file(data: str, last: str) -> str:
    """Trains, and leaves the weights in a file; its path."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    place = Path(data) / "models" / f"{last}.parquet"
    place.parent.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(train(Path(data), date.fromisoformat(last))), place)
    return str(place)


def score(flight: Flight, weights: Weights | None) -> Score:
    """The flight with the model's opinion."""
    late = None if weights is None else 1 / (1 + math.exp(-(weights.bias + weights.per_hour * flight.hour)))
    return Score(
        flight.carrier,
        flight.flight,
        flight.origin,
        flight.hour,
        flight.time_hour,
        late,
        weights.trained_to if weights else None,
    )


def delay_model(app: Any) -> Any:
    """The table that the refresh pushes."""
    return app.pushed_table("delay-model", key="carrier", schema=Weights, partitions=PARTITIONS)


def flights_of_a_day(app: Any, path: str) -> Any:
    """The flights of one day's file."""
    return app.input_stream("flights", system="data", schema=Flight, path=path, partitions=1)


@stream_application("flights-feed")
def feed(app: Any) -> None:
    """A day's flights into the topic of flights that are to be scored."""
    flights_of_a_day(app, "flights/{config[day]}.parquet").send_to(
        app.output_stream("planned-flights", system="log", schema=Flight, key="carrier", partitions=PARTITIONS)
    )


@stream_application("delay-scores")
def scores(app: Any) -> None:
    """Scores what came since the run before."""
    flights = app.input_stream(
        "planned-flights",
        system="log",
        schema=Flight,
        key="carrier",
        partitions=PARTITIONS,
        bounded=False,
        slice="checkpoint",
    )
    flights.join(delay_model(app), score, how="left", id="score").send_to(
        app.output_stream("scores", system="warehouse", schema=Score, path="delay-scores/{run_id}")
    )


@stream_application("delay-scores-of-a-day")
def scores_of_a_day(app: Any) -> None:
    """Scores the flights of the run's day."""
    flights = flights_of_a_day(app, "flights/{data_interval_start:%Y-%m-%d}.parquet")
    flights.partition_by("carrier", id="by-carrier").join(delay_model(app), score, how="left", id="score").send_to(
        app.output_stream("scores", system="warehouse", schema=Score, path="delay-scores-of-a-day/{ds}")
    )


@stream_application("delay-scores-of-a-month")
def scores_of_a_month(app: Any) -> None:
    """Scores the flights of the run's month in one go, each by the model of its own time."""
    flights = app.input_stream(
        "flights",
        system="data",
        schema=Flight,
        path="flights/{data_interval_start:%Y-%m}-*.parquet",
        timestamp="time_hour",
        partitions=PARTITIONS,
    )
    by_carrier = flights.partition_by("carrier", id="by-carrier")
    scored = by_carrier.join(delay_model(app), score, schema=Score, how="left", as_of="event time", id="score")
    scored.send_to(app.output_stream("scores", system="warehouse", schema=Score, path="delay-scores-of-a-month/{ds}"))

"""Streams whose producer fails, or is held up while its run is followed, for the Dags of following_dags."""

from __future__ import annotations

from typing import Any

from interference import hold  # type: ignore[import-not-found]

from airflow_samza import count, stream_application


def _flights(app: Any) -> Any:
    return app.input_stream(
        "flights", system="data", schema="carrier string", path="flights/2013-01-01.parquet", partitions=1
    )


def _told(app: Any, stream: str) -> Any:
    return app.output_stream(stream, system="log", schema="carrier string", partitions=1, shared=True)


def _count(app: Any, stream: str, path: str) -> None:
    departures = app.shared_stream(stream, system="log", schema="carrier string", bounded=True)
    departures.partition_by("carrier", id="by-carrier").aggregate("carrier", flights=count(), id="per-carrier").send_to(
        app.output_stream("carriers", system="warehouse", path=path)
    )


def _fails(message: Any) -> Any:
    raise ValueError("this producer fails")


@stream_application("failing-teller")
def failing(app: Any) -> None:
    _flights(app).map(_fails, id="fails", schema="carrier string").send_to(_told(app, "failed-departures"))


@stream_application("follower-of-failing")
def follower(app: Any) -> None:
    _count(app, "failed-departures", "never/{run_id}")


def held_departure(message: Any) -> bool:
    """Keeps every message, after the wait."""
    hold("departure")
    return True


@stream_application("held-teller")
def held(app: Any) -> None:
    _flights(app).filter(held_departure, id="hold").send_to(_told(app, "held-departures"))


@stream_application("follower-of-held")
def follower_of_held(app: Any) -> None:
    _count(app, "held-departures", "followed/{run_id}")

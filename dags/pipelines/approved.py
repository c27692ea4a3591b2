"""Delays by carrier and day, which are checked by expectations, and seen when a person has approved them."""

from __future__ import annotations

from typing import Any

from airflow_samza import avg, condition, count, not_null, rows, stream_application, unique

FLIGHT = "carrier string, time_hour timestamp, dep_delay bigint"


@stream_application("approved-delays")
def approved_delays(app: Any) -> None:
    """Publish the average delay of each carrier on a day, after approval."""
    flights = app.input_stream(
        "flights", system="data", schema=FLIGHT, path="flights/{data_interval_start:%Y-%m-%d}.parquet", partitions=2
    )
    delays = app.output_stream(
        "delays",
        system="warehouse",
        path="approved-delays",
        format="parquet",
        publish="after approval",
        expect=[
            unique("carrier"),
            not_null("delay"),
            rows(at_least=1, change=0.5),
            condition("delay < 60", on_error="warn"),
        ],
    )
    (
        flights.where("dep_delay IS NOT NULL")
        .partition_by("carrier", id="by-carrier")
        .aggregate("carrier", flights=count(), delay=avg("dep_delay"), id="delays-by-carrier")
        .send_to(delays)
    )

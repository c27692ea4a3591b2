"""An application that is split over two Dags.

One counts by minute and carries its windows on, the other sums up what that has written.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any

from airflow_samza import count, stream_application, sum_, tumbling


@dataclass(frozen=True)
class Visit:
    member_id: int
    country: str
    at: datetime.datetime


@stream_application("counting-visits")
def counting(app: Any) -> None:
    visits = app.input_stream(
        "visits", system="log", schema=Visit, slice="checkpoint", bounded=False, timestamp="at", max_delay="1 minute"
    )
    by_country = visits.partition_by("country", id="by-country")
    windows = by_country.window(tumbling("1 minute"), key="country", visits=count(), id="per-minute")
    windows.select("country", "visits").send_to(
        app.output_stream("minutes", system="log", key="country", partitions=2, shared=True)
    )


@stream_application("summing-visits")
def summing(app: Any) -> None:
    minutes = app.shared_stream(
        "minutes", system="log", schema="country string, visits bigint", key="country", bounded=True
    )
    totals = minutes.aggregate("country", minutes=count(), visits=sum_("visits"), id="per-country")
    totals.send_to(app.output_stream("totals", system="log", partitions=2, key="country"))

"""Applications that run in all modes: a chain of five stages, and windows over what never ends."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, replace
from typing import Any

from airflow_samza import count, stream_application, sum_, tumbling


@dataclass(frozen=True)
class Visit:
    member_id: int
    country: str
    dwell_ms: int
    at: datetime.datetime


def longer(visit: Visit) -> Visit:
    return replace(visit, dwell_ms=visit.dwell_ms + 1)


@stream_application("five-stages")
def five_stages(app: Any) -> None:
    visits = app.input_stream("visits", system="log", schema=Visit)
    for number, key in enumerate(("country", "member_id", "country", "member_id")):
        visits = visits.map(longer).partition_by(key, id=f"hop-{number}")
    visits.send_to(app.output_stream("hopped", system="log", schema=Visit, partitions=2, key="member_id"))
    counted = visits.aggregate("member_id", visits=count(), dwell=sum_("dwell_ms"), id="per-member")
    counted.send_to(app.output_stream("per-member", system="lake", path="out/per-member", format="parquet"))


@stream_application("by-catalyst")
def by_catalyst(app: Any) -> None:
    """A stage in whose middle Catalyst runs: windows before it, and a count behind it, keep state."""
    visits = app.input_stream("visits", system="log", schema=Visit, timestamp="at").partition_by(
        "country", id="by-country"
    )
    windows = visits.window(tumbling("1 minute"), key="country", visits=count(), id="per-minute")
    shown = windows.select("regexp_replace(country, 'n', 'N') AS place", "visits").where("rlike(place, '^[Nd]')")
    shown.partition_by("place", id="by-place").aggregate(
        "place", minutes=count(), visits=sum_("visits"), id="per-place"
    ).send_to(app.output_stream("per-place", system="log", partitions=2, key="place"))


@stream_application("flowing")
def flowing(app: Any) -> None:
    visits = app.input_stream(
        "visits", system="log", schema=Visit, partitions=2, bounded=False, timestamp="at", max_delay=0
    )
    by_country = visits.map(longer).partition_by("country", id="by-country")
    by_country.send_to(app.output_stream("hopped", system="log", schema=Visit, partitions=2, key="country"))
    windows = by_country.window(
        tumbling("1 minute"), key="country", visits=count(), dwell=sum_("dwell_ms"), id="per-minute"
    )
    windows.send_to(app.output_stream("per-minute", system="log", partitions=2, key="country"))


SHARED = "member_id bigint, country string, dwell_ms bigint"


@stream_application("telling", config={"job.epoch.max.messages": "100"})
def telling(app: Any) -> None:
    """Visits by country, in a stream that another application follows."""
    visits = app.input_stream("visits", system="log", schema=Visit, partitions=2, bounded=True)
    seen = visits.select("member_id", "country", "dwell_ms", id="seen")
    seen.partition_by("country", id="by-country").send_to(
        app.output_stream("told", system="log", schema=SHARED, key="country", partitions=2, shared=True)
    )


@stream_application("listening")
def listening(app: Any) -> None:
    """Visits per country, of a run of ``telling``."""
    told = app.shared_stream("told", system="log", schema=SHARED, key="country", bounded=True)
    told.aggregate("country", visits=count(), dwell=sum_("dwell_ms"), id="per-country").send_to(
        app.output_stream("heard", system="log", key="country", partitions=2)
    )

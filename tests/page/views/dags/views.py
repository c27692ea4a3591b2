"""Page views per country: a function that rejects some messages, and one that rejects them all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airflow_samza import count, stream_application


@dataclass(frozen=True)
class PageView:
    """A member has looked at a page."""

    member_id: int
    country: str
    email: str


def rated(view: PageView) -> PageView:
    """Return the view; a member without a number has no rate."""
    if view.member_id <= 0:
        raise ValueError(f"{view.member_id} is no member")
    return view


def unrated(view: PageView) -> PageView:
    """Raise for every view."""
    raise LookupError("there are no rates today")


@stream_application("page-views")
def page_views(app: Any) -> None:
    """Count the views of members per country."""
    views = app.input_stream("page-views", system="logs", schema=PageView, path="page-views", partitions=2)
    (
        views.map(rated, schema=PageView, id="rate", on_error="drop")
        .partition_by("country", id="by-country")
        .aggregate("country", views=count(), id="per-country")
        .send_to(app.output_stream("views-per-country", system="warehouse", path="views-per-country"))
    )


@stream_application("broken-views")
def broken_views(app: Any) -> None:
    """Fail at the first view."""
    views = app.input_stream("page-views", system="logs", schema=PageView, path="page-views", partitions=2)
    views.map(unrated, schema=PageView, id="rate").send_to(app.output_stream("rated", system="warehouse", path="rated"))


@stream_application("member-tiers")
def member_tiers(app: Any) -> None:
    """Look up the tiers of members in a pushed table; runs hand on how far they have read, as state."""
    tiers = app.pushed_table("tiers", key="member_id", schema="member_id int, tier string", partitions=2)
    visits = app.input_stream(
        "member-visits", system="log", schema="member_id int", key="member_id", partitions=2, slice="checkpoint"
    )
    known = visits.join(tiers, how="left", id="with-tier").partition_by("tier", id="by-tier")
    known.send_to(app.output_stream("tiered-visits", system="log", shared=True, partitions=2, key="tier"))

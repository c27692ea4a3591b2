"""An application of 200 stages over 2,048 partitions: for the page to be quick with, never to be run."""

from __future__ import annotations

from typing import Any

from airflow_samza import count, stream_application

CHAINS, STAGES, PARTITIONS = 40, 5, 2048
COUNTRIES = ("NL", "SE", "NO", "DK", "FI")


@stream_application("wide-views")
def wide_views(app: Any) -> None:
    """Count views in forty chains of five stages."""
    for chain in range(CHAINS):
        views = app.input_stream(
            f"views-{chain:02}",
            system="logs",
            schema="member_id bigint, country string, email string",
            path="page-views",
            partitions=PARTITIONS,
        )
        for step in range(STAGES - 1):
            kept = views.where(f"country <> '{COUNTRIES[step]}'")
            views = kept.partition_by(("country", "member_id")[step % 2], id=f"by-key-{chain:02}-{step}")
        counted = views.aggregate("member_id", views=count(), id=f"per-member-{chain:02}")
        counted.send_to(app.output_stream(f"counts-{chain:02}", system="warehouse", path=f"counts-{chain:02}"))

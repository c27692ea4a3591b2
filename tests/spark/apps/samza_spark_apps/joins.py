"""Views joined with clicks: a full join by columns, and one with a function that fails on some pairs."""

from __future__ import annotations

from typing import Any

from airflow_samza import dead_letter, stream_application

VIEWS = "member_id bigint, page int, seen bigint"
CLICKS = "who bigint, button int, clicked bigint"


def lag(view: Any, click: Any) -> dict[str, Any]:
    return {"page": view.page, "button": click.button, "share": 100 // (click.clicked - view.seen)}


@stream_application("spark-joins")
def joins(app: Any) -> None:
    views = app.input_stream("views", system="log", schema=VIEWS, timestamp="seen").partition_by(
        "member_id", id="views-by-member"
    )
    clicks = app.input_stream("clicks", system="log", schema=CLICKS, timestamp="clicked").partition_by(
        "who", id="clicks-by-member"
    )
    keys = {"left_key": "member_id", "right_key": "who"}
    views.join(clicks, id="all", how="full", ttl="10 seconds", **keys).send_to(
        app.output_stream("all", system="log", partitions=2)
    )
    lagging = views.join(
        clicks,
        lag,
        id="lags",
        ttl="10 seconds",
        schema="page int, button int, share bigint",
        on_error=dead_letter(app.output_stream("bad", system="log", partitions=2)),
        **keys,
    )
    lagging.send_to(app.output_stream("lags", system="log", partitions=2))

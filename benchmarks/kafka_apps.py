"""Applications of the Kafka benchmark: a topic is filtered and counted per page, and rows are sent to a topic."""

from __future__ import annotations

from typing import Any

from airflow_samza import count, stream_application, sum_
from benchmarks.applications import PAGE_VIEWS, page_views, results


def _per_page(app: Any, serde: str) -> None:
    views = app.input_stream("views", system="events", schema=PAGE_VIEWS, serde=serde, key="page_id")
    counted = views.where("dwell_ms > 1000").aggregate("page_id", id="per-page", views=count(), millis=sum_("dwell_ms"))
    counted.send_to(results(app, "views-per-page"))


json = stream_application("bench-kafka-json")(lambda app: _per_page(app, "json"))
avro = stream_application("bench-kafka-avro")(lambda app: _per_page(app, "avro:views.avsc"))


def _published(app: Any, delivery: str) -> None:
    views = page_views(app).where("dwell_ms >= 0")
    views.send_to(
        app.output_stream(
            "published", system="events", schema=PAGE_VIEWS, key="page_id", options={"delivery": delivery}
        )
    )


exactly_once = stream_application("bench-kafka-exactly-once")(lambda app: _published(app, "exactly_once"))
at_least_once = stream_application("bench-kafka-at-least-once")(lambda app: _published(app, "at_least_once"))

"""Applications over two unbounded inputs of which one may fall silent, for tests."""

from __future__ import annotations

from typing import Any

from airflow_samza import count, stream_application, tumbling


def _inputs(app: Any) -> list[Any]:
    return [
        app.input_stream(name, schema="k bigint, at timestamp", timestamp="at", max_delay="0 s", bounded=False, key="k")
        for name in ("spoken", "silent")
    ]


def _merged(app: Any) -> None:
    spoken, silent = _inputs(app)
    minutes = spoken.merge(silent, id="both").window(tumbling("1 minute"), key="k", n=count(), id="minutes")
    minutes.send_to(app.output_stream("minutes"))


def _merged_behind_topics(app: Any) -> None:
    spoken, silent = (stream.partition_by("k", id=f"by-{place}") for place, stream in enumerate(_inputs(app)))
    minutes = spoken.merge(silent, id="both").window(tumbling("1 minute"), key="k", n=count(), id="minutes")
    minutes.send_to(app.output_stream("minutes"))


merged = stream_application("silence")(_merged)
merged_behind_topics = stream_application("silence-behind-topics")(_merged_behind_topics)

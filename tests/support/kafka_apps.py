"""Applications that read topics of Kafka, for tests."""

from __future__ import annotations

from typing import Any

from airflow_samza import count, stream_application


def _copied(app: Any) -> None:
    views = app.input_stream("views", system="events", schema="id bigint")
    views.where("id >= 0", id="good").send_to(app.output_stream("copies", system="log", partitions=1))


copying = stream_application("copying")(_copied)


def _hourly(app: Any) -> None:
    views = app.input_stream(
        "views",
        system="events",
        schema="id bigint, sent timestamp",
        timestamp="sent",
        slice="timestamp",
        options={"timestamp_column": "sent"},
    )
    views.select("id", id="ids").send_to(app.output_stream("copies", system="log", partitions=1))


hourly = stream_application("hourly")(_hourly)


def _following(app: Any, **options: str) -> None:
    views = app.input_stream("views", system="events", schema="id bigint", slice="checkpoint", options=options)
    views.where("id >= 0", id="good").send_to(app.output_stream("copies", system="log", partitions=1))


following = stream_application("following")(_following)
skipping = stream_application("skipping")(lambda app: _following(app, on_expired="skip"))


def _counted(app: Any) -> None:
    views = app.input_stream("views", system="events", schema="id bigint", key="id", slice="checkpoint")
    views.aggregate("id", n=count(), id="per-id").send_to(app.output_stream("counts", system="log", partitions=1))


counting = stream_application("counting")(_counted)


def _following_by_time(app: Any) -> None:
    views = app.input_stream(
        "views",
        system="events",
        schema="id bigint, sent timestamp",
        timestamp="sent",
        slice="timestamp",
        bounded=False,
        options={"timestamp_column": "sent"},
    )
    views.select("id", id="ids").send_to(app.output_stream("copies", system="log", partitions=1))


following_by_time = stream_application("following-by-time")(_following_by_time)


def _keyed_texts(app: Any) -> None:
    views = app.input_stream(
        "views",
        system="events",
        schema="text string, sent timestamp, k string",
        serde="string",
        timestamp="sent",
        slice="timestamp",
        options={"timestamp_column": "sent", "key_column": "k"},
    )
    views.select("CAST(k AS BIGINT) AS id", "text", id="ids").send_to(
        app.output_stream("copies", system="log", partitions=1)
    )


keyed_texts = stream_application("keyed-texts")(_keyed_texts)


def _told(app: Any) -> None:
    _following(app, group="people")


told = stream_application("told")(_told)


def _told_hourly(app: Any) -> None:
    views = app.input_stream(
        "views",
        system="events",
        schema="id bigint, sent timestamp",
        timestamp="sent",
        slice="timestamp",
        options={"timestamp_column": "sent", "group": "people"},
    )
    views.select("id", id="ids").send_to(app.output_stream("copies", system="log", partitions=1))


told_hourly = stream_application("told-hourly")(_told_hourly)


def _timed(app: Any) -> None:
    views = app.input_stream(
        "views",
        system="events",
        schema="id bigint, sent timestamp",
        timestamp="sent",
        max_delay="1 minute",
        bounded=False,
        slice="checkpoint",
        options={"timestamp_column": "sent"},
    )
    views.select("id", id="ids").send_to(app.output_stream("copies", system="log", partitions=1))


timed = stream_application("timed")(_timed)


def _copied_back(app: Any) -> None:
    views = app.input_stream("views", system="events", schema="id bigint")
    views.where("id >= 0", id="good").send_to(
        app.output_stream("out", system="events", schema="id bigint", partitions=1)
    )


copying_back = stream_application("copying-back")(_copied_back)


def _passed_on(app: Any) -> None:
    app.default_system("events")
    lines = app.input_stream("lines", system="log", schema="n bigint")
    by_n = lines.partition_by("n", id="by-n")
    by_n.where("n >= 0", id="good").send_to(app.output_stream("copies", system="log", partitions=1))


passing_on = stream_application("passing-on")(_passed_on)

"""Applications whose tables are fed by side inputs."""

from __future__ import annotations

import threading
from typing import Any

from airflow_samza import stream_application

VIEWS = "member_id bigint, page string"
PROFILES = "member_id bigint, tier string"


@stream_application("scored-views", default_system="log")
def scored_views(app: Any) -> None:
    """Views, each beside the profile of its member."""
    views = app.input_stream("views", schema=VIEWS, key="member_id")
    profiles = app.table(
        "profiles", key="member_id", side_inputs=[app.side_input("profile-changes", schema=PROFILES, key="member_id")]
    )
    views.join(profiles, how="left", id="with-profile").send_to(app.output_stream("scored", key="member_id"))


@stream_application("pushed-views", default_system="log")
def pushed_views(app: Any) -> None:
    """Views, each beside the pushed profile of its member."""
    views = app.input_stream("views", schema=VIEWS, key="member_id")
    profiles = app.pushed_table("profiles", key="member_id", schema=PROFILES, partitions=2)
    views.join(profiles, how="left", id="with-profile").send_to(app.output_stream("scored", key="member_id"))


@stream_application("toured-views", default_system="log")
def toured_views(app: Any) -> None:
    """Views, each beside the profile of its member, of a side input of which every task reads all."""
    views = app.input_stream("views", schema=VIEWS, key="member_id")
    changes = app.side_input("profile-changes", schema=PROFILES, broadcast=True)
    views.join(app.table("profiles", key="member_id", side_inputs=[changes]), how="left", id="with-profile").send_to(
        app.output_stream("scored", key="member_id")
    )


@stream_application("following", default_system="log")
def following(app: Any) -> None:
    """Views as they come, each beside the profile of its member as it is then."""
    views = app.input_stream("views", schema=VIEWS, key="member_id", bounded=False)
    changes = app.side_input("profile-changes", schema=PROFILES, key="member_id", bounded=False)
    profiles = app.table("profiles", key="member_id", side_inputs=[changes])
    views.join(profiles, how="left", id="with-profile").send_to(app.output_stream("scored", key="member_id"))


@stream_application("following-pushes", default_system="log")
def following_pushes(app: Any) -> None:
    """Views as they come, each beside the profile of the newest version."""
    views = app.input_stream("views", schema=VIEWS, key="member_id", bounded=False)
    profiles = app.pushed_table("profiles", key="member_id", schema=PROFILES, partitions=2)
    views.join(profiles, how="left", id="with-profile").send_to(app.output_stream("scored", key="member_id"))


class Seen:
    """A processor that keeps the last tier of each member, and how many it has had."""

    def __init__(self, config: Any, metrics: Any) -> None:
        self._metrics = metrics

    def process(self, message: Any, store: Any) -> Any:
        """One row for each message."""
        former = store.get(message.key)
        self._metrics.count("seen")
        self._metrics.gauge("last", message.offset)
        yield message.key, {"tier": message.message.tier, "times": (former.times if former else 0) + 1}


SEEN = "member_id bigint, tier string, times bigint"


@stream_application("following-processed", default_system="log")
def following_processed(app: Any) -> None:
    """Views as they come, each beside what a processor has made of the changes by then."""
    views = app.input_stream("views", schema=VIEWS, key="member_id", bounded=False)
    changes = app.side_input("profile-changes", schema=PROFILES, key="member_id", bounded=False)
    profiles = app.table("profiles", key="member_id", side_inputs=[changes], schema=SEEN, processor=Seen)
    views.join(profiles, how="left", id="with-profile").send_to(app.output_stream("scored", key="member_id"))


@stream_application("processed-views", default_system="log")
def processed_views(app: Any) -> None:
    """Views, each beside what a processor has made of the changes of its member."""
    views = app.input_stream("views", schema=VIEWS, key="member_id")
    changes = app.side_input("profile-changes", schema=PROFILES, key="member_id")
    profiles = app.table("profiles", key="member_id", side_inputs=[changes], schema=SEEN, processor=Seen)
    views.join(profiles, how="left", id="with-profile").send_to(app.output_stream("scored", key="member_id"))


@stream_application("configured-views", default_system="log")
def configured_views(app: Any) -> None:
    """Views, each beside the profile of its member, of the side inputs that the configuration names."""
    views = app.input_stream("views", schema=VIEWS, key="member_id")
    profiles = app.table("profiles", key="member_id", schema=PROFILES)
    views.join(profiles, how="left", id="with-profile").send_to(app.output_stream("scored", key="member_id"))


@stream_application("unkept-views", default_system="log")
def unkept_views(app: Any) -> None:
    """Views, each beside what a processor has made whose factory holds what no other process can compare."""
    views = app.input_stream("views", schema=VIEWS, key="member_id")
    changes = app.side_input("profile-changes", schema=PROFILES, key="member_id")
    lock = threading.Lock()

    def make(config: Any, metrics: Any) -> Any:
        with lock:
            return Seen(config, metrics)

    profiles = app.table("profiles", key="member_id", side_inputs=[changes], schema=SEEN, processor=make)
    views.join(profiles, how="left", id="with-profile").send_to(app.output_stream("scored", key="member_id"))


@stream_application("twice-scored-views", default_system="log")
def twice_scored_views(app: Any) -> None:
    """Views, each beside the profile of its member of two tables."""
    views = app.input_stream("views", schema=VIEWS, key="member_id")
    for name in ("first", "second"):
        changes = app.side_input(f"{name}-changes", schema=PROFILES, key="member_id")
        profiles = app.table(name, key="member_id", side_inputs=[changes])
        views = views.join(
            profiles, lambda view, profile: view, how="left", id=f"with-{name}", schema=VIEWS, key="member_id"
        )
    views.send_to(app.output_stream("seen", key="member_id"))


@stream_application("views-by-lake", default_system="log")
def views_by_lake(app: Any) -> None:
    """Views as they come, each beside the profile of its member in a table or files of a lake, read whole by each task."""
    follows = app.config.get("follows") == "yes"
    views = app.input_stream("views", schema=VIEWS, key="member_id", bounded=not follows)
    lies = {"key": "member_id", "partitions": 2} if app.config.get("keyed") == "yes" else {"broadcast": True}
    bounded = app.config.get("bounded") == "yes"
    if app.config.get("is_table") == "yes":
        profiles = app.pushed_table("profiles", key="member_id", from_table="web.profiles", system="lake")
        views.join(profiles, how="left", id="with-profile").send_to(app.output_stream("scored", key="member_id"))
        return
    place = {"path": "profiles", "schema": PROFILES} if app.config.get("files") == "yes" else {"table": "web.profiles"}
    changes = app.side_input("profile-changes", system="lake", bounded=bounded, **place, **lies)
    profiles = app.table("profiles", key="member_id", side_inputs=[changes])
    views.join(profiles, how="left", id="with-profile").send_to(app.output_stream("scored", key="member_id"))


TIMED_VIEWS = "id bigint, n bigint, at timestamp"
TIERS = "id bigint, tier string"


def _as_of(app: Any, how: str, bounded: bool) -> None:
    views = app.input_stream("views", schema=TIMED_VIEWS, key="id", timestamp="at", bounded=bounded, partitions=2)
    profiles = app.pushed_table("profiles", key="id", schema=TIERS, partitions=2)
    joined = views.join(profiles, how=how, as_of="event time", id="with-profile")
    joined.send_to(app.output_stream("scored", key="id"))


@stream_application("views-as-of", default_system="log")
def views_as_of(app: Any) -> None:
    """Views, each beside the profile that was valid at its time; null where none was."""
    _as_of(app, "left", True)


@stream_application("known-views-as-of", default_system="log")
def known_views_as_of(app: Any) -> None:
    """Views beside the profile that was valid at their time, where one was."""
    _as_of(app, "inner", True)


@stream_application("following-as-of", default_system="log")
def following_as_of(app: Any) -> None:
    """Views as they come, each beside the profile that was valid at its time."""
    _as_of(app, "left", False)


@stream_application("views-now", default_system="log")
def views_now(app: Any) -> None:
    """Views, each beside the newest profile."""
    views = app.input_stream("views", schema=TIMED_VIEWS, key="id", timestamp="at", partitions=2)
    profiles = app.pushed_table("profiles", key="id", schema=TIERS, partitions=2)
    views.join(profiles, how="left", id="with-profile").send_to(app.output_stream("scored", key="id"))


def _month(app: Any, views: Any, name: str) -> None:
    profiles = app.pushed_table("profiles", key="id", schema=TIERS, partitions=2)
    joined = views.join(profiles, how="left", as_of="event time", id="with-profile")
    joined.send_to(app.output_stream(name, key="id"))


def _views(app: Any, **said: Any) -> Any:
    return app.input_stream("views", schema=TIMED_VIEWS, key="id", timestamp="at", partitions=2, **said)


def _views_of_a_day(app: Any) -> Any:
    views = app.input_stream(
        "views", system="lake", path="views/{ds}", format="parquet", schema=TIMED_VIEWS, timestamp="at"
    )
    return views.partition_by("id", id="by-id")


@stream_application("pushed-by-day", default_system="log", config={"job.intermediate.stream.partitions": "2"})
def pushed_by_day(app: Any) -> None:
    """Views of a day, each beside the profile that was valid at its time."""
    _month(app, _views_of_a_day(app), "by-day")


@stream_application("pushed-caught-up", default_system="log")
def pushed_caught_up(app: Any) -> None:
    """Views since the last run, each beside the profile that was valid at its time."""
    _month(app, _views(app, slice="checkpoint"), "caught-up")


@stream_application("pushed-continuous", default_system="log")
def pushed_continuous(app: Any) -> None:
    """Views as they come, each beside the profile that was valid at its time."""
    _month(app, _views(app, bounded=False), "continuous")


CHANGES = "id bigint, tier string, since timestamp, _deleted boolean"


def _timed_month(app: Any, views: Any, name: str, *, bounded: bool = True) -> None:
    changes = app.side_input("changes", schema=CHANGES, key="id", timestamp="since", partitions=2, bounded=bounded)
    profiles = app.table("profiles", key="id", side_inputs=[changes], schema=TIERS, retain="60 days")
    joined = views.join(profiles, how="left", as_of="event time", wait="3 days", id="with-profile")
    joined.send_to(app.output_stream(name, key="id"))


@stream_application("timed-by-day", default_system="log", config={"job.intermediate.stream.partitions": "2"})
def timed_by_day(app: Any) -> None:
    """Views of a day, each beside the profile that was valid at its time by a side input."""
    _timed_month(app, _views_of_a_day(app), "by-day")


@stream_application("timed-caught-up", default_system="log")
def timed_caught_up(app: Any) -> None:
    """Views since the last run, each beside the profile that was valid at its time by a side input."""
    _timed_month(app, _views(app, slice="checkpoint", max_delay="0 seconds"), "caught-up")


@stream_application("timed-continuous", default_system="log")
def timed_continuous(app: Any) -> None:
    """Views as they come, each beside the profile that was valid at its time by a side input."""
    _timed_month(app, _views(app, bounded=False, max_delay="0 seconds"), "continuous", bounded=False)

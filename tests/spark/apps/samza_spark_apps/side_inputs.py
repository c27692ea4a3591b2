"""Applications whose tables are fed by side inputs: rows as they are, and a processor; low-level, and continuous."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from airflow_samza import InitableTask, StreamTask, stream_application, task_application

VIEWS = "member_id bigint, page string"
PROFILES = "member_id bigint, tier string"
SCORES = "member_id bigint, score bigint"


class Summing:
    """Adds the scores of a member up; a score of 13 is an accident."""

    def __init__(self, config: Any, metrics: Any) -> None:
        self._metrics = metrics

    def process(self, message: Any, store: Any) -> Iterator[tuple[Any, Any]]:
        if message.message.score == 13:
            raise ValueError("an accident")
        self._metrics.count("scores")
        former = store.get(message.key)
        yield message.key, {"score": message.message.score + (former.score if former is not None else 0)}


@stream_application("scoring", default_system="log")
def scoring(app: Any) -> None:
    """Views beside profiles and sums."""
    views = app.input_stream("views", schema=VIEWS, key="member_id", bounded=False)
    changes = app.side_input("profile-changes", schema=PROFILES, key="member_id", bounded=False)
    scores = app.side_input("scores", schema=SCORES, key="member_id", bounded=False)
    profiles = app.table("profiles", key="member_id", side_inputs=[changes])
    sums = app.table(
        "sums", key="member_id", side_inputs=[scores], schema=SCORES, processor="samza_spark_apps.side_inputs:Summing"
    )
    joined = views.join(profiles, how="left", id="with-profile").join(sums, how="left", id="with-score")
    joined.send_to(app.output_stream("scored", key="member_id"))


class Lookup(StreamTask, InitableTask):
    """Sends each view with the tier of its member."""

    def init(self, context: Any) -> None:
        self.profiles = context.get_table("profiles")

    def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
        found = self.profiles.get(envelope.key)
        collector.send("looked-up", {"member_id": envelope.key, "tier": found.tier if found is not None else None})


@task_application("looking-up", default_system="log")
def looking_up(app: Any) -> None:
    """The low-level form."""
    app.input_stream("views", schema=VIEWS, key="member_id")
    changes = app.side_input("profile-changes", schema=PROFILES, key="member_id")
    app.table("profiles", key="member_id", side_inputs=[changes])
    app.output_stream("looked-up", schema=PROFILES, key="member_id")
    app.task(Lookup)

"""Applications whose tables are fed by side inputs."""

from __future__ import annotations

from typing import Any

from airflow_samza import stream_application

VIEWS = "member_id bigint, page string"
PROFILES = "member_id bigint, tier string"


@stream_application("scored-views", default_system="log")
def scored_views(app: Any) -> None:
    """Views, each beside the profile of its member."""
    views = app.input_stream("views", schema=VIEWS, key="member_id")
    profiles = app.table("profiles", key="member_id", side_inputs=[app.side_input("profile-changes", schema=PROFILES, key="member_id")])
    views.join(profiles, how="left", id="with-profile").send_to(app.output_stream("scored", key="member_id"))


@stream_application("pushed-views", default_system="log")
def pushed_views(app: Any) -> None:
    """Views, each beside the pushed profile of its member."""
    views = app.input_stream("views", schema=VIEWS, key="member_id")
    profiles = app.pushed_table("profiles", key="member_id", schema=PROFILES, partitions=2)
    views.join(profiles, how="left", id="with-profile").send_to(app.output_stream("scored", key="member_id"))

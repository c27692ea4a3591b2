"""Rows of ``on_error=`` and of joins of two streams."""

from __future__ import annotations

from tests.e2e.bad_input.page import row
from tests.e2e.bad_input.rows_wrong_use import CALL
from tests.e2e.bad_input.scene import OUT, VIEWS, Scene

BAD = """\
from airflow_samza import dead_letter, stream_application


@stream_application("page-views")
def page_views(app):
    views = app.input_stream("views", system="lake", schema="member_id bigint, country string, dwell_ms bigint", partitions=2)
    {line}
"""

CLICKS = 'app.input_stream("clicks", system="lake", schema="who bigint, button string", partitions=2)'


def _line(scene: Scene, line: str) -> None:
    scene.application(*BAD.format(line=line).splitlines())


@row("call", "on_error= that does not exist", CALL)
def _(scene: Scene) -> str:
    scene.application(f'{VIEWS}.map(lambda view: view, on_error="ignore")')
    return scene.plan()


@row("call", "A dead-letter stream declared with other columns", CALL)
def _(scene: Scene) -> str:
    _line(
        scene, 'views.map(lambda view: view, on_error=dead_letter(app.output_stream("bad", schema="message string")))'
    )
    return scene.plan()


@row("call", "on_error= of a join without a function", CALL)
def _(scene: Scene) -> str:
    _line(scene, 'views.join(app.pushed_table("tiers", key="member_id"), id="with-tier", on_error="drop")')
    return scene.plan()


@row("call", "Dead letters of a side input", CALL)
def _(scene: Scene) -> str:
    _line(scene, 'app.side_input("tiers", on_error=dead_letter(app.output_stream("bad")))')
    return scene.plan()


@row("plan", "on_error= of SQL that Catalyst runs", "by `plan`")
def _(scene: Scene) -> str:
    scene.application(f'views = {VIEWS}.where("rlike(country, \'N.\')", on_error="drop")', f"views.send_to({OUT})")
    scene.views()
    return scene.prepare()


@row("plan", "Dead letters before an operator that Catalyst runs", "by `plan`")
def _(scene: Scene) -> str:
    policy = 'dead_letter(app.output_stream("bad", system="lake"))'
    shape = 'schema="country string"'
    _line(
        scene,
        f"views.map(lambda view: view, on_error={policy}).transform(lambda df: df.select('country'), "
        f"{shape}).send_to({OUT})",
    )
    scene.views()
    return scene.prepare()


@row("plan", "A join of two streams, of which only one has event time", "by `plan`")
def _(scene: Scene) -> str:
    views = (
        'app.input_stream("views", system="lake", schema="member_id bigint, at timestamp", timestamp="at", '
        "partitions=2)"
    )
    scene.application(
        f'views = {views}.partition_by("member_id", id="by-member")',
        f'clicks = {CLICKS}.partition_by("who", id="by-who")',
        f'views.join(clicks, id="clicked", ttl="1 hour").send_to({OUT})',
    )
    scene.write("data/views/1.jsonl", '{"member_id": 7, "at": "2026-01-01T00:00:00Z"}')
    scene.write("data/clicks/1.jsonl", '{"who": 7, "button": "a"}')
    return scene.prepare()

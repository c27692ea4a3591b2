"""Rows that are said at the call.

While the application is described, so in the Dag processor, an editor or a unit test.
"""

from __future__ import annotations

from tests.e2e.bad_input.page import row
from tests.e2e.bad_input.scene import OUT, VIEWS, Scene

CALL = "at the call"


@row("call", "Two operators have the same id", CALL)
def _(scene: Scene) -> str:
    scene.application(
        f"views = {VIEWS}",
        'views.partition_by("country", id="by-key")',
        'views.partition_by("member_id", id="by-key")',
    )
    return scene.plan()


@row("call", "Two streams have the same id", CALL)
def _(scene: Scene) -> str:
    scene.application(VIEWS, 'app.input_stream("views", system="lake")')
    return scene.plan()


@row("call", "Two tables have the same id", CALL)
def _(scene: Scene) -> str:
    scene.application('app.local_table("tiers", key="member_id")', 'app.pushed_table("tiers", key="member_id")')
    return scene.plan()


@row("call", "A key names a column that does not exist", CALL)
def _(scene: Scene) -> str:
    scene.application(f'{VIEWS}.partition_by("Country", id="by-country")')
    return scene.plan()


@row("call", "An aggregation names a column that does not exist", CALL)
def _(scene: Scene) -> str:
    scene.application(f'{VIEWS}.aggregate("country", dwell=sum_("dwell"), id="per-country")')
    return scene.plan()


@row("call", "A parameter that a method does not have", CALL)
def _(scene: Scene) -> str:
    scene.application(f'{VIEWS}.partition_by("country", id="by-country", sytem="events")')
    return scene.plan()


@row("call", "A join without a key", CALL)
def _(scene: Scene) -> str:
    scene.application(
        f"views = {VIEWS}", 'clicks = app.input_stream("clicks")', 'views.join(clicks, id="clicked", ttl="1 hour")'
    )
    return scene.plan()


@row("call", "A stateful operator without an id", CALL)
def _(scene: Scene) -> str:
    scene.application(f'{VIEWS}.partition_by("country")')
    return scene.plan()


@row("call", "Schema DDL with an unknown type", CALL)
def _(scene: Scene) -> str:
    scene.application('app.input_stream("views", schema="member_id bigin, country string")')
    return scene.plan()


@row("call", "Schema DDL that cannot be read", CALL)
def _(scene: Scene) -> str:
    scene.application('app.input_stream("views", schema="member_id bigint country string")')
    return scene.plan()


@row("call", "SQL where Python belongs", CALL)
def _(scene: Scene) -> str:
    scene.application(f'{VIEWS}.filter("dwell_ms > 1000")')
    return scene.plan()


@row("call", "Python where SQL belongs", CALL)
def _(scene: Scene) -> str:
    scene.application(f"{VIEWS}.where(lambda view: view.dwell_ms > 1000)")
    return scene.plan()


@row("call", "A callable that takes something else than a message", CALL)
def _(scene: Scene) -> str:
    scene.application(f"{VIEWS}.map(lambda key, view: view)")
    return scene.plan()


@row("call", "A map whose annotation allows None", CALL)
def _(scene: Scene) -> str:
    scene.application("def slow(view: View) -> View | None:", "    return None", f"{VIEWS}.map(slow)")
    return scene.plan()


@row("call", "An option that does not exist", CALL)
def _(scene: Scene) -> str:
    scene.application('app.input_stream("views", partition=2)')
    return scene.plan()


@row("call", "A changelog that is no stream", CALL)
def _(scene: Scene) -> str:
    scene.application('app.local_table("tiers", key="member_id", changelog="no stream")')
    return scene.plan()


@row("call", "The application writes a table that side inputs fill", CALL)
def _(scene: Scene) -> str:
    scene.application(f'{VIEWS}.send_to(app.pushed_table("tiers", key="member_id"))')
    return scene.plan()


@row("call", "An event-time window without event time", CALL)
def _(scene: Scene) -> str:
    scene.application(f'{VIEWS}.window(tumbling("1 minute"), key="country", views=count(), id="per-minute")')
    return scene.plan()


@row("call", "An event-time window behind an operator that leaves the event time out", CALL)
def _(scene: Scene) -> str:
    views = VIEWS.replace("partitions=2", 'partitions=2, timestamp="dwell_ms"')
    window = '.window(tumbling("1 minute"), key="country", views=count(), id="per-minute")'
    scene.application(f'{views}.select("country", id="countries"){window}')
    return scene.plan()


@row("call", "An event-time window behind an aggregation whose rows have no time", CALL)
def _(scene: Scene) -> str:
    views = VIEWS.replace("partitions=2", 'partitions=2, timestamp="dwell_ms"')
    window = '.window(tumbling("1 minute"), key="country", n=count(), id="per-minute")'
    scene.application(f'{views}.aggregate("country", views=count(), id="per-country"){window}')
    return scene.plan()


@row("call", "timestamp= of an aggregation that names no column of its rows", CALL)
def _(scene: Scene) -> str:
    scene.application(f'{VIEWS}.aggregate("country", id="per-country", timestamp=max_("dwell_ms"))')
    return scene.plan()


@row("call", "within= of messages without event time", CALL)
def _(scene: Scene) -> str:
    scene.application(f'{VIEWS}.distinct("member_id", id="once", within="1 day")')
    return scene.plan()


@row("call", "keep= that does not exist", CALL)
def _(scene: Scene) -> str:
    scene.application(f'{VIEWS}.distinct("member_id", id="once", keep="newest")')
    return scene.plan()


def _window(scene: Scene, window: str, more: str = "views=count()") -> str:
    views = VIEWS.replace("partitions=2", 'partitions=2, timestamp="member_id"')
    scene.application(f'{views}.window({window}, key="country", {more}, id="per-minute")')
    return scene.plan()


@row("call", "Windows that do not fit into the days of their time zone", CALL)
def _(scene: Scene) -> str:
    return _window(scene, 'tumbling("7 hours", zone="Europe/Amsterdam")')


@row("call", "A time zone that does not exist", CALL)
def _(scene: Scene) -> str:
    return _window(scene, 'tumbling("1 day", zone="Europe/Asterdam")')


def _path(scene: Scene, path: str) -> str:
    scene.application(f'app.input_stream("views", system="lake", schema=View, path="{path}").sink(print)')
    return scene.plan("--interval", "2026-01-01/2026-01-02")


@row("call", "An unknown field in a path", CALL)
def _(scene: Scene) -> str:
    return _path(scene, "{day}")


@row("call", "A format of a path that holds nothing of a time", CALL)
def _(scene: Scene) -> str:
    return _path(scene, "{data_interval_start:yyyy-MM-dd}")


@row("call", "An unknown directive in a path", CALL)
def _(scene: Scene) -> str:
    return _path(scene, "{data_interval_start:%Y-%i}")


@row("call", "A time zone that does not exist in a path", CALL)
def _(scene: Scene) -> str:
    return _path(scene, "{ds|Europe/Asterdam}")


@row("call", "A time zone of what is no time in a path", CALL)
def _(scene: Scene) -> str:
    return _path(scene, "{run_id|Europe/Amsterdam}")


@row("call", "accumulating= without early results", CALL)
def _(scene: Scene) -> str:
    return _window(scene, 'tumbling("1 day", accumulating=True)')


@row("call", "late_to= that is no output stream", CALL)
def _(scene: Scene) -> str:
    return _window(scene, 'tumbling("1 day")', 'views=count(), late_to="late"')


@row("call", "An approximate count of nested values", CALL)
def _(scene: Scene) -> str:
    scene.application(
        'views = app.input_stream("views", system="lake", schema="country string, tags array<string>", key="country")',
        'views.aggregate("country", tags=approx_count_distinct("tags"), id="tags")',
    )
    return scene.plan()


@row("call", "watermarks= that is no strategy", CALL)
def _(scene: Scene) -> str:
    scene.application(
        'app.input_stream("views", schema="at timestamp", timestamp="at", bounded=False, watermarks="5 minutes")'
    )
    return scene.plan()


@row("call", "A secret among the options of a system in code", CALL)
def _(scene: Scene) -> str:
    scene.application('app.system("lake", kind="files", secret_key="hunter2")')
    return scene.plan()


@row("call", "A secret among the options of a stream in code", CALL)
def _(scene: Scene) -> str:
    scene.application('app.input_stream("views", schema="id bigint", options={"sas": "hunter2"})')
    return scene.plan()


@row("call", "An application without an input", CALL)
def _(scene: Scene) -> str:
    scene.application("pass")
    return scene.plan()


@row("call", "The application's function raises", CALL)
def _(scene: Scene) -> str:
    scene.application("views = app.config['views']")
    return scene.plan()


@row("call", "The application's module is missing", "when it is loaded")
def _(scene: Scene) -> str:
    return scene.command("plan", "pipelines.page_views:page_views")


@row("call", "The application's module needs a package that is missing", "when it is loaded")
def _(scene: Scene) -> str:
    scene.application("import geoip_lookup")
    return scene.plan()


@row("call", "The application's module is broken", "when it is loaded")
def _(scene: Scene) -> str:
    scene.application("from airflow_samza import stream_application", "THRESHOLD = int('1_000 ms')")
    return scene.plan()


@row("call", "The module has no such application", "when it is loaded")
def _(scene: Scene) -> str:
    scene.application(f"{VIEWS}.send_to({OUT})")
    return scene.command("plan", "page_views:page_view")


@row("call", "The name is that of a plain function", "when it is loaded")
def _(scene: Scene) -> str:
    scene.application("from airflow_samza import stream_application", "def page_views(app): ...")
    return scene.plan()


@row("call", "A join as of the event time of a stream without one", CALL)
def _(scene: Scene) -> str:
    scene.application(
        'views = app.input_stream("seen", system="lake", schema="member_id bigint, page string", key="member_id")',
        'profiles = app.pushed_table("profiles", key="member_id", schema="member_id bigint, tier string")',
        'views.join(profiles, as_of="event time", id="then")',
    )
    return scene.plan()


CHANGES = 'app.side_input("changes", schema="member_id bigint, tier string, since timestamp", key="member_id"'
TIMED = (
    'app.input_stream("seen", system="lake", schema="member_id bigint, at timestamp", key="member_id", timestamp="at"'
)


def _then(
    scene: Scene, *, changes: str = ', timestamp="since"', table: str = "", views: str = "", join: str = ""
) -> str:
    """A join as of event times with a table that a side input fills."""
    scene.application(
        f"changes = {CHANGES}{changes})",
        f'tiers = app.table("tiers", key="member_id", side_inputs=[changes]{table})',
        f"views = {TIMED}{views})",
        f'joined = views.join(tiers, as_of="event time", id="then"{join})',
        'joined.send_to(app.output_stream("out", system="lake", path="out"))',
    )
    return scene.plan()


@row("call", "A join as of the event time, with a side input without one", CALL)
def _(scene: Scene) -> str:
    return _then(scene, changes="")


@row("call", "A join as of the event time, with a side input that leaves rows out", CALL)
def _(scene: Scene) -> str:
    return _then(scene, changes=', timestamp="since", on_error="drop"')


@row("call", "A join as of the event time, with a table that a processor fills", CALL)
def _(scene: Scene) -> str:
    return _then(scene, table=', schema="member_id bigint, tier string", processor="tiers:make"')


@row("call", "A join whose messages wait for longer than rows are kept", CALL)
def _(scene: Scene) -> str:
    return _then(scene, table=', retain="1 hour"', join=', wait="2 hours"')


@row(
    "call", "A join of an unbounded input as of the event time, with a table that keeps all rows", "when it is planned"
)
def _(scene: Scene) -> str:
    return _then(scene, views=", bounded=False")


@row("call", "A join whose messages wait for rows of no time", CALL)
def _(scene: Scene) -> str:
    scene.application(
        f"views = {VIEWS}",
        'profiles = app.pushed_table("profiles", key="member_id", schema="member_id bigint, tier string")',
        'views.join(profiles, wait="5 minutes", id="then")',
    )
    return scene.plan()


@row("call", "A join as of the event time with a table that keeps no versions", CALL)
def _(scene: Scene) -> str:
    scene.application(
        f"views = {VIEWS}",
        'tiers = app.local_table("tiers", key="member_id", schema="member_id bigint, tier string")',
        'views.join(tiers, as_of="event time", id="then")',
    )
    return scene.plan()


@row("call", "Two streams joined as of the event time", CALL)
def _(scene: Scene) -> str:
    scene.application(
        f"views = {TIMED})",
        'clicks = app.input_stream("clicks", system="lake", schema="member_id bigint", key="member_id")',
        'views.join(clicks, as_of="event time", ttl="1 hour", id="then")',
    )
    return scene.plan()


@row("call", "Two streams joined, of which messages wait", CALL)
def _(scene: Scene) -> str:
    scene.application(
        f"views = {TIMED})",
        'clicks = app.input_stream("clicks", system="lake", schema="member_id bigint", key="member_id")',
        'views.join(clicks, wait="5 minutes", ttl="1 hour", id="then")',
    )
    return scene.plan()


@row("call", "A join that assumes how the rows of files lie", "when it is planned")
def _(scene: Scene) -> str:
    scene.application(
        f"views = {VIEWS}",
        'moved = views.select("member_id").partition_by("member_id", id="by-member")',
        'found = views.join(moved, key="member_id", ttl="1 hour", assume_partitioned_by="member_id", id="pairs")',
        f"found.send_to({OUT})",
    )
    scene.views()
    return scene.plan()

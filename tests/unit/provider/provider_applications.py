"""Applications that the provider's tests name as ``provider_applications:<name>``."""

from __future__ import annotations

from typing import Any

from airflow_samza import count, stream_application, sum_


@stream_application("views")
def views(app: Any) -> None:
    """Three stages in a row."""
    (
        app.input_stream("page-views", system="logs", schema="member bigint, country string", partitions=2)
        .partition_by("member", id="by-member")
        .partition_by("country", id="by-country")
        .aggregate("country", views=count(), id="per-country")
        .send_to(app.output_stream("views-per-country", system="warehouse"))
    )


@stream_application("sharing")
def sharing(app: Any) -> None:
    """Two stages, of which the last writes a stream for other applications."""
    (
        app.input_stream("page-views", system="logs", schema="member bigint, country string", partitions=2)
        .partition_by("member", id="by-member")
        .send_to(app.output_stream("members", shared=True, partitions=2))
    )


@stream_application("reading")
def reading(app: Any) -> None:
    """Reads what ``sharing`` writes."""
    app.shared_stream("members", schema="member bigint, country string", partitions=2).send_to(
        app.output_stream("out", system="warehouse")
    )


@stream_application("of-tables")
def of_tables(app: Any) -> None:
    """Reads tables of three lakes, one of them as a side input."""
    raw = app.side_input("raw", system="delta", schema="id bigint", partitions=1)
    names = app.table("names", key="id", side_inputs=[raw])
    tables = {"views": ("lake", "web.views"), "a": ("lake", "web.both"), "b": ("other", "web.both")}
    for name, (system, table) in {**tables, "fixed": ("lake", "web.fixed")}.items():
        options = {"snapshot": "1"} if name == "fixed" else {}
        stream = app.input_stream(name, system=system, table=table, options=options, schema="id bigint", partitions=1)
        named = stream.partition_by("id", id=f"{name}-by-id").join(names, id=f"named-{name}")
        named.send_to(app.output_stream(f"{name}-out", system="log"))


@stream_application("lake-to-lake")
def lake_to_lake(app: Any) -> None:
    """Copies a table of a lake to another one."""
    views = app.input_stream("views", system="lake", table="web.views")
    views.send_to(app.output_stream("copies", system="out", table="web.copies", create=True))


@stream_application("reserved")
def reserved(app: Any) -> None:
    """Stages named like the group's own tasks."""
    (
        app.input_stream("plan", system="logs", schema="member bigint", partitions=2)
        .partition_by("member", id="cleanup")
        .send_to(app.output_stream("out", system="warehouse"))
    )


@stream_application("fifty")
def fifty(app: Any) -> None:
    """Fifty stages in a row."""
    stream = app.input_stream("page-views", system="logs", schema="member bigint, country string", partitions=2)
    for number in range(49):
        stream = stream.filter(lambda message: True).partition_by("member", id=f"by-member-{number}")
    stream.send_to(app.output_stream("out", system="warehouse"))


@stream_application("with-table")
def with_table(app: Any) -> None:
    """Looks a pushed table up."""
    table = app.pushed_table("t", key="id", schema="id bigint, tier string", partitions=2)
    views = app.input_stream("views", schema="id bigint", key="id", partitions=2)
    views.join(table, lambda view, row: row, id="lookup", schema="id bigint, tier string").send_to(
        app.output_stream("out")
    )


@stream_application("with-profiles")
def with_profiles(app: Any) -> None:
    """Looks up the table that tests push to."""
    table = app.pushed_table("profiles", key="id", schema="id bigint, tier string", partitions=2)
    views = app.input_stream("views", schema="id bigint", key="id", partitions=2)
    views.join(table, lambda view, row: row, id="lookup", schema="id bigint, tier string").send_to(
        app.output_stream("out")
    )


@stream_application("named-done")
def named_done(app: Any) -> None:
    """A stage named like a task of a group that chooses its mode."""
    (
        app.input_stream("page-views", system="logs", schema="member bigint", partitions=2)
        .partition_by("member", id="done")
        .send_to(app.output_stream("out", system="warehouse"))
    )


@stream_application("trips")
def trips(app: Any) -> None:
    """Two stages from files to files, with a filter, and an aggregation behind a topic."""
    (
        app.input_stream(
            "trips", system="lake", path="trips/*.csv", format="csv", schema="city string, km bigint, paid boolean"
        )
        .where("paid")
        .partition_by("city", id="by-city")
        .aggregate("city", n=count(), km=sum_("km"), id="per-city")
        .send_to(app.output_stream("per-city", system="warehouse"))
    )

"""Small applications; :mod:`benchmarks.fixed_cost` measures their costs beyond their rows."""

from __future__ import annotations

from typing import Any

from airflow_samza import count, stream_application

SCHEMA = "n bigint, kind string"


def _numbers(app: Any) -> Any:
    return app.input_stream("numbers", system="lake", schema=SCHEMA, path="numbers", partitions=2)


def _out(app: Any) -> Any:
    return app.output_stream("out", system="results", path="{config[run]}")


@stream_application("fixed-map")
def filtered(app: Any) -> None:
    """A filter and a callable per message."""
    _numbers(app).where("n > 10").map(lambda row: {"n": row.n, "kind": row.kind}, schema=SCHEMA).send_to(_out(app))


@stream_application("fixed-aggregate")
def aggregate(app: Any) -> None:
    """A filter, and a count per key: two stages."""
    kept = _numbers(app).where("n > 10").partition_by("kind", id="by-kind")
    kept.aggregate("kind", id="per-kind", rows=count()).send_to(_out(app))


@stream_application("fixed-stages")
def stages(app: Any) -> None:
    """Rows through a topic, by key."""
    by_kind = _numbers(app).partition_by("kind", id="by-kind")
    by_kind.map(lambda row: {"n": row.n + 1, "kind": row.kind}, schema=SCHEMA).send_to(_out(app))


@stream_application("fixed-table")
def table(app: Any) -> None:
    """A filter whose rows are appended to a table of a lake."""
    _numbers(app).where("n > 10").send_to(app.output_stream("out", system="tables", table="fixed.out", mode="append"))

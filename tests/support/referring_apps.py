"""Applications that expect a row of a table for each message that they read or write, for tests.

A test puts what is expected into ``EXPECT``, as a function that gets the table and the policy of dead letters; else
messages that do not meet it become these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from airflow_samza import dead_letter, foreign_key, stream_application

EXPECT: list[Callable[[Any, Any], list[Any]]] = []
VIEWS = "n bigint, member bigint"


def _table(app: Any, kind: str) -> Any:
    schema = "id bigint, tier string"
    if kind == "pushed":
        return app.pushed_table("profiles", key="id", schema=schema, partitions=2)
    everywhere = kind == "broadcast"
    lying: dict[str, Any] = {"broadcast": True, "partitions": 1} if everywhere else {"key": "id", "partitions": 2}
    source = app.side_input("changes", schema=schema, bounded=True, **lying)
    return app.table("profiles", key="id", side_inputs=[source], schema=schema)


def _copies(app: Any, kind: str, *, bounded: bool = True, key: str = "member", of_input: bool = False) -> None:
    bad = dead_letter(app.output_stream("bad", partitions=1))
    table = _table(app, kind)
    expect = EXPECT[0](table, bad) if EXPECT else [foreign_key("member", table, on_error=bad)]
    views = app.input_stream(
        "views", schema=VIEWS, key=key, partitions=2, bounded=bounded, expect=expect if of_input else None
    )
    views.send_to(app.output_stream("copies", partitions=2, expect=None if of_input else expect))


@stream_application("referring", default_system="log")
def of_output(app: Any) -> None:
    """Copies of views whose members have to be in a pushed table."""
    _copies(app, "pushed")


@stream_application("following-references", default_system="log")
def following(app: Any) -> None:
    """Copies of views as they come, whose members have to be in a pushed table."""
    _copies(app, "pushed", bounded=False)


@stream_application("referring-to-side-inputs", default_system="log")
def to_side_input(app: Any) -> None:
    """Copies of views whose members have to be in a table of a side input."""
    _copies(app, "side input")


@stream_application("referring-to-a-broadcast", default_system="log")
def to_broadcast(app: Any) -> None:
    """Copies of views by number, whose members have to be in a table that every task has."""
    _copies(app, "broadcast", key="n")


@stream_application("referring-input", default_system="log")
def of_input(app: Any) -> None:
    """Copies of views; the members of those that are read have to be in a pushed table."""
    _copies(app, "pushed", of_input=True)

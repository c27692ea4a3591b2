"""Applications of which several streams are alive where Catalyst runs an operator."""

from __future__ import annotations

from typing import Any

from airflow_samza import count, stream_application

ROWS = "k bigint, name string, price double"
OTHERS = "k bigint, label string"


def _rows(app: Any) -> Any:
    return app.input_stream("rows", system="log", schema=ROWS, key="k", partitions=2)


def _out(app: Any, name: str) -> Any:
    return app.output_stream(name, system="log")


@stream_application("branches-two")
def two(app: Any) -> None:
    """Two branches, each with a function that only Spark has."""
    rows = _rows(app)
    rows.where("name RLIKE '^a'", id="named").send_to(_out(app, "named"), id="to-named")
    rows.select("k", "regexp_replace(name, 'a+', '-') AS short", id="short").send_to(_out(app, "short"), id="to-short")


@stream_application("branches-one")
def one(app: Any) -> None:
    """A branch with a function of Spark, one without, and one that counts."""
    rows = _rows(app)
    rows.where("NOT isnan(price)", id="priced").select("*", "k + 1 AS following").send_to(_out(app, "priced"))
    rows.where("k > 2").send_to(_out(app, "plain"), id="to-plain")
    rows.aggregate("k", id="counted", n=count()).send_to(_out(app, "counted"), id="to-counted")


@stream_application("branches-merged")
def merged(app: Any) -> None:
    """Branches of Catalyst meet each other, and pass it again; words come of one row each."""
    rows = _rows(app)
    named = rows.where("name RLIKE '^a'", id="named")
    shouting = rows.where("k % 2 = 0").transform(lambda frame: frame.where("name NOT RLIKE '^a'"), schema=ROWS, id="b")
    both = named.merge(shouting).select("k", "explode(split(name, '-')) AS word", id="words")
    both.send_to(_out(app, "words"), id="to-words")
    rows.send_to(_out(app, "copies"), id="to-copies")


@stream_application("branches-joined")
def joined(app: Any) -> None:
    """Two inputs meet in a join, behind Catalyst on both sides."""
    others = app.input_stream("others", system="log", schema=OTHERS, key="k", partitions=2)
    left = _rows(app).select("k", "regexp_replace(name, 'a+', '-') AS short", id="short")
    right = others.where("label RLIKE 'x$'", id="labelled")
    left.join(right, key="k", ttl="1 day", id="join").send_to(_out(app, "joined"), id="to-joined")


@stream_application("branches-failing")
def failing(app: Any) -> None:
    """A branch of two fails on a row."""
    rows = _rows(app)
    rows.where("name RLIKE '^a'", id="named").send_to(_out(app, "named"), id="to-named")
    rows.select("k", "CAST(regexp_replace(name, '-', '') AS int) AS number", id="number").send_to(_out(app, "numbers"))

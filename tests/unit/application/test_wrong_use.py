"""Wrong use is rejected at the call, in a sentence with file and line of the user's code, and with a hint."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import airflow_samza
from airflow_samza import avg, count, hopping, max_, session, stream_application, sum_, tumbling
from airflow_samza.application.source_location import SourceLocation
from airflow_samza.application.watermarks import bounded_delay, is_watermark_function
from airflow_samza.errors import InvalidApplication, SamzaError
from airflow_samza.planner.planner import plan_shape

PACKAGE_FOLDER = str(Path(airflow_samza.__file__).parent)


@dataclass(frozen=True)
class View:
    member_id: int
    country: str
    dwell_ms: int
    at: datetime
    tags: list[str]


@dataclass(frozen=True)
class Profile:
    member_id: int
    tier: str


def views(app: Any, **more: Any) -> Any:
    return app.input_stream("views", **{"schema": View, "key": "member_id", "timestamp": "at", **more})


def profiles(app: Any) -> Any:
    return app.pushed_table("profiles", key="member_id", schema=Profile)


def clicks(app: Any) -> Any:
    return app.input_stream("clicks", schema="member_id bigint, url string", key="member_id")


async def later(message: Any) -> Any:
    return message


def many(message: View) -> list[View]:
    return [message]


def yields(message: Any) -> Iterator[Any]:
    yield message


def perhaps(message: View) -> View | None:
    return message


def number(message: View) -> int:
    return message.dwell_ms


def remade(message: View) -> View:
    return message


class Stored:
    def process(self, message: Any, store: Any) -> list[Any]:
        return []


# name of the rule -> (the wrong use, what the sentence says, what the hint says)
WRONG: dict[str, tuple[Callable[[Any], Any], str, str]] = {
    "sql to filter": (lambda app: views(app).filter("dwell_ms > 1000"), "filter takes a Python callable", "where"),
    "python to where": (lambda app: views(app).where(lambda view: view.dwell_ms > 1000), "instead of SQL", "filter"),
    "empty where": (lambda app: views(app).where("  "), "empty text", "where"),
    "a boolean to where": (lambda app: views(app).where(True), "where got True", "filter"),
    "a text to map": (lambda app: views(app).map("dwell_ms + 1"), "map takes a Python callable", "select"),
    "a result to map": (lambda app: views(app).map(None), "not None", "select"),
    "a callable to select": (lambda app: views(app).select(lambda view: view.at), "instead of SQL", "map"),
    "a list to select": (lambda app: views(app).select(["a", "b"]), "instead of SQL", "one by one"),
    "nothing to select": (lambda app: views(app).select(), "no columns", "a + 1 AS b"),
    "a column twice in select": (
        lambda app: views(app).select("country", "at AS country"),
        "'country' of select appears twice",
        "AS",
    ),
    "a text to transform": (lambda app: views(app).transform("df"), "transform takes a Python callable", "lambda df"),
    "a text to map_batches": (
        lambda app: views(app).map_batches("x"),
        "map_batches takes a Python callable",
        "lambda batch",
    ),
    "a text to sink": (lambda app: views(app).sink("out"), "sink takes a Python callable", "send_to"),
    "too many parameters": (lambda app: views(app).map(lambda a, b: a), "with 1 value", "1 parameter"),
    "too few parameters": (lambda app: views(app).filter(lambda: True), "with 1 value", "1 parameter"),
    "async map": (lambda app: views(app).map(later), "async", "plain function"),
    "generator to filter": (lambda app: views(app).filter(yields), "which yields", "flat_map"),
    "generator to map": (lambda app: views(app).map(yields), "which yields", "flat_map"),
    "list to map": (lambda app: views(app).map(many), "many messages for one", "flat_map"),
    "perhaps a message": (lambda app: views(app).map(perhaps), "may return None", "filter"),
    "a number is no message": (lambda app: views(app).map(number), "returns int: a message is a row", "dataclass"),
    "one message from flat_map": (lambda app: views(app).flat_map(remade), "not an iterable", "map"),
    "message from filter": (lambda app: views(app).filter(remade), "always true", "True or False"),
    "a schema that is none": (lambda app: views(app).map(lambda view: view, schema=3), "A schema is", "schema="),
    "a schema with an unknown type": (
        lambda app: app.input_stream("a", schema="id bigin"),
        "'bigin' where a type",
        "bigint",
    ),
    "merge of nothing": (lambda app: views(app).merge(), "no other stream", "merge"),
    "merge of different schemas": (lambda app: views(app).merge(clicks(app)), "only|one has|order", "map"),
    "merge with a table": (lambda app: views(app).merge(profiles(app)), "takes message streams", "input_stream"),
    "merge with itself": (lambda app: (lambda v: v.merge(v))(views(app)), "twice", "once"),
    "join without id": (lambda app: views(app).join(profiles(app)), "join needs id=", "id="),
    "join with blank id": (lambda app: views(app).join(profiles(app), id=" "), "join needs id=", "id="),
    "join with itself": (lambda app: (lambda v: v.join(v, id="j", ttl=1))(views(app)), "very same stream", "two maps"),
    "join with a text": (lambda app: views(app).join("profiles", id="j"), "takes a table or a stream", "pushed_table"),
    "join with an output": (
        lambda app: views(app).join(app.output_stream("o"), id="j"),
        "takes a table or a stream",
        "input_stream",
    ),
    "unknown how": (lambda app: views(app).join(profiles(app), id="j", how="outer"), "how='outer'", "inner, left"),
    "right join of a table": (
        lambda app: views(app).join(profiles(app), id="j", how="right"),
        "how='right'",
        "inner, left",
    ),
    "ttl missing": (lambda app: views(app).join(clicks(app), lambda a, b: a, id="j"), "no ttl", "1 hour"),
    "ttl no time": (
        lambda app: views(app).join(clicks(app), lambda a, b: a, id="j", ttl="soon"),
        "'soon' is not a length",
        "minutes",
    ),
    "ttl zero": (
        lambda app: views(app).join(clicks(app), lambda a, b: a, id="j", ttl=0),
        "0 is no positive length",
        "minutes",
    ),
    "ttl of a table join": (
        lambda app: views(app).join(profiles(app), id="j", ttl="1 hour"),
        "names ttl",
        "stream joins",
    ),
    "join key count": (
        lambda app: views(app).join(profiles(app), id="j", key=["member_id", "country"]),
        "2 columns with 1",
        "same order",
    ),
    "join key unknown": (
        lambda app: views(app).join(profiles(app), id="j", key="member"),
        "no column 'member'",
        "member_id",
    ),
    "join key not in the stream": (
        lambda app: views(app).select("country", "at").join(profiles(app), id="j"),
        "looks member_id up",
        "country, at",
    ),
    "no key known": (
        lambda app: views(app, key=None).join(clicks(app), lambda a, b: a, id="j", ttl=1),
        "left stream",
        "key=",
    ),
    "one of two keys": (
        lambda app: views(app).join(clicks(app), lambda a, b: a, id="j", ttl=1, left_key="member_id"),
        "one of",
        "both",
    ),
    "three keys": (
        lambda app: views(app).join(
            clicks(app), lambda a, b: a, id="j", ttl=1, key="member_id", left_key="member_id", right_key="member_id"
        ),
        "key and left_key",
        "Name key",
    ),
    "a join function of one": (
        lambda app: views(app).join(profiles(app), lambda a: a, id="j"),
        "with 2 values",
        "2 parameters",
    ),
    "a join's columns collide": (
        lambda app: views(app).join(
            app.pushed_table("p", key="member_id", schema="member_id bigint, country string"), id="j"
        ),
        "output column country twice",
        "function",
    ),
    "schema without function": (
        lambda app: views(app).join(profiles(app), id="j", schema=View),
        "no function",
        "leave schema=",
    ),
    "partition_by without id": (lambda app: views(app).partition_by("country"), "partition_by needs id=", "id="),
    "partition_by nothing": (lambda app: views(app).partition_by("", id="p"), "is empty", "member_id"),
    "partition_by no columns": (lambda app: views(app).partition_by([], id="p"), "is empty", "member_id"),
    "partition_by a callable": (
        lambda app: views(app).partition_by(lambda view: view.country, id="p"),
        "not a callable",
        "map or select",
    ),
    "partition_by a number": (lambda app: views(app).partition_by(16, id="p"), "is 16", "column"),
    "partition_by an unknown column": (
        lambda app: views(app).partition_by("Country", id="p"),
        "no column 'Country'",
        "'country'",
    ),
    "partition_by twice one column": (lambda app: views(app).partition_by(["at", "at"], id="p"), "twice", "once"),
    "partition_by a list of values": (
        lambda app: views(app).partition_by("tags", id="p"),
        "array<string>",
        "plain values",
    ),
    "partition_by a comma list": (
        lambda app: app.input_stream("x").partition_by("a, b", id="p"),
        "not one column",
        "list",
    ),
    "renamed from itself": (
        lambda app: views(app).partition_by("at", id="p", renamed_from="p"),
        "from itself",
        "former id",
    ),
    "join with an unknown parameter": (
        lambda app: views(app).join(app.input_stream("y"), tll="1 hour", id="j"),
        "join 'j' has no parameter 'tll'",
        "Did you mean 'ttl'?",
    ),
    "partition_by with an unknown parameter": (
        lambda app: views(app).partition_by("country", idd="p"),
        "partition_by has no parameter 'idd'",
        "Did you mean 'id'?",
    ),
    "partition_by with a parameter like no other": (
        lambda app: views(app).partition_by("country", id="p", colour="red"),
        "partition_by 'p' has no parameter 'colour'",
        "Its parameters are id, key, renamed_from, system.",
    ),
    "partition_by without key": (
        lambda app: views(app).partition_by(id="p"),
        "partition_by 'p' needs key",
        "partition_by(…, key=…)",
    ),
    "partition_by several columns one by one": (
        lambda app: views(app).partition_by("country", "at", id="p"),
        "partition_by 'p' takes 1 argument without a name, and got 2",
        "Name the others: id=, system=, renamed_from=.",
    ),
    "a parameter twice": (
        lambda app: app.input_stream("x", id="y"),
        "input_stream 'y' got id twice",
        "Write it once",
    ),
    "an output with an unknown parameter": (
        lambda app: app.output_stream("out", fromat="json"),
        "output_stream 'out' has no parameter 'fromat'",
        "Did you mean 'format'?",
    ),
    "aggregate with a misspelt parameter": (
        lambda app: views(app).aggregate("country", id="a", renamed_frm="b", n=count()),
        "aggregate 'a' has no parameter 'renamed_frm'",
        "Did you mean 'renamed_from'?",
    ),
    "window with a misspelt parameter": (
        lambda app: views(app).window(tumbling("1 hour"), idd="w", n=count()),
        "window has no parameter 'idd'",
        "Did you mean 'id'?",
    ),
    "tumbling with an unknown parameter": (
        lambda app: tumbling("1 hour", early_evry=2),  # type: ignore[call-arg]
        "tumbling has no parameter 'early_evry'",
        "Did you mean 'early_every'?",
    ),
    "an aggregation of no column": (
        lambda app: views(app).aggregate("country", id="a", n=sum_(None)),  # type: ignore[arg-type]
        "n of aggregate 'a' aggregates None, which is not a column's name",
        'Name one column, for example sum_("delay").',
    ),
    "an aggregation without its column": (
        lambda app: views(app).aggregate("country", id="a", n=sum_()),  # type: ignore[call-arg]
        "sum_ needs column",
        "sum_(…, column=…)",
    ),
    "a kind of join that is nearly one": (
        lambda app: views(app).join(app.pushed_table("t", key="at", schema="at timestamp"), id="j", how="lefft"),
        "how='lefft'",
        "Did you mean 'left'?",
    ),
    "an input renamed from itself": (
        lambda app: app.input_stream("x", renamed_from="x"),
        "input stream 'x' says that it was renamed from itself",
        "former id",
    ),
    "a side input with renamed_from": (
        lambda app: app.side_input("x", renamed_from="y"),
        "has renamed_from=, which is for inputs: it is read from its oldest message on under any id",
        "Leave it out",
    ),
    "broadcast without id": (lambda app: views(app).broadcast(), "broadcast needs id=", "id="),
    "aggregate with an aggregation as its time": (
        lambda app: views(app).aggregate("country", id="a", timestamp=max_("at")),
        "aggregate 'a' has timestamp=max(at), and timestamp= names a column of its rows",
        'at=max_("at"), timestamp="at"',
    ),
    "aggregate with a time that is no column of its rows": (
        lambda app: views(app).aggregate("country", id="a", n=count(), timestamp="at"),
        "There is no column 'at' for the timestamp of aggregate 'a'",
        "The columns are country, n",
    ),
    "aggregate with a time that no input's schema knows": (
        lambda app: app.input_stream("views").aggregate("k", id="a", n=count(), timestamp="at"),
        "aggregate 'a' has timestamp='at', which is no column of its rows",
        'at=max_("at")',
    ),
    "aggregate with a time that is none": (
        lambda app: views(app).aggregate("country", id="a", n=count(), timestamp="country"),
        "Column 'country' of aggregate 'a' is of type string, which holds no time",
        "An event-time column is",
    ),
    "distinct without id": (lambda app: views(app).distinct("member_id"), "distinct needs id=", "id="),
    "distinct of an unknown column": (
        lambda app: views(app).distinct("member", id="d"),
        "There is no column 'member' for the key of distinct 'd'",
        "Did you mean 'member_id'",
    ),
    "distinct by values of no order": (
        lambda app: views(app).distinct(["member_id", "tags"], id="d"),
        "Column 'tags' in the key of distinct 'd' is of type",
        "plain values",
    ),
    "distinct that keeps something else": (
        lambda app: views(app).distinct("member_id", id="d", keep="frist"),
        "distinct 'd' has keep='frist'",
        "Did you mean 'first'",
    ),
    "distinct within no length of time": (
        lambda app: views(app).distinct("member_id", id="d", within="a day"),
        "'a day' is not a length of time",
        "1 hour",
    ),
    "distinct within a time, of messages without one": (
        lambda app: clicks(app).distinct("member_id", id="d", within="1 day"),
        "distinct 'd' uses event time, and its input declares no event-time column",
        "or leave within= out",
    ),
    "distinct by an event time that an expression makes": (
        lambda app: views(app).select("member_id", "at + interval 1 day AS at").distinct("member_id", id="d"),
        "distinct 'd' goes by event time, and select-0",
        "max_delay=",
    ),
    "distinct that assumes another key": (
        lambda app: views(app).distinct("member_id", id="d", assume_partitioned_by="country"),
        "country is not of its key",
        "member_id",
    ),
    "aggregate without aggregations": (
        lambda app: views(app).aggregate("country", id="a"),
        "computes nothing",
        "count()",
    ),
    "aggregate without id": (lambda app: views(app).aggregate("country", n=count()), "aggregate needs id=", "id="),
    "aggregate without key": (lambda app: views(app).aggregate([], n=count(), id="a"), "is empty", "member_id"),
    "aggregate a text": (
        lambda app: views(app).aggregate("country", n="count", id="a"),
        "not an aggregation",
        "count()",
    ),
    "aggregation not called": (lambda app: views(app).aggregate("country", n=count, id="a"), "n=count", "Call it"),
    "aggregate an unknown column": (
        lambda app: views(app).aggregate("country", n=avg("dwell"), id="a"),
        "no column 'dwell'",
        "dwell_ms",
    ),
    "sum of texts": (lambda app: views(app).aggregate("at", n=sum_("country"), id="a"), "needs numbers", "cast"),
    "aggregate named like the key": (
        lambda app: views(app).aggregate("country", country=count(), id="a"),
        "appears twice",
        "another name",
    ),
    "window without id": (lambda app: views(app).window(tumbling(5), n=count()), "window needs id=", "id="),
    "window of a text": (lambda app: views(app).window("1 minute", n=count(), id="w"), "not a window", "tumbling"),
    "window without results": (lambda app: views(app).window(tumbling(5), id="w"), "computes nothing", "fold"),
    "window without event time": (
        lambda app: clicks(app).window(tumbling(5), n=count(), id="w"),
        "event time",
        "timestamp=",
    ),
    "event time lost on the way": (
        lambda app: views(app).select("country").window(tumbling(5), n=count(), id="w"),
        "leaves out its column 'at'",
        "Keep the column there",
    ),
    "window column twice": (
        lambda app: views(app).window(tumbling(5), window_end=count(), id="w"),
        "appears twice",
        "another name",
    ),
    "fold and aggregations": (
        lambda app: views(app).window(tumbling(5), fold=max, n=count(), id="w"),
        "fold= and",
        "one of",
    ),
    "fold without schema": (
        lambda app: views(app).window(tumbling(5), fold=lambda a, b: a, id="w"),
        "does not say",
        "schema=",
    ),
    "initial without fold": (
        lambda app: views(app).window(tumbling(5), n=count(), initial=0, id="w"),
        "no fold",
        "fold=",
    ),
    "send to an input": (lambda app: views(app).send_to(clicks(app)), "a stream that is read", "output_stream"),
    "send to a side input": (lambda app: views(app).send_to(app.side_input("s")), "only read", "output_stream"),
    "send to a name": (lambda app: views(app).send_to("out"), "send_to got 'out'", "output_stream"),
    "write a pushed table": (lambda app: views(app).send_to(profiles(app)), "read-only", "local_table"),
    "write a table without its key": (
        lambda app: views(app).send_to(app.local_table("t", key="id")),
        "no column 'id'",
        "columns are",
    ),
    "write other columns": (
        lambda app: views(app).send_to(app.output_stream("o", schema=Profile)),
        "no column tier",
        "declared",
    ),
    "write another type": (
        lambda app: clicks(app).send_to(app.output_stream("o", schema="member_id string, url string")),
        "bigint, declared string",
        "select",
    ),
    "output key unknown": (
        lambda app: views(app).send_to(app.output_stream("o", key="id")),
        "no column 'id'",
        "columns are",
    ),
    "negative partitions": (lambda app: app.input_stream("a", partitions=-1), "partitions=-1", "from 1"),
    "no partitions": (lambda app: app.output_stream("a", partitions=0), "partitions=0", "from 1"),
    "partitions as text": (lambda app: app.input_stream("a", partitions="16"), "partitions='16'", "whole number"),
    "a pushed table with the column that deletes": (
        lambda app: app.pushed_table("a", key="k", schema="k int, _deleted boolean"),
        "has a column '_deleted'",
        "deletes=",
    ),
    "partitions as boolean": (
        lambda app: app.pushed_table("a", key="k", partitions=True),
        "partitions=True",
        "whole number",
    ),
    "key not in the schema": (
        lambda app: app.input_stream("a", schema=View, key="id"),
        "no column 'id'",
        "columns are",
    ),
    "timestamp not in the schema": (
        lambda app: app.input_stream("a", schema=View, timestamp="ts"),
        "no column 'ts'",
        "columns are",
    ),
    "timestamp of a text": (
        lambda app: app.input_stream("a", schema=View, timestamp="country"),
        "holds no time",
        "timestamp",
    ),
    "max_delay without timestamp": (
        lambda app: app.input_stream("a", max_delay="1 hour"),
        "no timestamp",
        "timestamp=",
    ),
    "slice by no timestamp": (lambda app: app.input_stream("a", slice="timestamp"), "names none", "timestamp="),
    "unknown slice": (lambda app: app.input_stream("a", slice="daily"), "slice='daily'", "checkpoint"),
    "a Jinja path": (lambda app: app.input_stream("a", path="s3://b/{{ ds }}"), "Jinja", "single braces"),
    "a broken path": (lambda app: app.input_stream("a", path="s3://b/{ds"), "no template", "Close"),
    "a path by place": (lambda app: app.input_stream("a", path="s3://b/{}"), "without a name", "data_interval_start"),
    "a path of a misspelt time": (
        lambda app: app.input_stream("a", path="s3://b/{data_interval_strat:%Y}"),
        "has the unknown placeholder {data_interval_strat}",
        "Did you mean 'data_interval_start'",
    ),
    "a path in no time zone": (
        lambda app: app.output_stream("a", path="s3://b/{ds|Europe/Asterdam}"),
        "names 'Europe/Asterdam', which is not a time zone",
        "Did you mean 'Europe/Amsterdam'",
    ),
    "a path with a format that is none": (
        lambda app: app.output_stream("a", path="s3://b/{data_interval_end:%Y-%Q}"),
        "the unknown directive %Q",
        "%Y (year)",
    ),
    "a system with a dot": (lambda app: app.input_stream("a", system="kafka.eu"), "kafka.eu", "kafka-eu"),
    "a system's password": (
        lambda app: app.system("db", kind="spark", password="x"),
        "looks like a secret",
        "connection",
    ),
    "two default systems": (lambda app: (app.default_system("a"), app.default_system("b")), "is 'a' already", "once"),
    "a parameter that does not exist": (
        lambda app: app.input_stream("a", partition=4),
        "no parameter 'partition'",
        "'partitions'",
    ),
    "a parameter of no table": (
        lambda app: app.pushed_table("a", key="k", ttl=4),
        "no parameter 'ttl'",
        "renamed_from",
    ),
    "stream without id": (lambda app: app.input_stream(None), "needs an id", "page-views"),
    "table without key": (lambda app: app.local_table("t", key=()), "is empty", "member_id"),
    "remote table with nothing": (lambda app: app.remote_table("t", key="k"), "neither reader nor writer", "reader="),
    "join a remote table that cannot be read": (
        lambda app: views(app).join(app.remote_table("t", key="member_id", writer=lambda k, row: None), id="j"),
        "has no reader",
        "reader=",
    ),
    "write a remote table that cannot be written": (
        lambda app: views(app).send_to(app.remote_table("t", key="member_id", reader=lambda k: None)),
        "has no writer",
        "writer=",
    ),
    "side inputs empty": (lambda app: app.table("t", key="k", side_inputs=[]), "no side inputs", "side.inputs"),
    "side inputs as one text": (lambda app: app.table("t", key="k", side_inputs="a"), "side_inputs='a'", "list"),
    "a bad side input name": (
        lambda app: app.table("t", key="k", side_inputs=["not a name"]),
        "'not a name'",
        "system.stream",
    ),
    "a side input twice": (lambda app: app.table("t", key="k", side_inputs=["a.s", "a.s"]), "twice", "once"),
    "side inputs with changelog": (
        lambda app: app.table("t", key="k", side_inputs=["a.s"], changelog=True),
        "changelog",
        "leave",
    ),
    "a processor that is made": (
        lambda app: app.table("t", key="k", side_inputs=["a.s"], processor=Stored()),
        "made already",
        "factory",
    ),
    "a processor's bad name": (
        lambda app: app.table("t", key="k", side_inputs=["a.s"], processor="x y"),
        "imported",
        "package.module",
    ),
    "a side input made here": (
        lambda app: app.table("t", key="country", side_inputs=[views(app).map(remade)]),
        "made by the application",
        "local_table",
    ),
    "dataframe of no callable": (
        lambda app: app.from_dataframe("table", id="d"),
        "from_dataframe takes",
        "lambda spark",
    ),
    "looping over a stream": (lambda app: list(views(app)), "looped over", "flat_map"),
    "asking a stream": (lambda app: bool(views(app)), "neither true nor false", "filter"),
}


@pytest.mark.parametrize("rule", WRONG)
def test_rejects(rule: str) -> None:
    use, sentence, hint = WRONG[rule]
    with pytest.raises(SamzaError) as caught:
        stream_application("app")(use).spec()
    error = caught.value
    assert any(part in error.sentence for part in sentence.split("|")), error.sentence
    assert hint in error.hint, error.hint
    assert f"{__file__}:" in error.sentence
    location = error.facts["location"]
    assert isinstance(location, SourceLocation)
    assert str(location) in error.sentence


@pytest.mark.parametrize("dropped", ["per-minute", 5, None, [5]])
def test_rejects_former_ids_that_are_no_list_of_texts(dropped: Any) -> None:
    with pytest.raises(InvalidApplication, match="dropped is ") as rejected:
        stream_application("app", dropped=dropped)
    assert 'dropped=["per-minute"]' in rejected.value.hint


class Proxy:
    """A proxy that has whatever it is asked for, as the methods of another process."""

    def __getattr__(self, name: str) -> Proxy:
        return Proxy()

    def __call__(self, *values: object) -> None:
        pass


def test_a_proxy_that_has_every_attribute_is_a_callable_as_any_other() -> None:
    spec = stream_application("app")(lambda app: views(app).filter(Proxy()).sink(Proxy())).spec()
    assert not is_watermark_function(Proxy())
    assert dict(plan_shape(spec).operators[-1].details)["function"].endswith("test_wrong_use.Proxy")
    assert SourceLocation.of_callable(Proxy()) == SourceLocation.of_callable(Proxy.__call__)


def decorated(function: Any) -> Any:
    @functools.wraps(function)
    def called(*values: Any) -> Any:
        return function(*values)

    return called


class Holder:
    @decorated
    def method(self, message: Any) -> Any:
        return message

    @functools.lru_cache  # noqa: B019 (one object)
    def kept(self, message: Any) -> Any:
        return message


@pytest.mark.parametrize("name", ["method", "kept"])
def test_the_place_of_a_decorated_method_is_its_own_line(name: str) -> None:
    own = getattr(Holder, name).__wrapped__.__code__.co_firstlineno
    for function in (getattr(Holder(), name), functools.partial(getattr(Holder(), name))):
        found = SourceLocation.of_callable(function)
        assert found is not None
        assert found.line == own


class Delegating:
    """A wrapper that passes on what it does not have."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __call__(self, message: Any) -> Any:
        return self._inner(message)


class Late:
    def __call__(self, message: Any) -> list[Any]:
        return [message]

    def process_watermark(self, timestamp: int) -> None:
        pass

    def get_output_watermark(self) -> int | None:
        return None


def test_a_wrapper_of_a_watermark_function_is_one() -> None:
    assert is_watermark_function(Delegating(Late()))
    assert not is_watermark_function(Delegating(later))


def test_a_callable_may_name_what_comes_further_down() -> None:
    def describe(app: Any) -> None:
        def with_class(message: Any) -> View:
            return clean(message)

        def with_text(message: Any) -> View:
            return clean(message)

        with_class.__annotations__["return"] = View
        stream = views(app)
        for number, function in enumerate((with_class, with_text)):
            stream.map(function, id=f"map-{number}").send_to(app.output_stream(f"out-{number}"))

        def clean(message: View) -> View:
            return message

    assert len(stream_application("app")(describe).spec().operators) > 2


def test_the_place_is_the_line_of_the_call() -> None:
    def describe(app: Any) -> None:
        stream = app.input_stream("a")
        stream.filter("x")

    with pytest.raises(SamzaError) as caught:
        stream_application("app")(describe).spec()
    location = caught.value.facts["location"]
    assert isinstance(location, SourceLocation)
    assert location.line == describe.__code__.co_firstlineno + 2


@pytest.mark.parametrize("join", [True, False])
def test_rejects_what_another_application_declared(join: bool) -> None:
    kept: list[Any] = []
    stream_application("first")(
        lambda app: kept.extend([app.input_stream("a", key="k"), app.output_stream("o")])
    ).spec()

    def describe(app: Any) -> None:
        stream = app.input_stream("b", key="k")
        _ = stream.join(kept[0], lambda a, b: a, id="j", ttl=1) if join else stream.send_to(kept[1])

    with pytest.raises(SamzaError, match="of another application \\('first', not 'second'\\)"):
        stream_application("second")(describe).spec()


def test_rejects_a_stream_of_a_former_description() -> None:
    kept: list[Any] = []

    def describe(app: Any) -> None:
        stream = app.input_stream("a")
        (kept or [stream])[0].merge(stream.map(lambda message: message))
        kept.append(stream)

    application = stream_application("app")(describe)
    application.spec()
    with pytest.raises(SamzaError, match="another description"):
        application.spec()


def test_rejects_operators_after_the_description() -> None:
    kept: list[Any] = []
    stream_application("app")(lambda app: kept.extend([app, app.input_stream("a")])).spec()
    with pytest.raises(SamzaError, match="already described"):
        kept[1].map(lambda message: message)
    with pytest.raises(SamzaError, match="already described"):
        kept[0].input_stream("b")


@pytest.mark.parametrize(
    "wrong", ["5 m", "5", "", "-5 minutes", "5 minuts", True, None, 1.5, -1, 0, timedelta(0), "0 seconds"]
)
def test_rejects_lengths_of_time_that_are_none(wrong: Any) -> None:
    with pytest.raises(SamzaError, match="length of time"):
        tumbling(wrong)


def test_lengths_of_time() -> None:
    assert (
        tumbling("1 minute").duration_ms
        == tumbling(timedelta(minutes=1)).duration_ms
        == tumbling(60_000).duration_ms
        == 60_000
    )
    assert [tumbling(text).duration_ms for text in ("250 ms", "2s", "1 hour", "2 days", "1 week")] == [
        250,
        2000,
        3_600_000,
        172_800_000,
        604_800_000,
    ]
    assert session("30 minutes").gap_ms == 1_800_000


def test_rejects_hops_that_lose_messages() -> None:
    with pytest.raises(SamzaError, match="lose the messages"):
        hopping("1 minute", "2 minutes")


def test_rejects_unknown_zones_and_times() -> None:
    with pytest.raises(SamzaError, match="not a time zone"):
        tumbling("1 day", zone="Mars/Olympus")
    with pytest.raises(SamzaError, match="not a kind of time"):
        tumbling("1 day", time="ingestion")


@pytest.mark.parametrize(
    ("zone", "meant"),
    [("Europe/Asterdam", "Europe/Amsterdam"), ("europe/paris", "Europe/Paris"), ("New York", "America/New_York")],
)
def test_a_zone_that_does_not_exist_is_rejected_with_the_one_that_was_meant(zone: str, meant: str) -> None:
    with pytest.raises(SamzaError, match="not a time zone") as caught:
        tumbling("1 day", zone=zone)
    assert f"Did you mean {meant!r}?" in str(caught.value.hint)


def test_a_users_package_may_begin_like_ours() -> None:
    module = Path(PACKAGE_FOLDER + "_jobs.py")  # never written: only its name counts
    source = "def declare(app):\n    app.input_stream('a').filter('x')\n"
    names: dict[str, Any] = {}
    exec(compile(source, str(module), "exec"), names)
    with pytest.raises(SamzaError, match=r"airflow_samza_jobs\.py:2"):
        stream_application("app")(names["declare"]).spec()


@pytest.mark.parametrize("delay", ["0 minutes", "0 s", 0, timedelta(0)], ids=str)
def test_a_delay_of_watermarks_may_be_nothing(delay: Any) -> None:
    assert bounded_delay(delay).delay_ms == 0


def test_a_length_that_is_nothing_is_called_so() -> None:
    with pytest.raises(SamzaError, match="'0 minutes' is no positive length of time"):
        tumbling("0 minutes")

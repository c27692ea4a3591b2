"""The planner's expectations in words: ids, duplicates, the default system, the self-join. One test each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airflow_samza import stream_application
from airflow_samza.application.application import ApplicationSpec
from airflow_samza.errors import BadId, DuplicateId, InvalidApplication


def described(describe: Callable[[Any], None], name: str = "app", app_id: str = "1") -> ApplicationSpec:
    return stream_application(name, app_id=app_id)(describe).spec()


def test_auto_and_user_ids() -> None:
    def describe(app: Any) -> None:
        a, b = app.input_stream("a", key="k"), app.input_stream("b", key="k")
        merged = a.merge(b)
        merged.join(b, lambda left, right: left, id="customName", ttl="1 hour").map(lambda message: message)

    operators = described(describe, "appName", "1234").operators
    assert [op.op_id for op in operators if op.op != "input"] == [
        "appName-1234-merge-0",
        "appName-1234-join-customName",
        "appName-1234-map-2",
    ]
    assert [op.name for op in operators if op.op != "input"] == ["0", "customName", "2"]


def test_duplicate_id() -> None:
    def describe(app: Any) -> None:
        a, b = app.input_stream("a", key="k"), app.input_stream("b", key="k")
        a.join(b, id="customName", ttl="1 hour")
        a.join(b, id="customName", ttl="1 hour")

    with pytest.raises(DuplicateId, match="app-1-join-customName"):
        described(describe)


@pytest.mark.parametrize("id", ["op_id", "op-id", "1000", "op_1", "OP_ID"])
def test_id_characters_valid(id: str) -> None:
    def describe(app: Any) -> None:
        app.input_stream("a").map(lambda message: message, id=id)

    assert described(describe).operators[-1].op_id == f"app-1-map-{id}"


@pytest.mark.parametrize("id", [None, "", " ", "\t"])
def test_id_blank_means_automatic(id: str | None) -> None:
    def describe(app: Any) -> None:
        app.input_stream("a").map(lambda message: message, id=id)

    assert described(describe).operators[-1].op_id == "app-1-map-0"


@pytest.mark.parametrize("id", ["op id", "op#id", "op.id", "op/id", "öp", "op\n"])
def test_id_characters_invalid(id: str) -> None:
    def describe(app: Any) -> None:
        app.input_stream("a").map(lambda message: message, id=id)

    with pytest.raises(BadId, match="letters, digits"):
        described(describe)


@pytest.mark.parametrize(
    ("declare", "sentence"),
    [
        (lambda app: app.input_stream(" "), "An input stream needs an id"),
        (lambda app: app.local_table(7, key="k"), "The id of a table is a text, not 7"),
        (lambda app: app.input_stream("a").map(lambda message: message, id=7), "The id of a map is a text, not 7"),
    ],
)
def test_ids_that_are_none(declare: Callable[[Any], Any], sentence: str) -> None:
    with pytest.raises(BadId, match=sentence):
        described(declare)


def test_same_input_twice() -> None:
    def describe(app: Any) -> None:
        app.input_stream("a")
        app.input_stream("a")

    with pytest.raises(DuplicateId, match="stream 'a'"):
        described(describe)


def test_same_output_twice() -> None:
    def describe(app: Any) -> None:
        app.output_stream("o")
        app.output_stream("o")

    with pytest.raises(DuplicateId, match="stream 'o'"):
        described(describe)


def test_same_intermediate_twice() -> None:
    def describe(app: Any) -> None:
        a = app.input_stream("a")
        a.partition_by("k", id="p")
        a.broadcast(id="p")

    with pytest.raises(DuplicateId, match="stream 'p'"):
        described(describe)


@pytest.mark.parametrize(
    "declare",
    [
        lambda app: (app.input_stream("x"), app.output_stream("x")),
        lambda app: app.input_stream("x").partition_by("k", id="x"),
        lambda app: (app.side_input("x"), app.input_stream("x")),
        lambda app: (app.pushed_table("x", key="k"), app.input_stream("x-push")),
    ],
)
def test_a_stream_id_has_one_role(declare: Callable[[Any], Any]) -> None:
    with pytest.raises(DuplicateId, match="stream 'x"):
        described(declare)


def test_bad_table_id() -> None:
    with pytest.raises(BadId, match="my table"):
        described(lambda app: app.local_table("my table", key="k"))


def test_table_twice() -> None:
    def describe(app: Any) -> None:
        app.local_table("t", key="k")
        app.pushed_table("t", key="k")

    with pytest.raises(DuplicateId, match="table 't'"):
        described(describe)


def test_two_systems_same_name() -> None:
    def describe(app: Any) -> None:
        app.system("logs", kind="log")
        app.system("logs", kind="files")

    with pytest.raises(DuplicateId, match="system 'logs'"):
        described(describe)


@pytest.mark.parametrize("first", ["input_stream", "output_stream", "side_input"])
def test_default_system_late(first: str) -> None:
    def describe(app: Any) -> None:
        getattr(app, first)("a")
        app.default_system("logs")

    with pytest.raises(InvalidApplication, match="too late"):
        described(describe)


def test_default_system_in_time() -> None:
    def describe(app: Any) -> None:
        app.default_system("logs")
        app.input_stream("a")
        app.input_stream("b", system="other")

    spec = described(describe)
    assert spec.default_system == "logs"
    assert [spec.inputs[name].system for name in ("a", "b")] == [None, "other"]


def test_self_join() -> None:
    def describe(app: Any) -> None:
        a = app.input_stream("a", key="k")
        a.join(a, id="j", ttl="1 hour")

    with pytest.raises(InvalidApplication, match="very same stream"):
        described(describe)


def test_two_maps_of_one_stream_may_be_joined() -> None:
    def describe(app: Any) -> None:
        a = app.input_stream("a", key="k")
        a.map(lambda message: message).join(
            a.filter(lambda message: True), lambda left, right: left, id="j", ttl="1 hour"
        )

    join = described(describe).operators[-1]
    assert [source.op for source in join.inputs] == ["map", "filter"]

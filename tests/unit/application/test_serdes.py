"""Serdes of streams, valid ones and those that are rejected at author time."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_samza import stream_application
from airflow_samza.errors import InvalidApplication


class Mine:
    """A serde of the user's."""


def declared(**more: Any) -> str | None:
    def describe(app: Any) -> None:
        app.input_stream("views", **{"schema": "id bigint", **more}).send_to(app.output_stream("out"))

    return stream_application("serdes")(describe).spec().stream("views").serde


@pytest.mark.parametrize(
    "serde", ["json", "avro:views.avsc", "avro:/data/views.avsc", "jobs.serdes:Mine", "jobs.serdes:Outer.Mine"]
)
def test_a_serde_is_kept_by_its_name(serde: str) -> None:
    assert declared(serde=serde) == serde


@pytest.mark.parametrize(("serde", "schema"), [("string", "line string"), ("bytes", "line binary")])
def test_texts_and_bytes_are_of_one_column(serde: str, schema: str) -> None:
    assert declared(serde=serde, schema=schema) == serde
    with pytest.raises(InvalidApplication, match=f"has serde='{serde}' and the columns id bigint"):
        declared(serde=serde)


def test_a_class_is_kept_by_the_name_under_which_workers_import_it() -> None:
    assert declared(serde=Mine) == f"{__name__}:Mine"


def test_a_class_that_workers_cannot_import_is_rejected() -> None:
    class Local:
        """Within a function."""

    with pytest.raises(InvalidApplication, match="a class that workers cannot import"):
        declared(serde=Local)


@pytest.mark.parametrize(
    ("serde", "said"),
    [
        ("jsn", "has serde='jsn', which is not known"),
        ("jobs.serdes.Mine", "has serde='jobs.serdes.Mine', which is not known"),
        ("avro", "has serde='avro' without a schema"),
        ("avro:", "has serde='avro:' without a schema"),
        (" ", "has serde=' '"),
        (7, "has serde=7"),
    ],
)
def test_what_names_no_serde_is_rejected_at_the_call(serde: Any, said: str) -> None:
    with pytest.raises(InvalidApplication) as rejected:
        declared(serde=serde)
    assert said in str(rejected.value)


def test_a_misspelt_serde_is_told_which_one_was_meant() -> None:
    with pytest.raises(InvalidApplication) as rejected:
        declared(serde="jsn")
    assert (rejected.value.hint or "").startswith("Did you mean 'json'?")


@pytest.mark.parametrize("kind", ["input_stream", "shared_stream", "side_input"])
def test_what_is_read_by_a_serde_declares_its_columns(kind: str) -> None:
    def describe(app: Any) -> None:
        getattr(app, kind)("views", serde="json")

    with pytest.raises(InvalidApplication, match="has a serde and no schema"):
        stream_application("serdes")(describe).spec()


def test_an_output_may_take_the_columns_that_are_sent() -> None:
    def describe(app: Any) -> None:
        app.input_stream("views", schema="id bigint").send_to(app.output_stream("out", serde="json"))

    assert stream_application("serdes")(describe).spec().stream("out").serde == "json"

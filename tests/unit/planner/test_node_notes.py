"""Notes for people on the nodes of a plan: descriptions, and lines of code."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import pytest

from airflow_samza import stream_application
from airflow_samza.errors import InvalidApplication
from airflow_samza.planner.declaration import declaration
from airflow_samza.planner.node_notes import MOST, node_notes
from airflow_samza.planner.planner import plan_shape


def clean(view: Any, more: int = 0) -> Any:
    """Return the view
    in upper case.

    It takes long.
    """
    return view


class Rated:
    """Give views a rate."""

    def __call__(self, view: Any) -> Any:
        return view


@dataclass
class Scaled:
    by: int

    def __call__(self, view: Any) -> Any:
        return view


def notes(function: Any, doc: str | None = None) -> dict[str, dict[str, str]]:
    @stream_application("noted")
    def noted(app: Any) -> None:
        views = app.input_stream("views", schema="n bigint", doc="Views\n  of members.").map(function, id="made")
        (views if doc is None else views.doc(doc)).send_to(app.output_stream("out", doc="What is left."))

    return node_notes(noted.spec())


@pytest.mark.parametrize(
    ("function", "doc"),
    [
        (clean, "Return the view in upper case."),
        (functools.partial(clean, more=1), "Return the view in upper case."),
        (Rated(), "Give views a rate."),
        (Scaled(2), None),
        (lambda view: view, None),
        (math.sqrt, None),
    ],
    ids=["function", "partial", "object", "dataclass without words", "lambda", "of C"],
)
def test_an_operator_has_the_first_paragraph_of_its_callables_docstring(function: Any, doc: str | None) -> None:
    assert notes(function)["operator:noted-1-map-made"].get("doc") == doc


def test_a_description_goes_before_a_docstring() -> None:
    assert notes(clean, "Views as they count.")["operator:noted-1-map-made"]["doc"] == "Views as they count."


def test_streams_have_their_descriptions_and_lend_them_to_operators_that_read_and_send() -> None:
    found = notes(clean)
    assert found["stream:views"]["doc"] == found["operator:noted-1-input-views"]["doc"] == "Views of members."
    assert found["stream:out"]["doc"] == "What is left."


def test_a_place_is_a_line_of_this_file_and_no_path_of_the_machine() -> None:
    place = notes(clean)["operator:noted-1-map-made"]["place"]
    assert place.rpartition("/")[2].startswith("test_node_notes.py:")
    assert not place.startswith("/")


def test_a_long_description_is_cut() -> None:
    assert len(notes(clean, "word " * 500)["operator:noted-1-map-made"]["doc"]) <= MOST


@pytest.mark.parametrize("doc", ["", 3])
def test_a_description_is_a_text(doc: Any) -> None:
    with pytest.raises(InvalidApplication, match="Write a sentence or two"):
        notes(clean, doc)


def test_a_table_has_its_description_which_changes_neither_plan_nor_declaration() -> None:
    def made(doc: str | None) -> Any:
        @stream_application("noted")
        def noted(app: Any) -> None:
            table = app.local_table("seen", key="n", schema="n bigint", doc=doc)
            app.input_stream("views", schema="n bigint", key="n", partitions=1, doc=doc).send_to(table)

        return noted.spec()

    one, other = made(None), made("Members that were seen.")
    assert node_notes(other)["table:seen"]["doc"] == "Members that were seen."
    assert declaration(one) == declaration(other)
    assert plan_shape(one).shape_fingerprint == plan_shape(other).shape_fingerprint

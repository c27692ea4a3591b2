"""The words in which plans and their differences are put."""

from __future__ import annotations

import pytest

from airflow_samza.application.operator_specs import MapSpec
from airflow_samza.planner.describe import operator_details
from airflow_samza.planner.plan import PlannedOperator
from airflow_samza.planner.wording import operator_text, shown_apart


def test_long_texts_are_shown_near_where_they_begin_to_differ() -> None:
    same = "x" * 1_000
    assert shown_apart(f"{same}1{same}", f"{same}2{same}") == (
        f"…{'x' * 40}1{'x' * 119}…",
        f"…{'x' * 40}2{'x' * 119}…",
    )


def test_a_long_text_is_shown_to_its_end_and_from_its_beginning_without_a_mark_of_omission() -> None:
    assert shown_apart("a" * 160, "b" * 161) == ("a" * 160, f"{'b' * 160}…")
    assert shown_apart("a" * 161, "a" * 160 + "b") == (f"…{'a' * 41}", f"…{'a' * 40}b")


def test_texts_of_160_characters_are_shown_whole() -> None:
    assert shown_apart("a" * 159 + "b", "a" * 160) == ("a" * 159 + "b", "a" * 160)


def test_an_attribute_of_an_operator_that_has_no_words_is_told_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MapSpec, "shown", (*MapSpec.shown, ("one in", "rate")))
    monkeypatch.setattr(MapSpec, "rate", 7, raising=False)
    spec = MapSpec("app-1-map-0", "0", function=len)
    planned = PlannedOperator(spec.op_id, spec.name, spec.op, (), details=operator_details(spec))
    assert operator_text(planned) == "len, one in 7"


def test_what_happens_to_bad_records_and_late_rows_is_told() -> None:
    def details(*pairs: tuple[str, str]) -> str:
        return operator_text(PlannedOperator("join-0", "0", "join", (), table="members", details=pairs))

    assert details(("key", "member"), ("how", "left"), ("wait", "5 minutes"), ("on_error", "drop")) == (
        "with table members, by member, left, wait 5 minutes, on_error drop"
    )
    assert details(("how", "inner")) == "with table members"  # what is meant where nothing is said

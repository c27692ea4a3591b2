"""The words in which plans and their differences are put."""

from __future__ import annotations

from airflow_samza.planner.wording import shown_apart


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

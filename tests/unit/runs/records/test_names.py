from __future__ import annotations

import re

import pytest
from hypothesis import example, given, strategies as st

from airflow_samza.errors import ConfigError
from airflow_samza.runs.records.names import (
    Generation,
    former_state_folder,
    intermediate_topic,
    run_folder,
    safe,
    state_folder,
    writer_name,
)


@given(st.text(max_size=300))
def test_a_safe_name_is_one_part_of_a_path(text: str) -> None:
    name = safe(text)
    assert re.fullmatch(r"[A-Za-z0-9_.-]{1,150}", name)
    assert not name.startswith(".")


@given(st.text(max_size=300), st.text(max_size=300))
def test_two_texts_never_become_one_name(one: str, other: str) -> None:
    assert (safe(one) == safe(other)) == (one == other)


def test_runs_whose_ids_differ_in_a_sign_only_have_folders_of_their_own() -> None:
    assert run_folder("views", "manual__2026-01-01T00:00:00+00:00") != run_folder(
        "views", "manual__2026-01-01T00:00:00-00:00"
    )


def test_generations_compare_as_numbers() -> None:
    texts = ["1.9", "1.10", "2.1", "10.1"]
    assert [str(generation) for generation in sorted(Generation.parse(text) for text in reversed(texts))] == texts


@pytest.mark.parametrize("text", ["", "1", "0.1", "1.0", "1.1.1", "a.b", "1.-1"])
def test_rejects_what_is_no_generation(text: str) -> None:
    with pytest.raises(ConfigError, match="not a generation"):
        Generation.parse(text)


IDS = st.text("a1-_", min_size=1, max_size=5)
TEXTS = st.text("a1-._/ ", max_size=6)


@given(st.tuples(IDS, IDS, IDS), st.tuples(IDS, IDS, IDS))
@example(("a", "b-1-c", "s"), ("a-1-b", "c", "s"))
@example(("a", "1", "1-s"), ("a-1", "1", "s"))
@example(("a", "2", "1-s"), ("a-2", "1", "s"))
def test_no_two_streams_share_a_topic(one: tuple[str, str, str], other: tuple[str, str, str]) -> None:
    topics = [intermediate_topic(*names, "run", Generation(1, 1)) for names in (one, other)]
    assert (topics[0] == topics[1]) == (one == other)


@given(st.tuples(TEXTS, TEXTS, TEXTS), st.tuples(TEXTS, TEXTS, TEXTS))
def test_no_two_streams_share_a_topic_whatever_their_names_hold(
    one: tuple[str, str, str], other: tuple[str, str, str]
) -> None:
    topics = [intermediate_topic(*names, "run", Generation(1, 1)) for names in (one, other)]
    assert (topics[0] == topics[1]) == (one == other)


@given(st.tuples(TEXTS, TEXTS), st.tuples(TEXTS, TEXTS))
@example(("a", "b-1"), ("a-b", "1"))
def test_no_two_applications_share_a_folder_of_state(one: tuple[str, str], other: tuple[str, str]) -> None:
    assert (state_folder(*one) == state_folder(*other)) == (one == other)


@pytest.mark.parametrize(("name", "copy"), [("page-views", "1"), ("a-b-c", "eu"), ("a-1-b", "2_3")])
def test_a_folder_of_state_keeps_its_name_where_the_id_has_no_hyphen(name: str, copy: str) -> None:
    assert state_folder(name, copy) == former_state_folder(name, copy) == f"state/{name}-{copy}"


@pytest.mark.parametrize(("name", "stream"), [("page-views", "by-member"), ("v2-1st", "by-1"), ("a-11", "1-1-1")])
def test_topics_of_the_first_copy_keep_their_names(name: str, stream: str) -> None:
    assert intermediate_topic(name, "1", stream, "run", Generation(1, 1)) == f"{name}-1-{stream}/run/1.1"


def test_a_run_that_began_with_former_names_keeps_them() -> None:
    assert intermediate_topic("a", "b-1-c", "s", "run", Generation(1, 1), names=1) == "a-b-1-c-s/run/1.1"


def test_a_topic_is_named_after_its_run_and_its_writers_generation() -> None:
    assert intermediate_topic("views", "1", "by-member", "run-1", Generation(1, 2)) == "views-1-by-member/run-1/1.2"


def test_no_two_tries_write_one_file() -> None:
    assert len({writer_name("stage", Generation(1, 1), 0, 3) for _ in range(100)}) == 100

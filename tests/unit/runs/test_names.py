from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_samza.errors import ConfigError
from airflow_samza.runs.names import Generation, intermediate_topic, run_folder, safe, writer_attempt


@given(st.text(max_size=300))
def test_a_safe_name_is_one_part_of_a_path(text: str) -> None:
    name = safe(text)
    assert re.fullmatch(r"[A-Za-z0-9_.-]{1,150}", name)
    assert not name.startswith(".")


@given(st.text(max_size=300), st.text(max_size=300))
def test_two_texts_never_become_one_name(one: str, other: str) -> None:
    assert (safe(one) == safe(other)) == (one == other)


def test_runs_whose_ids_differ_in_a_sign_only_have_folders_of_their_own() -> None:
    assert run_folder("views", "manual__2026-01-01T00:00:00+00:00") != run_folder("views", "manual__2026-01-01T00:00:00-00:00")


def test_generations_compare_as_numbers() -> None:
    texts = ["1.9", "1.10", "2.1", "10.1"]
    assert [str(generation) for generation in sorted(Generation.parse(text) for text in reversed(texts))] == texts


@pytest.mark.parametrize("text", ["", "1", "0.1", "1.0", "1.1.1", "a.b", "1.-1"])
def test_refuses_what_is_no_generation(text: str) -> None:
    with pytest.raises(ConfigError, match="not a generation"):
        Generation.parse(text)


def test_a_topic_is_named_after_its_run_and_its_writers_generation() -> None:
    assert intermediate_topic("views", "1", "by-member", "run-1", Generation(1, 2)) == "views-1-by-member/run-1/1.2"


def test_no_two_tries_write_one_file() -> None:
    assert len({writer_attempt("stage", Generation(1, 1), 0, 3) for _ in range(100)}) == 100

"""The rules of side inputs, and the local checkpoint of a store (side-inputs; rules S1–S5)."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest

from airflow_samza.errors import TopicError
from airflow_samza.storage.offsets_file import STALE_SECONDS, LocalOffsets, OffsetsFile
from airflow_samza.storage.side_inputs import CatchUp, ProcessorFailed, SideInputsProcessing, apply_entries, resume

A, B = ("A", 0), ("B", 0)


def test_a_store_goes_on_behind_what_it_has_read() -> None:
    assert resume({A: 41}, {A: 0}, {A: 100}).starts == {A: 42}


def test_a_new_or_quiet_topic_is_read_and_throws_nothing_away() -> None:
    found = resume({A: 41}, {A: 0, B: 7}, {A: 42, B: 7})
    assert (found.rebuild, found.starts) == (None, {A: 42, B: 7})


def test_without_a_store_reading_begins_at_the_oldest_offset() -> None:
    assert resume(None, {A: 5}, {A: 9}).starts == {A: 5}


def test_a_store_that_has_missed_expired_messages_is_rebuilt() -> None:
    found = resume({A: 3, B: 9}, {A: 5, B: 0}, {A: 9, B: 10})
    assert found.starts == {A: 5, B: 0}
    assert found.rebuild == "it has read A/0 up to 3, and 5 is the oldest offset left"


def test_a_store_that_is_just_before_the_oldest_offset_has_missed_nothing() -> None:
    assert resume({A: 4}, {A: 5}, {A: 9}).rebuild is None


def test_a_store_beyond_the_end_of_a_topic_that_was_made_anew_is_rebuilt() -> None:
    found = resume({A: 41}, {A: 0}, {A: 3})
    assert found.starts == {A: 0}
    assert "the topic ends at 3: it was made anew" in (found.rebuild or "")


@pytest.mark.parametrize("local", [{}, {A: 5, B: 6}], ids=["it says nothing", "it has read what is not read now"])
def test_a_store_that_does_not_fit_is_rebuilt(local: dict[Any, int]) -> None:
    assert resume(local, {A: 0}, {A: 10}).rebuild is not None


def test_an_unknown_head_is_an_error() -> None:
    with pytest.raises(TopicError, match="A/0 has no head"):
        CatchUp({A: 0}, {A: None})


def test_a_topic_without_a_starting_offset_is_an_error() -> None:
    with pytest.raises(TopicError, match="A/0 has no oldest offset"):
        resume(None, {A: None}, {A: 3})


def test_what_comes_after_the_start_is_not_waited_for() -> None:
    catching_up = CatchUp({A: 0, B: 0}, {A: 2, B: 0})
    catching_up.processed(A, 0)
    assert not catching_up.is_complete
    catching_up.processed(A, 1)
    assert catching_up.is_complete


def test_a_head_beyond_the_end_of_a_topic_that_was_made_anew_counts_as_reached() -> None:
    catching_up = CatchUp({A: 0}, {A: 100})
    catching_up.ends(A, 5)
    assert catching_up.is_complete


class Store(dict[Any, Any]):
    def put(self, key: Any, value: Any) -> None:
        self[key] = value

    def delete(self, key: Any) -> None:
        self.pop(key, None)


def test_null_keys_are_left_out_and_counted() -> None:
    store = Store()
    assert apply_entries(store, [(None, 1), ("a", 2), (None, None)]) == 2
    assert store == {"a": 2}


def test_a_processor_that_raises_is_named_with_its_store_and_the_message() -> None:
    class Broken:
        def process(self, message: Any, store: Any) -> Any:
            yield ("a", 1)
            raise ValueError("no")

    processing = SideInputsProcessing({"s": ["A"]}, {"s": Store()}, {"s": Broken()})
    with pytest.raises(ProcessorFailed) as failed:
        processing.process(A, 7, "x")
    assert (failed.value.store, failed.value.place, failed.value.offset) == ("s", A, 7)
    assert processing.last_processed == {}


# -- the offsets file --------------------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> OffsetsFile:
    return OffsetsFile(str(tmp_path / "store" / "OFFSETS"))


def path_of(tmp_path: Path) -> Path:
    return tmp_path / "store" / "OFFSETS"


def test_what_is_written_is_read(file: OffsetsFile) -> None:
    local = LocalOffsets({A: 123, ("views/run 1", 4): 5}, {"version": "v1"})
    file.write(local)
    assert file.read() == local


def test_no_file_says_that_nothing_is_known(file: OffsetsFile) -> None:
    assert file.read() is None


def test_a_second_write_takes_the_place_of_the_first(file: OffsetsFile, tmp_path: Path) -> None:
    file.write(LocalOffsets({A: 1}, {}))
    file.write(LocalOffsets({A: 2}, {}))
    found = file.read()
    assert found is not None
    assert found.offsets == {A: 2}
    assert os.listdir(tmp_path / "store") == ["OFFSETS"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text.replace("123", "124"),
        lambda text: text[: len(text) // 2],
        lambda text: "",
        lambda text: "[]",
        lambda text: json.dumps({**json.loads(text), "format": 99}),
    ],
    ids=["another offset", "torn", "empty", "no object", "another format"],
)
def test_a_damaged_file_is_worth_nothing_and_said(
    file: OffsetsFile, tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: Any
) -> None:
    file.write(LocalOffsets({A: 123}, {}))
    path = path_of(tmp_path)
    path.write_text(damage(path.read_text()))
    with caplog.at_level(logging.WARNING):
        assert file.read() is None
    assert "The store is built again" in caplog.text
    assert not path.exists()


@pytest.mark.parametrize(("age", "is_fresh"), [(STALE_SECONDS - 1, True), (STALE_SECONDS, False)])
def test_a_store_that_has_not_read_for_a_day_is_stale(
    file: OffsetsFile, tmp_path: Path, age: float, is_fresh: bool
) -> None:
    file.write(LocalOffsets({A: 5}, {}))
    written = path_of(tmp_path).stat().st_mtime
    assert (file.read(written + age) is not None) is is_fresh

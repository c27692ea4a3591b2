"""The rules of side inputs, and the local checkpoint of a store (side-inputs; rules S1–S5)."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest

from airflow_samza.storage.offsets_file import STALE_SECONDS, LocalOffsets, OffsetsFile

A = ("A", 0)


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

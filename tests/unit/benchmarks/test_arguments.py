"""Folders of benchmarks are made where they are missing, in one place."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import benchmarks
from benchmarks.arguments import made_folder

SOURCES = sorted(Path(benchmarks.__path__[0]).glob("*.py"))


def test_a_folder_that_is_missing_is_made(tmp_path: Path) -> None:
    made = made_folder(str(tmp_path / "a" / "b"))
    assert made.is_dir()
    assert made_folder(str(made)) == made


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_every_benchmark_makes_its_folder_by_that_type(source: Path) -> None:
    declared = re.findall(r'add_argument\("--(?:work|data)",.*', source.read_text())
    assert [line for line in declared if "type=made_folder" not in line] == []

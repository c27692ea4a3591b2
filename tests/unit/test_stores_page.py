"""What docs/stores.md shows is true: its examples are modules with tests, and these pass; its limits are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from airflow_samza.storage.rocksdb import MOST_KEY_BYTES, MOST_VALUE_BYTES
from tests.unit.test_low_level_page import loaded

PAGE = (Path(__file__).parents[2] / "docs" / "stores.md").read_text(encoding="utf-8")
EXAMPLES = dict(re.findall(r"<!-- example: (\S+) -->\n```python\n(.*?)```", PAGE, flags=re.DOTALL))


def test_every_block_of_code_is_an_example() -> None:
    assert len(EXAMPLES) == PAGE.count("```python") == 1


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_tests_pass(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    module = loaded(tmp_path / name, EXAMPLES[name], monkeypatch)
    tests = [function for word, function in vars(module).items() if word.startswith("test_")]
    assert tests
    for test in tests:
        test()


def test_the_limits_are_those_of_the_code() -> None:
    assert f"{MOST_VALUE_BYTES >> 20} MiB, {MOST_KEY_BYTES >> 20} MiB" in PAGE

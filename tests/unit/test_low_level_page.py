"""What docs/low-level.md shows is true: its examples are modules with tests, and these pass."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "low-level.md").read_text(encoding="utf-8")
EXAMPLES = dict(re.findall(r"<!-- example: (\S+) -->\n```python\n(.*?)```", PAGE, flags=re.DOTALL))


def test_every_block_of_code_is_an_example() -> None:
    assert len(EXAMPLES) == PAGE.count("```python") == 3


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_tests_pass(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = loaded(tmp_path / name, EXAMPLES[name], monkeypatch)
    tests = [function for word, function in vars(module).items() if word.startswith("test_")]
    assert tests
    for test in tests:
        test()


def loaded(path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(f"low_level_page_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module

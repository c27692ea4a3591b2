"""What docs/windows.md shows is true: its examples are modules with tests, and these pass."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "windows.md").read_text(encoding="utf-8")
EXAMPLES = dict(re.findall(r"<!-- example: (\S+) -->\n```python\n(.*?)```", PAGE, flags=re.DOTALL))


def test_every_block_of_code_is_an_example() -> None:
    assert len(EXAMPLES) == PAGE.count("```python") == 2


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_tests_pass(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / name
    path.write_text(EXAMPLES[name])
    spec = importlib.util.spec_from_file_location(f"windows_page_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    tests = [function for word, function in vars(module).items() if word.startswith("test_")]
    assert tests
    for test in tests:
        test()


def test_every_aggregation_is_named() -> None:
    from airflow_samza.application.windows import AGGREGATE_FUNCTIONS

    assert all(f"`{function}" in PAGE for function in AGGREGATE_FUNCTIONS)


def test_links_lead_to_files() -> None:
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", PAGE) if "://" not in link]
    assert all((Path(__file__).parents[2] / "docs" / link).exists() for link in links)

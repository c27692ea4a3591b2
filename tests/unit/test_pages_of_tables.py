"""What docs/local-tables.md shows is true: its examples are modules with tests, and these pass. The keys of docs/affinity.md are ours."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from airflow_samza import config

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "local-tables.md").read_text(encoding="utf-8")
EXAMPLES = dict(re.findall(r"<!-- example: (\S+) -->\n```python\n(.*?)```", PAGE, flags=re.DOTALL))


def test_every_block_of_code_is_an_example() -> None:
    assert len(EXAMPLES) == PAGE.count("```python") == 2


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_tests_pass(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / name
    path.write_text(EXAMPLES[name])
    spec = importlib.util.spec_from_file_location(f"tables_page_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    tests = [function for word, function in vars(module).items() if word.startswith("test_")]
    assert tests
    for test in tests:
        test()


def test_the_keys_on_the_page_of_affinity_are_read() -> None:
    named = set(re.findall(r"^\| `([\w.-]+)` \|", (DOCS / "affinity.md").read_text(encoding="utf-8"), flags=re.MULTILINE))
    assert named == {config.HOST_AFFINITY, config.STANDBY_REPLICATION, config.STORE_LOCAL_DIR}

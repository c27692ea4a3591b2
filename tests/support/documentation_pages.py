"""The pages of docs/ and the examples that stand on them."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def text_of(page: str) -> str:
    """Return the text of a page."""
    return (DOCS / page).read_text(encoding="utf-8")


def blocks(page: str) -> list[str]:
    """All Python on a page."""
    return re.findall(r"```python\n(.*?)```", text_of(page), flags=re.DOTALL)


def examples(page: str) -> dict[str, str]:
    """The Python on a page that is named as a module of its own, by file name."""
    return dict(re.findall(r"<!-- example: (\S+) -->\n```python\n(.*?)```", text_of(page), flags=re.DOTALL))


def executed(page: str) -> dict[str, Any]:
    """Return the names that all Python of a page leaves, run block after block as one module."""
    scope: dict[str, Any] = {"__name__": "page"}
    for block in blocks(page):
        exec(compile(block, page, "exec", dont_inherit=True), scope)
    return scope


def loaded(page: str, name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """An example as a module."""
    path = folder / name
    path.write_text(examples(page)[name])
    spec = importlib.util.spec_from_file_location(f"{Path(page).stem}_{path.stem}".replace("-", "_"), path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module

"""Functions that several modules need are written once: only one module uses the library function inside them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import airflow_samza
from tests.support.syntax_trees import parsed

PACKAGE = Path(airflow_samza.__file__).parent


def _importers(library: str) -> list[str]:
    found = []
    for file in sorted(PACKAGE.rglob("*.py")):
        source = file.read_text(encoding="utf-8")
        if library.partition(".")[0] not in source:
            continue
        for node in ast.walk(parsed(source)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            module = node.module if isinstance(node, ast.ImportFrom) else None
            if library in {module, *names, *(f"{module}.{name}" for name in names)}:
                found.append(file.relative_to(PACKAGE).as_posix())
    return found


@pytest.mark.parametrize("library", ["difflib", "graphlib.TopologicalSorter"])
def test_one_module_uses_a_library(library: str) -> None:
    assert len(_importers(library)) == 1, _importers(library)

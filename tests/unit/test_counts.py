"""Limits of the size of the package: growth is a decision, so a commit that adds to it raises a number here."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import airflow_samza
from airflow_samza import errors
from scripts.site.reference import configuration_keys
from tests.support.record_samples import kinds
from tests.support.syntax_trees import parsed

PACKAGE = Path(airflow_samza.__file__).parent
SOURCES = sorted(PACKAGE.rglob("*.py"))

LIMITS = {
    "statements": 70_004,
    "files": 779,
    "files in one folder": 27,
    "kinds of records": 54,
    "error classes": 40,
    "configuration keys": 42,
}
"""Lower a number when the package has become smaller."""


def statements(tree: ast.Module) -> int:
    """Return the number of statements of a module without its docstrings."""
    nodes = list(ast.walk(tree))
    with_docstrings = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = sum(
        ast.get_docstring(node, clean=False) is not None for node in nodes if isinstance(node, with_docstrings)
    )
    return sum(isinstance(node, ast.stmt) for node in nodes) - docstrings


def error_classes() -> Iterator[type]:
    for value in vars(errors).values():
        if isinstance(value, type) and issubclass(value, Exception) and value.__module__ == errors.__name__:
            yield value


@pytest.fixture(scope="module")
def counts() -> dict[str, int]:
    folders = [path.parent for path in SOURCES]
    return {
        "statements": sum(statements(parsed(path.read_text(encoding="utf-8"))) for path in SOURCES),
        "files": len(SOURCES),
        "files in one folder": max(map(folders.count, set(folders))),
        "kinds of records": len(list(kinds())),
        "error classes": len(list(error_classes())),
        "configuration keys": len(list(configuration_keys())),
    }


@pytest.mark.parametrize("name", LIMITS)
def test_the_package_does_not_grow_unnoticed(counts: dict[str, int], name: str) -> None:
    print(f"{name}: {counts[name]:,}")
    assert counts[name] <= LIMITS[name]

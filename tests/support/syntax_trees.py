"""Syntax trees of modules, which many tests of the package's own rules look through."""

from __future__ import annotations

import ast
from functools import cache


@cache
def parsed(source: str) -> ast.Module:
    """Return the syntax tree of a source; of one that a test of the process has had before it is the same tree."""
    return ast.parse(source)

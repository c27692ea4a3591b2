"""Statements of Python code, for tests that look at all of it: most nodes of a tree are parts of expressions."""

from __future__ import annotations

import ast
from collections.abc import Iterator

_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


def below(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements, handlers and cases right below a module, a statement, a handler or a case."""
    for name in _BLOCKS:
        yield from getattr(node, name, ())


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield a module and all statements, handlers and cases in it."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += below(node)

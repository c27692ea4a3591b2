"""The columns that SQL expressions name: all of them, those of which a value is made, and those that only choose it.

Pruning, column lineage and incremental pushes ask it.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from airflow_samza.task.expressions.expression import UnsupportedExpression
from airflow_samza.task.expressions.reading import parsed
from airflow_samza.task.expressions.tree_facts import below


@dataclass(frozen=True)
class ColumnUse:
    """The columns, in lower case, that one select expression uses.

    ``name`` is that of its result ("" where it has none), ``values`` are the columns of which the value is made,
    ``conditions`` those of its ``CASE WHEN`` and ``IF``. ``is_column``: it is one column as it stands.
    """

    name: str
    values: frozenset[str]
    conditions: frozenset[str]
    is_column: bool = False


@functools.lru_cache(maxsize=4096)
def column_use(text: str) -> ColumnUse | None:
    """Return the columns that a select expression uses; None when that is not certain.

    A field of a structure counts as its column.

    >>> use = column_use("CASE WHEN late > 15 THEN fee + 1 ELSE 0 END AS due")
    >>> use.name, sorted(use.values), sorted(use.conditions)
    ('due', ['fee'], ['late'])
    """
    from sqlglot import exp

    tree = tree_of(text)
    if tree is None or tree.find(exp.Star, exp.Subquery, exp.Query) is not None:
        return None
    body = tree.this if isinstance(tree, exp.Alias) else tree
    values: set[str] = set()
    conditions: set[str] = set()
    for node, decides in below(body, False, _decides):
        if isinstance(node, exp.Column):
            (conditions if decides else values).add(node.parts[0].name.lower())
    is_column = isinstance(body, exp.Column) and len(body.parts) == 1
    return ColumnUse(str(tree.alias_or_name), frozenset(values), frozenset(conditions), is_column)


def _decides(node: Any, decides: bool, child: Any) -> bool:
    """Return whether the child of a node decides about its value and is no part of it, or its parent does."""
    from sqlglot import exp

    if isinstance(node, exp.Anonymous) and str(node.this).lower() in ("if", "nvl2"):
        return decides or any(child is first for first in node.expressions[:1])
    return decides or (isinstance(node, exp.If | exp.Case) and child is node.this)


@functools.lru_cache(maxsize=4096)
def columns_named(texts: tuple[str, ...]) -> frozenset[str] | None:
    """The columns that expressions may read, in lower case; None when that is not certain (all columns then)."""
    from sqlglot import exp

    columns: set[str] = set()
    for text in texts:
        tree = tree_of(text)
        if tree is None or tree.find(exp.Star, exp.Subquery, exp.Query) is not None:
            return None
        columns.update(identifier.name.lower() for identifier in tree.find_all(exp.Identifier))
    return frozenset(columns)


def tree_of(text: str) -> Any:
    """The tree of one expression; None when it cannot be read with certainty."""
    try:
        return parsed(text, alone=False)
    except UnsupportedExpression:
        return None

"""The columns that SQL expressions name: for reading less, never for evaluating."""

from __future__ import annotations

import functools
from typing import Any

from airflow_samza.task.expressions.expression import UnsupportedExpression
from airflow_samza.task.expressions.reading import parsed


@functools.lru_cache(maxsize=4096)
def columns_named(texts: tuple[str, ...]) -> frozenset[str] | None:
    """The columns that expressions may read, in lower case; None when that is not certain (all columns then)."""
    from sqlglot import exp

    found: set[str] = set()
    for text in texts:
        tree = tree_of(text)
        if tree is None or tree.find(exp.Star, exp.Subquery, exp.Query) is not None:
            return None
        found.update(identifier.name.lower() for identifier in tree.find_all(exp.Identifier))
    return frozenset(found)


def tree_of(text: str) -> Any:
    """The tree of one expression; None when it cannot be read with certainty."""
    try:
        return parsed(text, alone=False)
    except UnsupportedExpression:
        return None

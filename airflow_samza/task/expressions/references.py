"""Which columns SQL expressions name, and what they say of single columns: for reading less, never for evaluating."""

from __future__ import annotations

import functools
from typing import Any


@functools.lru_cache(maxsize=4096)
def columns_named(texts: tuple[str, ...]) -> frozenset[str] | None:
    """The columns that expressions may read, in lower case; None when that is not certain (all columns then)."""
    from sqlglot import exp

    found: set[str] = set()
    for text in texts:
        tree = parsed(text)
        if tree is None or tree.find(exp.Star, exp.Subquery, exp.Query) is not None:
            return None
        found.update(identifier.name.lower() for identifier in tree.find_all(exp.Identifier))
    return frozenset(found)


@functools.lru_cache(maxsize=4096)
def parsed(text: str) -> Any:
    """The tree of one expression; None when it cannot be read with certainty."""
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    if "\\" in text or ";" in text:  # a backslash may end a string elsewhere than here
        return None
    try:
        statement = sqlglot.parse_one(f"SELECT {text}", read="spark")
    except (SqlglotError, RecursionError):
        return None
    if not isinstance(statement, exp.Select) or len(statement.expressions) != 1:
        return None
    if any(value for name, value in statement.args.items() if name != "expressions"):
        return None
    return statement.expressions[0]

"""LIKE and its kin with a constant pattern; a pattern from a column is left to Catalyst."""

from __future__ import annotations

from functools import partial

import pyarrow.compute as pc

from airflow_samza.task.expressions.expression import (
    BOOLEAN,
    Expression,
    Function,
    UnsupportedExpression,
    applied,
    constant,
    need,
)
from airflow_samza.task.expressions.letter_case import lower, lowered


def like(operand: Expression, pattern: Expression, escape: Expression | None = None) -> Expression:
    """``operand LIKE pattern [ESCAPE escape]``."""
    return _matching(need("LIKE", operand, "string"), constant("LIKE", pattern, "string"), escape)


def ilike(operand: Expression, pattern: Expression, escape: Expression | None = None) -> Expression:
    """``operand ILIKE pattern``: both in small letters."""
    text = lowered(constant("ILIKE", pattern, "string"))
    return _matching(lower(need("ILIKE", operand, "string")), text, escape)


def _matching(operand: Expression, text: str, escape: Expression | None) -> Expression:
    mark = constant("ESCAPE", escape, "string") if escape is not None else ""
    pattern = _read(text, mark)
    return applied(BOOLEAN, [operand], lambda texts: pc.match_like(texts, pattern=pattern))


def _read(pattern: str, escape: str) -> str:
    """Return a pattern as Arrow takes it, whose escape is the backslash, which no SQL has that is read here.

    After an escape only a wildcard or another escape may come.
    """
    read = ""
    characters = iter(pattern)
    for character in characters:
        if character != escape:
            read += character
            continue
        escaped = next(characters, "")
        if not escaped:
            raise UnsupportedExpression(f"the pattern {pattern!r} ends with its escape")
        if escaped not in ("_", "%", escape):
            raise UnsupportedExpression(f"the pattern {pattern!r} escapes {escaped!r}")
        read += f"\\{escaped}" if escaped in ("_", "%") else escaped
    return read


def with_part(name: str, kernel: str, operand: Expression, part: Expression) -> Expression:
    """``startswith(operand, part)``, ``endswith`` and ``contains``."""
    text = constant(name, part, "string")
    options = pc.MatchSubstringOptions(text)
    return applied(BOOLEAN, [need(name, operand, "string")], lambda texts: pc.call_function(kernel, [texts], options))


FUNCTIONS = {
    "like": Function(like, 2, 2),
    "ilike": Function(ilike, 2, 2),
    "startswith": Function(partial(with_part, "startswith", "starts_with"), 2, 2),
    "endswith": Function(partial(with_part, "endswith", "ends_with"), 2, 2),
    "contains": Function(partial(with_part, "contains", "match_substring"), 2, 2),
}

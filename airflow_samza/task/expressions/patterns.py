"""LIKE and its kin with a constant pattern; a pattern from a column is left to Catalyst."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
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

_ONE, _MANY = object(), object()
"""Tokens for ``_`` and ``%`` in a pattern that was read."""

Test = Callable[[Any], Any]


def like(operand: Expression, pattern: Expression, escape: Expression | None = None) -> Expression:
    """``operand LIKE pattern [ESCAPE escape]``."""
    text = constant("LIKE", pattern, "string")
    mark = constant("ESCAPE", escape, "string") if escape is not None else "\\"
    return applied(BOOLEAN, [need("LIKE", operand, "string")], _test(_read(text, mark)))


def ilike(operand: Expression, pattern: Expression, escape: Expression | None = None) -> Expression:
    """``operand ILIKE pattern``: both in small letters."""
    text = lowered(constant("ILIKE", pattern, "string"))
    mark = constant("ESCAPE", escape, "string") if escape is not None else "\\"
    return applied(BOOLEAN, [lower(need("ILIKE", operand, "string"))], _test(_read(text, mark)))


def _read(pattern: str, escape: str) -> list[Any]:
    """The pattern as texts and wildcards; after an escape only a wildcard or another escape may come."""
    parts: list[Any] = []
    escaped = False
    for character in pattern:
        if escaped and character not in ("_", "%", escape):
            raise UnsupportedExpression(f"the pattern {pattern!r} escapes {character!r}")
        part: Any = character
        if not escaped:
            if character == escape:
                escaped = True
                continue
            part = {"_": _ONE, "%": _MANY}.get(character, character)
        escaped = False
        if isinstance(part, str) and parts and isinstance(parts[-1], str):
            parts[-1] += part
        elif not (part is _MANY and parts and parts[-1] is _MANY):
            parts.append(part)
    if escaped:
        raise UnsupportedExpression(f"the pattern {pattern!r} ends with its escape")
    return parts


def _test(parts: list[Any]) -> Test:
    shape = ["text" if isinstance(part, str) else part for part in parts]
    if not parts:
        return lambda texts: pc.equal(texts, "")
    if shape == ["text"]:
        return lambda texts: pc.equal(texts, parts[0])
    if shape == [_MANY]:
        return lambda texts: pc.if_else(texts.is_valid(), True, pa.scalar(None, pa.bool_()))
    if shape == ["text", _MANY]:
        return lambda texts: pc.starts_with(texts, pattern=parts[0])
    if shape == [_MANY, "text"]:
        return lambda texts: pc.ends_with(texts, pattern=parts[1])
    if shape == [_MANY, "text", _MANY]:
        return lambda texts: pc.match_substring(texts, pattern=parts[1])
    pattern = (
        r"(?s)\A"
        + "".join(_quoted(part) if isinstance(part, str) else "." if part is _ONE else ".*" for part in parts)
        + r"\z"
    )
    return lambda texts: pc.match_substring_regex(texts, pattern=pattern)


def _quoted(text: str) -> str:
    return "".join(f"\\x{{{ord(character):x}}}" for character in text)


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

"""The columns that Catalyst tests for null before it evaluates a filter's conditions."""

from __future__ import annotations

from typing import Any

_NULL_IN_NULL_OUT = (
    *(
        "EQ",
        "NEQ",
        "LT",
        "LTE",
        "GT",
        "GTE",
        "Add",
        "Sub",
        "Mul",
        "Div",
        "Mod",
        "IntDiv",
        "Neg",
        "Not",
        "Paren",
        "Cast",
        "TryCast",
    ),
)
_NULL_IN_VALUE_OUT = ("NullSafeEQ", "NullSafeNEQ", "Is", "And", "Or", "Case", "If", "In")


def columns_of(node: Any) -> set[str]:
    """The columns that a node names, in lower case; of a field, the column it is in."""
    from sqlglot import exp

    return {str(column.parts[0].name).lower() for column in node.find_all(exp.Column)}


def tested_for_null(nodes: list[Any]) -> tuple[set[str], set[str]]:
    """Return the columns that Catalyst tests for null before a filter's conditions, and those that it may test."""
    sure: set[str] = set()
    unknown: set[str] = set()
    waiting = [(node, True) for node in nodes]
    while waiting:  # without recursion: a sum may have thousands of terms
        node, certain = waiting.pop()
        kind = type(node).__name__
        if kind == "Column":
            (sure if certain and len(node.parts) == 1 else unknown).add(str(node.parts[0].name).lower())
            continue
        if kind == "Not" and type(node.this).__name__ == "Is":
            kind, node = "NotNull", node.this
        elif kind in _NULL_IN_VALUE_OUT:
            continue
        certain = certain and (kind == "NotNull" or kind in _NULL_IN_NULL_OUT)
        waiting += [(child, certain) for child in node.iter_expressions()]
    return sure, unknown - sure

"""Rejection of what Catalyst's optimizer may move, merge or drop.

Where that decides whether a row fails, the expression is left to Catalyst. Only expressions that can fail are
concerned: one that has a value on every row has the same value in any order (decision 111).
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa

from airflow_samza.schema import DataType
from airflow_samza.task.expressions.coercion import widest
from airflow_samza.task.expressions.expression import (
    BOOLEAN,
    DECIDED_AHEAD,
    REPEATED,
    EvaluationFailure,
    Expression,
    Frame,
    UnsupportedExpression,
    literal,
)
from airflow_samza.task.expressions.tree_facts import COMPARISONS, TreeFacts, Words, bare, below

_CONDITIONAL = ("Case", "If")
_NULL_TAKING = ("Case", "If", "And", "Or", "Paren")
_CHOOSING_FUNCTIONS = {"nullif": (2, (0,)), "right": (1, (0,))}
"""Functions that are an IF inside: how many arguments are its condition, and which are its values."""


class Guard:
    """Looks at every node that was compiled, inner ones first, and rejects what Catalyst may evaluate otherwise."""

    def __init__(self) -> None:
        self.facts = TreeFacts()
        self._expressions: dict[int, Expression] = {}
        self._foldable: set[int] = set()
        """Choices under conditions that can fail, whose values are constants but for one.

        Catalyst moves operations into them.
        """

        self._decided: set[int] = set()
        """Comparisons of a widened value with a constant: Catalyst may know their outcome."""

    def passed(self, node: Any, expression: Expression, *, inner: bool = False) -> None:
        """Remember what a node became; raises :class:`UnsupportedExpression`.

        ``inner``: the node is an AND or OR whose parent is another, so that what is said of all conditions is said of
        the outermost.
        """
        self._expressions[id(node)] = expression
        kind = type(node).__name__
        if kind in (*COMPARISONS, "In", "Between") or (kind == "Anonymous" and node.name.lower() == "nullif"):
            self._look_at_widened(node)
        if kind == "Is" and not self._expressions[id(node.this)].nullable:
            self._decided.add(id(node))
        self._reject_equal(node)
        if not expression.fallible or kind == "Paren":
            return
        if kind not in _NULL_TAKING and any(self._is_null(part) for part in node.iter_expressions()):
            raise UnsupportedExpression("a NULL stands beside a value that can fail, which Catalyst may drop")
        if any(id(bare(part)) in self._foldable for part in node.iter_expressions()):
            raise UnsupportedExpression(
                "a choice among constants is an operand, into which Catalyst may move the operation"
            )
        if kind in ("And", "Or") and not inner:
            self.reject_decided([node])
            if self.facts.repeats(node):
                raise UnsupportedExpression(REPEATED)
        if kind in ("Add", "Mul") and expression.type.is_integer:
            self._reject_reordered(node)
        self._look_at_choice(node)

    def _look_at_widened(self, node: Any) -> None:
        """Catalyst compares a value before its cast where the other side is constant, and knows that 3.5 is no int."""
        sides = [bare(part) for part in node.iter_expressions()]
        if not any(self._is_constant(side) for side in sides):
            return
        kind = _widest([self._expressions[id(side)].type for side in sides if id(side) in self._expressions])
        for side in sides:
            inner = bare(side.this) if type(side).__name__ in ("Cast", "TryCast") else side
            expression = self._expressions.get(id(inner))
            if (
                expression is None
                or self._is_constant(inner)
                or expression.type.name == "string"
                or (inner is side and expression.type == kind)
            ):
                continue
            self._decided.add(id(node))
            if expression.fallible:
                raise UnsupportedExpression(
                    "a value that can fail is widened to be compared with a constant, which Catalyst may simplify"
                )

    def reject_decided(self, nodes: list[Any]) -> None:
        """Reject conditions beside one that can fail if Catalyst may find out that one of them is always false."""
        for node in nodes:
            for part in node.walk():
                expression = self._expressions.get(id(part))
                constant = expression is not None and expression.type == BOOLEAN and self._is_constant(part)
                if constant or id(part) in self._decided:
                    raise UnsupportedExpression(DECIDED_AHEAD)

    def _look_at_choice(self, node: Any) -> None:
        kind = type(node).__name__
        if kind in _CONDITIONAL:
            branches = node.args["ifs"] if kind == "Case" else [node]
            conditions = [branch.this for branch in branches]
            values = [branch.args["true"] for branch in branches]
            otherwise = node.args.get("default" if kind == "Case" else "false")
            values += [otherwise] if otherwise is not None else []
            words = [self._value_words(value) for value in values]
            if any(self._fails(condition) for condition in conditions) and len(set(words)) < len(words):
                raise UnsupportedExpression(
                    "a choice under a condition that can fail gives a value twice, so that Catalyst may drop it"
                )
        elif kind == "Anonymous" and node.name.lower() in _CHOOSING_FUNCTIONS:
            count, places = _CHOOSING_FUNCTIONS[node.name.lower()]
            conditions, values = node.expressions[:count], [node.expressions[place] for place in places]
        else:
            return
        if (
            any(self._fails(condition) for condition in conditions)
            and sum(not self._is_constant(value) for value in values) <= 1
        ):
            self._foldable.add(id(node))

    def _is_null(self, node: Any) -> bool:
        expression = self._expressions.get(id(bare(node)))
        return expression is not None and expression.literal and expression.value is None

    def _is_constant(self, node: Any) -> bool:
        """Return whether Catalyst knows the value.

        There is no column in it, or only where it does not count, as in coalesce(1, x).
        """
        expression = self._expressions.get(id(bare(node)))
        return self.facts.is_constant(node) or (
            expression is not None and (expression.literal or expression.value is not None)
        )

    def _value_words(self, node: Any) -> tuple[str, str] | Words:
        expression = self._expressions.get(id(bare(node)))
        is_constant = expression is not None and (expression.literal or expression.value is not None)
        return ("value", str(expression.value)) if expression is not None and is_constant else self.facts.words(node)

    def _fails(self, node: Any) -> bool:
        expression = self._expressions.get(id(node))
        return expression is None or expression.fallible

    def reject_evaluated_early(self, nodes: list[Any]) -> None:
        """Reject what stands twice: Catalyst evaluates it first, also on rows that AND or OR would have spared."""
        seen: Counter[Words] = Counter()
        guarded: dict[Words, list[bool]] = {}
        for node in nodes:
            for part, is_guarded in below(node, False, _is_guarded):
                expression = self._expressions.get(id(part))
                if expression is None or not expression.fallible or type(part).__name__ in ("Paren", "Column"):
                    continue
                words = self.facts.words(part)
                seen[words] += 2 if type(part.parent).__name__ == "Between" and part.arg_key == "this" else 1
                guarded.setdefault(words, []).append(is_guarded)
        if any(count > 1 and all(guarded[words]) for words, count in seen.items()):
            raise UnsupportedExpression(
                "a value that can fail stands twice behind a condition, and Catalyst evaluates it before"
            )

    def _reject_equal(self, node: Any) -> None:
        kind = type(node).__name__
        sides = [node.this, node.expression] if kind in COMPARISONS else []
        if kind == "Anonymous" and node.name.lower() == "nullif":
            sides = node.expressions
        if len(sides) == 2 and self.facts.words(sides[0]) == self.facts.words(sides[1]):
            raise UnsupportedExpression("a value is compared with itself, which Catalyst may decide ahead")

    def _reject_reordered(self, node: Any) -> None:
        """Reject sums (or products) of integers whose constants Catalyst puts last and adds up."""
        count, constant = self.facts.operands(node)
        nested = isinstance(bare(node.expression), type(node))
        if count > 2 and constant is not None and (nested or constant < count - 1):
            raise UnsupportedExpression(
                "integers are added or multiplied with a constant before the last, which Catalyst reorders"
            )


def _widest(kinds: list[DataType]) -> DataType | None:
    try:
        return widest(kind for kind in kinds if kind.name != "string")
    except UnsupportedExpression:
        return None


def _is_guarded(node: Any, guarded: bool, child: Any) -> bool:
    """Return whether a condition before the child of a node decides if it is evaluated."""
    kind = type(node).__name__
    return (
        guarded
        or kind in _CONDITIONAL
        or (kind in ("And", "Or") and child is node.expression)
        or (kind == "Anonymous" and child is not next(node.iter_expressions()))
    )


def folded(constant: Expression) -> Expression:
    """A constant, evaluated now; raises :class:`UnsupportedExpression` if it fails."""
    try:
        value = constant.array(Frame([], 1))[0]
    except EvaluationFailure as failure:
        raise UnsupportedExpression(f"a constant fails with {failure.condition}") from None
    if constant.type == BOOLEAN or not value.is_valid:
        return literal(value.as_py(), constant.type)
    return Expression(
        constant.type, not value.is_valid, False, lambda frame: pa.repeat(value, frame.num_rows), value=constant.value
    )

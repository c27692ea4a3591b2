"""Facts of the nodes of syntax trees, each found once: whether it is constant, and the words in it.

No function here recurses: a tree may be deeper than Python's stack.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from typing import Any

COMPARISONS = ("EQ", "NEQ", "LT", "LTE", "GT", "GTE", "NullSafeEQ", "NullSafeNEQ")
_UNTOLD = (*COMPARISONS, "Not", "Paren", "Identifier")
_MASK = (1 << 64) - 1

Words = tuple[int, int, int]
"""A bag of words in short: how many they are, and two sums of their hashes.

Bags that differ have other sums, as good as always.
"""


def bare(node: Any) -> Any:
    """A node without parentheses around it."""
    while type(node).__name__ == "Paren":
        node = node.this
    return node


def below(node: Any, told: bool, tell: Callable[[Any, bool, Any], bool]) -> Iterator[tuple[Any, bool]]:
    """Yield a node and all nodes below it, in the order of the text, each with a fact that follows from its parent's.

    ``tell`` returns the fact of a child from the parent, the parent's fact and the child; ``told`` is that of the node.
    """
    waiting = [(node, told)]
    while waiting:
        parent, known = waiting.pop()
        yield parent, known
        waiting += [(child, tell(parent, known, child)) for child in reversed(list(parent.iter_expressions()))]


def atoms(*nodes: Any) -> list[Any]:
    """The conditions that AND, OR, NOT and parentheses join, in order."""
    waiting, conditions = list(reversed(nodes)), []
    while waiting:
        node = waiting.pop()
        kind = type(node).__name__
        if kind in ("And", "Or"):
            waiting += [node.expression, node.this]
        elif kind in ("Not", "Paren"):
            waiting.append(node.this)
        else:
            conditions.append(node)
    return conditions


class TreeFacts:
    """The facts of nodes, by identity; a node must not change after it was asked for."""

    def __init__(self) -> None:
        self._facts_by_id: dict[int, tuple[Any, bool, Words]] = {}  # with the node, so that its id is given to no other
        self._operands: dict[int, tuple[int, int | None]] = {}

    def is_constant(self, node: Any) -> bool:
        """Return whether a node reads no column, so that Catalyst evaluates it before the first row."""
        return self._facts(node)[1]

    def words(self, node: Any) -> Words:
        """Return what two nodes have in common when Catalyst may take them for equal.

        Their words in any order, comparisons turned around.
        """
        return self._facts(node)[2]

    def repeats(self, *nodes: Any) -> bool:
        """Return whether a condition stands twice among those of some trees, which Catalyst then simplifies."""
        words = [self.words(atom) for atom in atoms(*nodes)]
        return len(set(words)) < len(words)

    def operands(self, node: Any) -> tuple[int, int | None]:
        """Return the number of operands of a sum or product with those inside it, and the first constant's place."""
        for top in _inner_first(node, _same_inside, self._operands):
            count, first = 0, None
            for side in (bare(top.this), bare(top.expression)):
                more, constant = 1, 0 if self.is_constant(side) else None
                if type(side) is type(top):
                    more, constant = self._operands[id(side)]
                if first is None and constant is not None:
                    first = count + constant
                count += more
            self._operands[id(top)] = (count, first)
        return self._operands[id(node)]

    def _facts(self, node: Any) -> tuple[Any, bool, Words]:
        for top in _inner_first(node, lambda top: top.iter_expressions(), self._facts_by_id):
            constant = type(top).__name__ != "Column"
            number, one, other = _own_words(top)
            for child in top.iter_expressions():
                _, child_constant, words = self._facts_by_id[id(child)]
                constant = constant and child_constant
                number, one, other = number + words[0], (one + words[1]) & _MASK, (other + words[2]) & _MASK
            self._facts_by_id[id(top)] = (top, constant, (number, one, other))
        return self._facts_by_id[id(node)]


def _same_inside(node: Any) -> list[Any]:
    return [side for side in (bare(node.this), bare(node.expression)) if type(side) is type(node)]


def _inner_first(node: Any, inside: Callable[[Any], Iterable[Any]], known: Container[int]) -> Iterator[Any]:
    """Yield a node and what is inside of it, inner nodes first, as far as their ids are not known by then."""
    waiting = [] if id(node) in known else [node]
    while waiting:
        unknown = [inner for inner in inside(waiting[-1]) if id(inner) not in known]
        if unknown:
            waiting += unknown
        else:
            yield waiting.pop()


def _own_words(node: Any) -> Words:
    kind = type(node).__name__
    if kind == "Column":
        word = f"column {node.sql().lower()}"
    elif kind == "Null" or (kind == "Boolean" and not node.this):
        word = "no"  # as a condition both are
    elif kind in ("Literal", "Boolean", "DataType", "Anonymous", "Var"):
        word = f"{kind} {str(node.this).lower()}"
    elif kind in _UNTOLD:
        return 0, 0, 0
    else:
        word = kind
    return 1, hash(word) & _MASK, hash((word, 1)) & _MASK

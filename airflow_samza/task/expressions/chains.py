"""Long chains of operators (``a + b + c …``, ``a OR b OR c …``), evaluated link after link.

Nested calls would outgrow Python's stack.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from airflow_samza.task.expressions.expression import Expression, Frame, UnsupportedExpression

NESTED_LINKS = 30
"""Links of a chain that are nested calls; what is longer goes link after link."""


class _Carrying(Frame):
    """A frame with the value of the chain so far."""

    __slots__ = ("base", "carried")

    def __init__(self, base: Frame, carried: Any) -> None:
        self.base = base
        self.carried = carried
        self.num_rows = base.num_rows

    def column(self, place: int) -> Any:
        """See :class:`Frame`."""
        return self.base.column(place)

    def where(self, mask: Any, count: int) -> Frame:
        """See :class:`Frame`; without the value, which stands for all rows."""
        return self.base.where(mask, count)


class Chain:
    """One chain while it is compiled: what it gave so far, and its links behind the nested ones."""

    def __init__(self) -> None:
        self._nested = 0
        self._first: Expression | None = None
        self._links: list[Callable[[Frame], Any]] = []

    def link(self, so_far: Expression, build: Callable[[Expression], Expression]) -> Expression:
        """Return the chain with one more link, which ``build`` makes of its left operand.

        It is evaluated on the very frame that it is given.
        """
        if so_far.literal or so_far.value is not None or self._nested < NESTED_LINKS:
            self._nested += 1
            return build(so_far)
        if self._first is None:
            self._first = so_far
        link = build(replace(so_far, run=_carried, place=None))
        if so_far.type.is_integer and link.type.name == "date":  # Spark looks at the date first
            raise UnsupportedExpression("a date stands behind a long sum of numbers")
        self._links.append(link.run)
        return replace(link, run=self._upto(len(self._links)))

    def _upto(self, count: int) -> Callable[[Frame], Any]:
        assert self._first is not None
        first, links = self._first, self._links

        def run(frame: Frame) -> Any:
            value = first.run(frame)
            for link in links[:count]:
                value = link(_Carrying(frame, value))
            return value

        return run


def _carried(frame: Frame) -> Any:
    if not isinstance(frame, _Carrying):
        raise AssertionError("a link of a chain looks at other rows than the chain")
    return frame.carried

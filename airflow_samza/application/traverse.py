"""The one walk over a graph (planner-with-tables, "Unifying Graph Traversal"; rule P1)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

Vertex = TypeVar("Vertex", bound=Hashable)


def traverse(
    vertex: Vertex, visit: Callable[[Vertex], object], next_vertices: Callable[[Vertex], Iterable[Vertex]]
) -> None:
    """Visit ``vertex`` and everything that can be reached from it, each vertex once, parents before children.

    Children are visited depth first, in the order in which ``next_vertices`` names them, so a walk is as deterministic
    as that function. Cycles end. The walk keeps its own stack: a chain may be longer than Python's recursion limit.
    ``next_vertices`` is called once per vertex, after its visit.

    >>> graph = {"input": ["filter", "join"], "filter": ["join"], "join": ["filter"]}
    >>> traverse("input", print, graph.__getitem__)
    input
    filter
    join
    """
    visit(vertex)
    seen = {vertex}
    path = [iter(next_vertices(vertex))]
    while path:
        for following in path[-1]:
            if following not in seen:
                seen.add(following)
                visit(following)
                path.append(iter(next_vertices(following)))
                break
        else:
            path.pop()

"""Walks and orders of small directed graphs, the same however a graph was written down.

The planner cuts stages by it, and the program of a stage orders its phases.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from graphlib import TopologicalSorter
from typing import TypeVar


def upstream_first(before: Mapping[str, Collection[str]]) -> list[str]:
    """Return the vertices, each after all that stand ``before`` it, ties by name.

    Raises:
        graphlib.CycleError: Vertices wait for each other; its second argument lists a circle of them.

    >>> upstream_first({"c": ["b"], "a": [], "b": []})
    ['a', 'b', 'c']
    """
    sorter = TopologicalSorter(before)
    sorter.prepare()
    ready: list[str] = []
    ordered: list[str] = []
    while sorter.is_active():
        for vertex in sorter.get_ready():
            heapq.heappush(ready, vertex)
        ordered.append(heapq.heappop(ready))
        sorter.done(ordered[-1])
    return ordered


def strong_components(vertices: Sequence[str], following: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """The strongly connected components, each one after all that it leads to (reverse topological order). Linear.

    >>> strong_components(["a", "b", "c"], {"a": ["b"], "b": ["c"], "c": ["b"]})
    [['b', 'c'], ['a']]
    """
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    on_stack: set[str] = set()
    stack: list[str] = []
    components: list[list[str]] = []
    for root in vertices:
        if root in number:
            continue
        work = [(root, iter(following.get(root, ())))]
        number[root] = lowest[root] = len(number)
        stack.append(root)
        on_stack.add(root)
        while work:
            vertex, rest = work[-1]
            for other in rest:
                if other not in number:
                    number[other] = lowest[other] = len(number)
                    stack.append(other)
                    on_stack.add(other)
                    work.append((other, iter(following.get(other, ()))))
                    break
                if other in on_stack:
                    lowest[vertex] = min(lowest[vertex], number[other])
            else:
                work.pop()
                if work:
                    above = work[-1][0]
                    lowest[above] = min(lowest[above], lowest[vertex])
                if lowest[vertex] == number[vertex]:
                    component = []
                    while True:
                        member = stack.pop()
                        on_stack.discard(member)
                        component.append(member)
                        if member == vertex:
                            break
                    components.append(sorted(component))
    return components


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


def reached(starts: Iterable[Vertex], next_vertices: Callable[[Vertex], Iterable[Vertex]]) -> set[Vertex]:
    """Return ``starts`` and everything that can be reached from them.

    >>> graph = {"input": ["filter", "join"], "filter": ["join"], "join": ["filter"], "output": []}
    >>> sorted(reached(["input"], graph.__getitem__))
    ['filter', 'input', 'join']
    """
    found: set[Vertex] = set()
    for start in starts:
        traverse(start, found.add, lambda vertex: (other for other in next_vertices(vertex) if other not in found))
    return found

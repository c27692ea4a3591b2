"""Walks and orders of small directed graphs, the same however a graph was written down.

The planner cuts stages by it, and the program of a stage orders its phases.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from graphlib import TopologicalSorter
from typing import TypeVar

from airflow_samza.grouping import grouped


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


Vertex = TypeVar("Vertex", bound=Hashable)
Name = TypeVar("Name", str, int)


def traverse(
    vertex: Vertex,
    visit: Callable[[Vertex], object],
    next_vertices: Callable[[Vertex], Iterable[Vertex]],
    leave: Callable[[Vertex], object] | None = None,
) -> None:
    """Visit ``vertex`` and everything that can be reached from it, each vertex once, parents before children.

    Children are visited depth first, in the order in which ``next_vertices`` names them, so a walk is as deterministic
    as that function. Cycles end. The walk keeps its own stack: a chain may be longer than Python's recursion limit.
    ``next_vertices`` is called once per vertex, after its visit, and ``leave`` after its children.

    >>> graph = {"input": ["filter", "join"], "filter": ["join"], "join": ["filter"]}
    >>> traverse("input", print, graph.__getitem__)
    input
    filter
    join
    """
    visit(vertex)
    seen = {vertex}
    path = [(vertex, iter(next_vertices(vertex)))]
    while path:
        parent, children = path[-1]
        for following in children:
            if following not in seen:
                seen.add(following)
                visit(following)
                path.append((following, iter(next_vertices(following))))
                break
        else:
            path.pop()
            if leave is not None:
                leave(parent)


def reached(starts: Iterable[Vertex], next_vertices: Callable[[Vertex], Iterable[Vertex]]) -> set[Vertex]:
    """Return ``starts`` and everything that can be reached from them.

    >>> graph = {"input": ["filter", "join"], "filter": ["join"], "join": ["filter"], "output": []}
    >>> sorted(reached(["input"], graph.__getitem__))
    ['filter', 'input', 'join']
    """
    found: set[Vertex] = set()
    for start in starts:
        traverse(start, found.add, lambda vertex: _without(found, next_vertices(vertex)))
    return found


def strong_components(vertices: Sequence[Name], following: Mapping[Name, Sequence[Name]]) -> list[list[Name]]:
    """The strongly connected components, each one after all that it leads to (reverse topological order). Linear.

    >>> strong_components(["a", "b", "c"], {"a": ["b"], "b": ["c"], "c": ["b"]})
    [['b', 'c'], ['a']]
    """
    before = grouped((other, vertex) for vertex, others in following.items() for other in others)
    seen: set[Name] = set()
    finished: list[Name] = []
    for start in vertices:
        if start not in seen:
            traverse(start, seen.add, lambda vertex: _without(seen, following.get(vertex, ())), finished.append)
    # Of the vertex that was left last: what leads to it, and is in no component yet, is its component.
    taken: set[Name] = set()
    components = []
    for vertex in reversed(finished):
        if vertex not in taken:
            component = reached([vertex], lambda vertex: _without(taken, before.get(vertex, ())))
            taken.update(component)
            components.append(sorted(component))
    return components[::-1]


def _without(seen: set[Vertex], vertices: Iterable[Vertex]) -> Iterable[Vertex]:
    return (vertex for vertex in vertices if vertex not in seen)

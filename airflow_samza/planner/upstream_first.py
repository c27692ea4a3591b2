"""The topological order of a small directed graph, the same however the graph was written down."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping
from graphlib import TopologicalSorter


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

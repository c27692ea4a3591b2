"""Strongly connected components of a small directed graph, without recursion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


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

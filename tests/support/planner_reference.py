"""A small model of rules P2, P4 and P11 over streams of one key, written from the rules and from nothing else.

A drawn graph is a list of nodes in the order in which they are made; each names the nodes before it. The model answers
two questions by
brute force: which streams reach a join, and whether the rows of one key may lie apart there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

KEYED, UNKEYED, UNKNOWN, BROADCAST = "keyed", "unkeyed", "unknown", "broadcast"
STREAMS = ("input", "pushed", "partition_by", "broadcast")
"""The kinds of nodes that are streams, in which a walk begins anew."""


@dataclass(frozen=True)
class Node:
    """One call of the API.

    ``kind`` is input, pushed (the stream that fills a table), merge, map, partition_by, broadcast, write (to a table),
    look_up or join. ``count`` and ``keyed`` are of inputs and pushed streams; ``table`` is a table's id, which begins
    with ``remote`` if it is a remote one.
    """

    name: str
    kind: str
    sources: tuple[str, ...] = ()
    count: int = 0
    keyed: bool = True
    table: str = ""


@dataclass(frozen=True)
class Verdict:
    """Contents of a plan: the streams of each join's group, and the rules by which joins are rejected, by join."""

    groups: Mapping[str, frozenset[str]]
    rejected: Mapping[str, frozenset[str]]


def judge(nodes: list[Node], fallback: int) -> Verdict:
    """The groups and rejections of an application; ``fallback`` is what a re-partition has that no join decides."""
    by_name = {node.name: node for node in nodes}
    streams = [node for node in nodes if node.kind in STREAMS]
    joins = [
        node
        for node in nodes
        if node.kind == "join" or (node.kind == "look_up" and not node.table.startswith("remote"))
    ]
    groups = {join.name: frozenset(s.name for s in streams if _reaches(nodes, s, join)) for join in joins}
    counts = {s.name: 1 if s.kind == "broadcast" else s.count for s in streams if s.kind != "partition_by"}
    changed = True
    while changed:
        changed = False
        for group in groups.values():
            known = [name for name in group if name in counts]
            # Inputs lead, then by name: where a group disagrees it is rejected whatever the unknown ones take.
            known.sort(key=lambda name: (by_name[name].kind not in ("input", "pushed"), name))
            for name in group - set(counts) if known else ():
                counts[name] = counts[known[0]]
                changed = True
    for stream in streams:
        counts.setdefault(stream.name, fallback)
    rejected: dict[str, set[str]] = {}
    for join in joins:
        if len({counts[name] for name in groups[join.name]}) > 1:
            rejected.setdefault(join.name, set()).add("partition-mismatch")
        sides = [_lies(nodes, by_name[source], counts) for source in join.sources]
        if join.kind == "look_up":
            written = [
                _lies(nodes, by_name[w.sources[0]], counts)
                for w in nodes
                if w.kind == "write" and w.table == join.table
            ]
            written += [(KEYED, node.count) for node in nodes if node.kind == "pushed" and node.table == join.table]
            written = [side for side in written if side[0] != BROADCAST]
            if not written:
                continue  # every task holds the whole table
            sides += written
        if any(count != 1 for _, count in sides) and any(kind == UNKEYED for kind, _ in sides):
            rejected.setdefault(join.name, set()).add("partitioning-mismatch")
    return Verdict(groups, {name: frozenset(rules) for name, rules in rejected.items()})


def _reaches(nodes: list[Node], stream: Node, join: Node) -> bool:
    """Rules P1, P2: over outputs, and over local tables unless the stream is broadcast; a re-partition starts anew."""
    if stream.kind == "pushed":
        return join.kind == "look_up" and join.table == stream.table
    reached = {stream.name}
    changed = True
    while changed:
        changed = False
        tables = {
            n.table for n in nodes if n.kind == "write" and n.name in reached and not n.table.startswith("remote")
        }
        for node in nodes:
            if node.name in reached or node.kind in STREAMS:
                continue
            over_table = node.kind == "look_up" and node.table in tables and stream.kind != "broadcast"
            if over_table or reached & set(node.sources):
                reached.add(node.name)
                changed = True
    return join.name in reached


def _lies(nodes: list[Node], node: Node, counts: Mapping[str, int]) -> tuple[str, int]:
    """Return the partitioning of a node's messages, and the number of partitions (0: several numbers of them)."""
    by_name = {other.name: other for other in nodes}
    if node.kind == "input":
        return (KEYED if node.keyed else UNKEYED), counts[node.name]
    if node.kind == "partition_by":
        return KEYED, counts[node.name]
    if _same_in_every_task(nodes, node):
        return BROADCAST, 1
    sides = [_lies(nodes, by_name[source], counts) for source in node.sources]
    kinds, numbers = {kind for kind, _ in sides}, {count for _, count in sides}
    if node.kind == "merge":
        kind = UNKNOWN if UNKNOWN in kinds and UNKEYED not in kinds else UNKEYED
        return (sides[0][0] if len(kinds) == 1 else kind), (numbers.pop() if len(numbers) == 1 else 0)
    if node.kind == "join":
        return (KEYED if KEYED in kinds else UNKNOWN), max(numbers)
    return (UNKEYED, 1) if sides[0][0] == BROADCAST else sides[0]  # looked up in a table that differs: task 0 alone


def _same_in_every_task(nodes: list[Node], node: Node) -> bool:
    """Return True if all that a node is made of is broadcast, local tables included."""
    by_name = {other.name: other for other in nodes}
    seen, waiting = set(), [node]
    while waiting:
        current = waiting.pop()
        if current.name in seen:
            continue
        seen.add(current.name)
        if current.kind in ("input", "pushed", "partition_by"):
            return False
        if current.kind != "broadcast":
            waiting += [by_name[source] for source in current.sources]
        if current.kind == "look_up" and not current.table.startswith("remote"):
            waiting += [other for other in nodes if other.kind in ("write", "pushed") and other.table == current.table]
    return True

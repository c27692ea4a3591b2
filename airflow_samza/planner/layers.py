"""A small layered layout: columns by longest path, few crossings by medians, no box over another. Pure geometry."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from airflow_samza.planner.graphs import upstream_first

COLUMN_GAP = 64
ROW_GAP = 18
_SWEEPS = 8


@dataclass(frozen=True)
class Box:
    """A placed node: left, top, width, height, in pixels."""

    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        """The height of the node's middle."""
        return self.y + self.height / 2


@dataclass(frozen=True)
class Layout:
    """The places of boxes and edges; ``routes`` hold the points between which an edge bends, its ends among them."""

    boxes: Mapping[str, Box]
    routes: Mapping[tuple[str, str], tuple[tuple[float, float], ...]]
    width: float
    height: float


def lay_out(sizes: Mapping[str, tuple[float, float]], edges: Iterable[tuple[str, str]]) -> Layout:
    """Place nodes of the given sizes; ``edges`` must have no circle. The same input gives the same layout."""
    forward = sorted(set(edges))
    columns = _columns(sizes, forward)
    extended = dict(sizes)
    chains: dict[tuple[str, str], list[str]] = {}
    links: list[tuple[str, str]] = []
    for one, other in forward:
        # A long edge gets a place in every column that it crosses, so that it runs between boxes and not behind them.
        chain = [one, *(f"\0{one}\0{other}\0{column}" for column in range(columns[one] + 1, columns[other])), other]
        for column, name in enumerate(chain[1:-1], columns[one] + 1):
            columns[name] = column
            extended[name] = (0, 6)
        chains[one, other] = chain
        links += list(itertools.pairwise(chain))
    rows = _ordered_columns(columns, links)
    boxes = _placed(rows, extended, links)
    routes = {
        edge: tuple(_point(boxes[name], start=place == 0) for place, name in enumerate(chain))
        for edge, chain in chains.items()
    }
    width = max((box.x + box.width for box in boxes.values()), default=0)
    height = max((box.y + box.height for box in boxes.values()), default=0)
    return Layout({name: boxes[name] for name in sizes}, routes, width, height)


def _columns(nodes: Iterable[str], edges: Sequence[tuple[str, str]]) -> dict[str, int]:
    before: dict[str, list[str]] = {name: [] for name in nodes}
    following: dict[str, list[str]] = defaultdict(list)
    for one, other in edges:
        before[other].append(one)
        following[one].append(other)
    columns: dict[str, int] = {}
    for name in upstream_first(before):
        columns[name] = max((columns[above] + 1 for above in before[name]), default=0)
    for name in columns:  # what starts late stands beside what it feeds, not at the far left
        if following[name] and not before[name]:
            columns[name] = min(columns[other] for other in following[name]) - 1
    return columns


def _ordered_columns(columns: Mapping[str, int], links: Sequence[tuple[str, str]]) -> list[list[str]]:
    before: dict[str, list[str]] = defaultdict(list)
    after: dict[str, list[str]] = defaultdict(list)
    for one, other in links:
        after[one].append(other)
        before[other].append(one)
    rows: list[list[str]] = [[] for _ in range(max(columns.values(), default=-1) + 1)]
    for name in sorted(columns):
        rows[columns[name]].append(name)
    for sweep in range(_SWEEPS):
        neighbours = before if sweep % 2 == 0 else after
        for row in rows if sweep % 2 == 0 else rows[::-1]:
            place = {name: number / max(1, len(other) - 1) for other in rows for number, name in enumerate(other)}
            row.sort(key=lambda name: (_mean([place[n] for n in neighbours[name]], place[name]), name))
    return rows


def _placed(
    rows: Sequence[Sequence[str]], sizes: Mapping[str, tuple[float, float]], links: Sequence[tuple[str, str]]
) -> dict[str, Box]:
    neighbours: dict[str, list[str]] = defaultdict(list)
    for one, other in links:
        neighbours[one].append(other)
        neighbours[other].append(one)
    heights = [sum(sizes[name][1] + ROW_GAP for name in row) - ROW_GAP for row in rows]
    tallest = max(heights, default=0)
    tops: dict[str, float] = {}
    for row, height in zip(rows, heights, strict=True):
        top = (tallest - height) / 2
        for name in row:
            tops[name] = top
            top += sizes[name][1] + ROW_GAP
    for _ in range(_SWEEPS):
        for row in rows:
            wanted = [
                _mean([tops[n] + sizes[n][1] / 2 for n in neighbours[name]], tops[name] + sizes[name][1] / 2)
                for name in row
            ]
            _settle(row, wanted, sizes, tops)
    lowest = min(tops.values(), default=0)
    boxes: dict[str, Box] = {}
    x = 0.0
    for row in rows:
        widest = max(sizes[name][0] for name in row)
        for name in row:
            width, height = sizes[name]
            boxes[name] = Box(x + (widest - width) / 2, tops[name] - lowest, width, height)
        x += widest + COLUMN_GAP
    return boxes


def _settle(
    row: Sequence[str], wanted: Sequence[float], sizes: Mapping[str, tuple[float, float]], tops: dict[str, float]
) -> None:
    """Move the boxes of a column towards where they want to be, in their order and without overlap."""
    groups: list[tuple[list[str], float, float]] = []  # names, wished top, height; touching boxes move together
    for name, middle in zip(row, wanted, strict=True):
        height = sizes[name][1] + ROW_GAP
        names, top, total = [name], middle - sizes[name][1] / 2, height
        while groups and groups[-1][1] + groups[-1][2] > top:
            former, former_top, former_total = groups.pop()
            top = (former_top * len(former) + (top - former_total) * len(names)) / (len(former) + len(names))
            names, total = [*former, *names], former_total + total
        groups.append((names, top, total))
    for names, top, _ in groups:
        place = top
        for name in names:
            tops[name] = place
            place += sizes[name][1] + ROW_GAP


def _point(box: Box, *, start: bool) -> tuple[float, float]:
    return (box.x + box.width if start else box.x, box.middle)


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise

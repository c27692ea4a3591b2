"""Stages: the parts of the operator graph between intermediate streams (rule P7).

Operators linked by their outputs, and the writers and readers of one local table, form a stage. Sharing an input links
nothing. Stages that read exactly the same inputs and do not depend on each other are merged; stages that depend on each
other in a circle become one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError

from airflow_samza.application.descriptors import TableKind
from airflow_samza.application.operator_specs import InputOperatorSpec
from airflow_samza.errors import UnsupportedShape
from airflow_samza.grouping import grouped
from airflow_samza.planner.graphs import strong_components, upstream_first
from airflow_samza.planner.ids import name_stages
from airflow_samza.planner.job_graph import JobGraph
from airflow_samza.planner.partition_counts import Counts
from airflow_samza.planner.plan import Stage
from airflow_samza.planner.stream_edges import StreamEdge


@dataclass(frozen=True)
class _Part:
    """A stage in the making: places of its operators in the graph's order, and the streams it touches."""

    operators: tuple[int, ...]
    inputs: frozenset[str]
    outputs: frozenset[str]
    tables: frozenset[str]
    side_inputs: frozenset[str]
    circular: bool = False


def cut_stages(graph: JobGraph) -> tuple[Stage, ...]:
    """The stages, each after its upstream stages; task counts are 1 until :func:`with_task_counts` sets them."""
    parts = _linked_parts(graph)
    parts = _merge_equal_readers(parts)
    parts = _condense_circles(parts)
    names = name_stages([(part.inputs, part.outputs, part.circular) for part in parts])
    writers = _writers(parts)
    stages = {}
    for place, part in enumerate(parts):
        stages[names[place]] = Stage(
            stage_id=names[place],
            operators=tuple(graph.operators[index].op_id for index in part.operators),
            inputs=tuple(sorted(part.inputs)),
            outputs=tuple(sorted(part.outputs)),
            side_inputs=tuple(sorted(part.side_inputs)),
            tables=tuple(sorted(part.tables)),
            upstream=tuple(
                sorted({names[w] for s in part.inputs | part.side_inputs for w in writers.get(s, ()) if w != place})
            ),
            several_epochs=part.circular,
        )
    return _ordered(stages)


def with_task_counts(stages: Sequence[Stage], counts: Counts, edges: Mapping[str, StreamEdge]) -> tuple[Stage, ...]:
    """A stage has as many tasks as its largest input that is not broadcast; 1 when all are."""
    return tuple(
        replace(
            stage,
            task_count=max(
                (counts[s].count for s in stage.inputs if not edges[s].broadcast and s in counts), default=1
            ),
        )
        for stage in stages
    )


def _linked_parts(graph: JobGraph) -> list[_Part]:
    place_of = {op.op_id: place for place, op in enumerate(graph.operators)}
    leader = list(range(len(graph.operators)))

    def find(place: int) -> int:
        while leader[place] != place:
            leader[place] = leader[leader[place]]
            place = leader[place]
        return place

    def link(one: int, other: int) -> None:
        first, second = sorted((find(one), find(other)))
        leader[second] = first

    table_users: dict[str, int] = {}
    for place, op in enumerate(graph.operators):
        for source in op.inputs:
            if not isinstance(source, InputOperatorSpec):
                link(place_of[source.op_id], place)
        for table in op.tables:
            if table.kind is TableKind.LOCAL and not table.side_inputs:
                link(table_users.setdefault(table.table_id, place), place)
    members = grouped(
        (find(place), place) for place, op in enumerate(graph.operators) if not isinstance(op, InputOperatorSpec)
    )
    return [_part(graph, places, place_of) for places in members.values()]


def _part(graph: JobGraph, places: Sequence[int], place_of: Mapping[str, int]) -> _Part:
    operators = set(places)
    inputs: set[str] = set()
    outputs: set[str] = set()
    tables: set[str] = set()
    side_inputs: set[str] = set()
    for place in places:
        op = graph.operators[place]
        for source in op.inputs:
            if isinstance(source, InputOperatorSpec):
                operators.add(place_of[source.op_id])  # each stage reads its own copy
                inputs.add(source.stream.stream_id)
                outputs.update(source.written_streams)  # dead letters
        outputs.update(op.written_streams)
        for table in op.tables:
            tables.add(table.table_id)
            side_inputs.update(table.side_inputs)
    return _Part(
        tuple(sorted(operators)), frozenset(inputs), frozenset(outputs), frozenset(tables), frozenset(side_inputs)
    )


def _merge_equal_readers(parts: Sequence[_Part]) -> list[_Part]:
    """Stages of the same inputs become one, unless one depends on the other.

    Of two stages that read the same streams, one depends on the other only when what they read is written behind one of
    them, which then stands in a circle. So it is enough to leave those in circles alone; what a side input brings
    counts as an input here.
    """
    writers = _writers(parts)
    in_circle = {place for circle in _circles(parts) for place in circle}
    readers: dict[frozenset[str], list[_Part]] = {}
    alone = []
    for place, part in enumerate(parts):
        if place in in_circle:
            alone.append(part)
        else:
            fed = frozenset(s for s in part.side_inputs if s in writers)
            readers.setdefault(part.inputs | fed, []).append(part)
    return [*alone, *(_union(together) for together in readers.values())]


def _condense_circles(parts: Sequence[_Part]) -> list[_Part]:
    circles = _circles(parts)
    taken = {place for circle in circles for place in circle}
    rest = [part for place, part in enumerate(parts) if place not in taken]
    return [*rest, *(replace(_union([parts[place] for place in circle]), circular=True) for circle in circles)]


def _circles(parts: Sequence[_Part]) -> list[list[int]]:
    readers = grouped((s, place) for place, part in enumerate(parts) for s in part.inputs | part.side_inputs)
    following = {
        str(place): [str(r) for s in part.outputs for r in readers.get(s, ())] for place, part in enumerate(parts)
    }
    components = strong_components(list(following), following)
    return [
        [int(vertex) for vertex in group] for group in components if len(group) > 1 or group[0] in following[group[0]]
    ]


def _writers(parts: Sequence[_Part]) -> dict[str, list[int]]:
    return grouped((stream_id, place) for place, part in enumerate(parts) for stream_id in part.outputs)


def _union(parts: Sequence[_Part]) -> _Part:
    if len(parts) == 1:
        return parts[0]
    return _Part(
        operators=tuple(sorted({place for part in parts for place in part.operators})),
        inputs=frozenset().union(*(part.inputs for part in parts)),
        outputs=frozenset().union(*(part.outputs for part in parts)),
        tables=frozenset().union(*(part.tables for part in parts)),
        side_inputs=frozenset().union(*(part.side_inputs for part in parts)),
    )


def _ordered(stages: Mapping[str, Stage]) -> tuple[Stage, ...]:
    try:
        return tuple(
            stages[stage_id] for stage_id in upstream_first({key: stage.upstream for key, stage in stages.items()})
        )
    except CycleError as error:  # cannot happen: circles are condensed; better an error than a Dag that never starts
        left = ", ".join(sorted(set(error.args[1])))
        raise UnsupportedShape(
            f"The stages {left} wait for each other.", hint="Please report this application.", stages=left
        ) from None

"""Join groups: the streams that meet in a join, whose partition counts must agree (rule P2).

A stream reaches a join over real and virtual edges. A broadcast stream counts only where it arrives over real edges:
through a table every task holds all of it. Source: planner-with-tables, "Operator graph analysis" and "Conversion to
StreamEdges". The planner counts by them; the plan step looks by them which files may be cut.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_samza.application.operator_spec import OperatorSpec
from airflow_samza.application.operator_specs import InputOperatorSpec, StreamJoinSpec, TableJoinSpec
from airflow_samza.grouping import grouped
from airflow_samza.planner.graphs import reached, strong_components
from airflow_samza.planner.job_graph import JobGraph
from airflow_samza.planner.stream_edges import StreamEdge

_NONE: frozenset[str] = frozenset()


@dataclass(frozen=True)
class JoinedStreams:
    """One join and the streams that meet there, sorted by id.

    ``through_table`` are those that only feed its table from outside, ``on_the_right`` those that reach only the right
    side of a join of two streams.
    """

    join: StreamJoinSpec | TableJoinSpec
    streams: tuple[str, ...]
    through_table: tuple[str, ...] = ()
    on_the_right: frozenset[str] = _NONE


def group_joined_streams(graph: JobGraph, edges: Mapping[str, StreamEdge]) -> list[JoinedStreams]:
    """The join groups, by operator id."""
    if not graph.joins:
        return []
    plain = _reach(graph, _starts(graph, edges, broadcast=False), over_tables=True)
    everywhere = _reach(graph, _starts(graph, edges, broadcast=True), over_tables=False)
    groups = []
    for join in graph.joins:
        reaching, *inputs = (
            plain.get(op.op_id, _NONE) | everywhere.get(op.op_id, _NONE) for op in (join, *join.inputs)
        )
        side = _NONE
        if isinstance(join, TableJoinSpec):
            side = frozenset(s for s in join.table.side_inputs if s in edges and not edges[s].broadcast)
        through_table = tuple(sorted(side - reaching))
        groups.append(JoinedStreams(join, tuple(sorted(reaching | side)), through_table, inputs[-1] - inputs[0]))
    return groups


def _starts(graph: JobGraph, edges: Mapping[str, StreamEdge], *, broadcast: bool) -> dict[str, frozenset[str]]:
    return {
        op.op_id: frozenset((op.stream.stream_id,))
        for op in graph.inputs
        if edges[op.stream.stream_id].broadcast == broadcast
    }


def _union(sets: list[frozenset[str]]) -> frozenset[str]:
    # Long chains of operators share one set instead of copying it: the cost stays linear (rule P9).
    different = list({id(each): each for each in sets if each}.values())
    return different[0] if len(different) == 1 else _NONE.union(*different)


def _reach(graph: JobGraph, starts: Mapping[str, frozenset[str]], *, over_tables: bool) -> dict[str, frozenset[str]]:
    """Return the streams that reach each operator over real edges, and over tables where they count, too."""
    if over_tables and graph.table_edges:
        # Virtual edges can close a cycle; all operators of a cycle see the same streams.
        forward = {op.op_id: [following.op_id for following in graph.next_operators(op)] for op in graph.operators}
        before = grouped((following, op_id) for op_id, behind in forward.items() for following in behind)
        components = strong_components(list(forward), forward)[::-1]
    else:
        before = {op.op_id: [source.op_id for source in op.inputs] for op in graph.operators}
        components = [[op.op_id] for op in graph.operators]
    reach: dict[str, frozenset[str]] = {}
    for component in components:
        arriving = [reach.get(source, _NONE) for op_id in component for source in before.get(op_id, ())]
        together = _union([*arriving, *(starts[op_id] for op_id in component if op_id in starts)])
        for op_id in component:
            reach[op_id] = together
    return reach


def streams_arriving(op: OperatorSpec) -> tuple[str, ...]:
    """Return the ids of the streams whose messages arrive at an operator over real edges, sorted."""
    before = reached([op], lambda op: op.inputs)
    return tuple(sorted({source.stream.stream_id for source in before if isinstance(source, InputOperatorSpec)}))

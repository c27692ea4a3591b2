"""Warnings for windows of event time whose unbounded input makes no watermarks, or not those of its messages.

Without watermarks windows hold all until the input ends; with those of other times their messages are late.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from airflow_samza.application.descriptors import StreamRole
from airflow_samza.application.operator_spec import OperatorSpec
from airflow_samza.application.operator_specs import ReadTimeSpec, TransformSpec, WindowOperatorSpec
from airflow_samza.planner.job_graph import JobGraph
from airflow_samza.planner.paths import operator_label
from airflow_samza.planner.stream_edges import StreamEdge


def silent_inputs(graph: JobGraph, edges: Mapping[str, StreamEdge]) -> Iterator[str]:
    """A warning for each window of event time behind an input without an end that makes no watermarks."""
    behind: dict[str, str] = {}
    for stream_id, edge in edges.items():
        if _is_silent(edge):
            _follow(stream_id, graph, edges, behind)
    for op in graph.operators:
        if isinstance(op, WindowOperatorSpec) and op.time_column is not None and op.op_id in behind:
            yield (
                f"{operator_label(op)} goes by event time, and the input {behind[op.op_id]!r}, which has no end, "
                "makes no watermarks: its "
                "windows close only when the application is drained. Declare how late messages may come (max_delay= or "
                "watermarks=)."
            )


def unchecked_times(graph: JobGraph, edges: Mapping[str, StreamEdge]) -> Iterator[str]:
    """Return a warning for each function of DataFrames that may move the event time of unbounded inputs."""
    behind: dict[str, str] = {}
    for stream_id, edge in edges.items():
        if edge.role is StreamRole.INPUT and not edge.descriptor.bounded:
            _follow(stream_id, graph, edges, behind)
    timed = {op.op_id for op in graph.operators if isinstance(op, WindowOperatorSpec) and op.time_column is not None}
    for op in graph.operators:
        if isinstance(op, TransformSpec) and op.event_time is None and op.op_id in behind:
            reached: dict[str, str] = {}
            _follow_from([op], op.op_id, graph, edges, reached)
            if timed & reached.keys():
                yield (
                    f"{operator_label(op)} may give the event time other values, which nothing checks: messages before "
                    "the watermarks would be late. Declare how far they may lie before the former ones (timestamp=, "
                    "max_delay=)."
                )


def _is_silent(edge: StreamEdge) -> bool:
    stream = edge.descriptor
    return edge.role is StreamRole.INPUT and not stream.bounded and not stream.shared and stream.watermarks is None


def _follow(stream_id: str, graph: JobGraph, edges: Mapping[str, StreamEdge], behind: dict[str, str]) -> None:
    """Notes the stream at every operator that it reaches, over re-partitions too, and that nothing else has reached."""
    _follow_from(edges[stream_id].readers, stream_id, graph, edges, behind)


def _follow_from(
    operators: Iterable[OperatorSpec],
    stream_id: str,
    graph: JobGraph,
    edges: Mapping[str, StreamEdge],
    behind: dict[str, str],
) -> None:
    waiting: list[OperatorSpec] = list(operators)
    while waiting:
        op = waiting.pop()
        if op.op_id in behind or isinstance(op, ReadTimeSpec):  # whose clock makes watermarks
            continue
        behind[op.op_id] = stream_id
        waiting.extend(graph.outputs.get(op.op_id, ()))
        for written in op.written_streams:
            waiting.extend(edges[written].readers)

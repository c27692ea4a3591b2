"""The path from an input to an operator, for errors: ``S2 → by-member → filter-3 → join enrich`` (rule P5)."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from airflow_samza.application.operator_spec import OperatorSpec
from airflow_samza.application.operator_specs import InputOperatorSpec
from airflow_samza.planner.job_graph import JobGraph
from airflow_samza.planner.stream_edges import StreamEdge
from airflow_samza.planner.wording import operator_title

_LONGEST = 12


def operator_label(op: OperatorSpec) -> str:
    """An operator by its kind and its name, an input by its stream.

    >>> from airflow_samza.application.operator_specs import MergeSpec
    >>> operator_label(MergeSpec("app-1-merge-0", "0")), operator_label(MergeSpec("app-1-merge-all", "all"))
    ('merge-0', 'merge all')
    """
    if isinstance(op, InputOperatorSpec):
        return op.stream.stream_id
    return operator_title(op)


def path_to_join(
    graph: JobGraph, edges: Mapping[str, StreamEdge], stream_id: str, join: OperatorSpec
) -> tuple[str, ...]:
    """Return the steps from the input behind a stream to the join, over real and virtual edges or a table."""
    steps = _within_stage(graph, stream_id, join)
    if steps is None:
        tables = edges[stream_id].side_input_of
        return (stream_id, *(f"table {table}" for table in tables[:1]), operator_label(join))
    front: list[str] = []
    seen = {stream_id}
    writers = edges[stream_id].writers
    while writers:
        labels, start = _back_to_input(writers[0])
        front = [*labels, *front]
        if start is None or start in seen:
            break
        seen.add(start)
        writers = edges[start].writers
    return _shortened((*front, *steps))


def _within_stage(graph: JobGraph, stream_id: str, join: OperatorSpec) -> list[str] | None:
    came_from: dict[str, OperatorSpec | None] = {
        op.op_id: None for op in graph.inputs if op.stream.stream_id == stream_id
    }
    waiting: deque[OperatorSpec] = deque(op for op in graph.inputs if op.stream.stream_id == stream_id)
    while waiting:
        op = waiting.popleft()
        if op is join:
            break
        for following in graph.next_operators(op):
            if following.op_id not in came_from:
                came_from[following.op_id] = op
                waiting.append(following)
    if join.op_id not in came_from:
        return None
    steps: list[str] = []
    step: OperatorSpec | None = join
    while step is not None:
        steps.append(operator_label(step))
        step = came_from[step.op_id]
    return steps[::-1]


def _back_to_input(writer: OperatorSpec) -> tuple[list[str], str | None]:
    labels: list[str] = []
    op = writer
    while op.inputs:
        if op is not writer:  # the writer itself is named by the stream that it makes
            labels.append(operator_label(op))
        op = op.inputs[0]
    labels.append(operator_label(op))
    return labels[::-1], op.stream.stream_id if isinstance(op, InputOperatorSpec) else None


def _shortened(steps: tuple[str, ...]) -> tuple[str, ...]:
    return steps if len(steps) <= _LONGEST else (*steps[: _LONGEST // 2], "…", *steps[-_LONGEST // 2 :])

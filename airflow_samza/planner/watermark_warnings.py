"""Warnings for operators that wait for the end of unbounded inputs, or for watermarks that these do not make, or late.

An operator whose state would grow without end behind an unbounded input is rejected. Without watermarks windows and
joins hold all until the input ends, and behind a merge or a join until no input is silent; with those of other times
their messages are late.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from airflow_samza.application.descriptors import StreamRole
from airflow_samza.application.operator_spec import Emits, OperatorSpec
from airflow_samza.application.operator_specs import (
    ApplyChangesSpec,
    DistinctSpec,
    InputOperatorSpec,
    MergeSpec,
    ReadTimeSpec,
    SendToSpec,
    StreamJoinSpec,
    TableJoinSpec,
    TaskSpec,
    TransformSpec,
    WindowOperatorSpec,
)
from airflow_samza.config import WATERMARK_IDLE_TIMEOUT
from airflow_samza.errors import PlanError, UnsupportedShape
from airflow_samza.grouping import grouped
from airflow_samza.planner.graphs import reached
from airflow_samza.planner.job_graph import JobGraph
from airflow_samza.planner.paths import operator_label
from airflow_samza.planner.plan import Stage
from airflow_samza.planner.stream_edges import StreamEdge, operators_behind


def waits_for_the_end(graph: JobGraph, edges: Mapping[str, StreamEdge], stages: Sequence[Stage]) -> Iterator[str]:
    """Return a warning for each operator that emits at the end of its inputs only, behind one without an end (rule C9).

    It is no error: a drain is an end.
    """
    behind = _behind_endless(graph, edges)
    places = {op_id: stage.stage_id for stage in stages for op_id in stage.operators}
    for op in graph.operators:
        if op.emits is Emits.AT_THE_END and op.op_id in behind:
            yield (
                f"{operator_label(op)} of the stage {places[op.op_id]!r} emits its rows at the end of its input, and "
                f"the input {behind[op.op_id]!r} has no end: no run writes a row of it unless it is drained. "
                'Use a window (.window(…)), or read the whole input in every run (bounded=True, no slice="checkpoint").'
            )


def histories_without_state(graph: JobGraph, edges: Mapping[str, StreamEdge]) -> Iterator[str]:
    """Return a warning for each history that runs add to, where none knows which rows the last one has left open."""
    behind = _behind_endless(graph, edges)
    for send in graph.operators:
        if isinstance(send, SendToSpec) and send.grouped_by is not None:
            for op in sorted(reached(send.inputs, lambda op: op.inputs), key=lambda op: op.op_id):
                if isinstance(op, ApplyChangesSpec) and op.scd_type == 2 and op.op_id not in behind:
                    yield (
                        f"{operator_label(op)} keeps a history that runs add to, and its input has an end, so that a "
                        "run knows nothing of the rows that an earlier one has left open: they never end, unless each "
                        'run reads all changes. Read what is new: slice="checkpoint".'
                    )


def endless_state(graph: JobGraph, edges: Mapping[str, StreamEdge]) -> Iterator[PlanError]:
    """Return an error for each operator that would keep all keys of an input without an end."""
    behind = _behind_endless(graph, edges) if any(_keeps_all(op) for op in graph.operators) else {}
    for op in graph.operators:
        if isinstance(op, TableJoinSpec) and _keeps_all(op) and op.op_id in behind:
            yield UnsupportedShape(
                f"{op.title} looks rows up as of event times, its table {op.table.table_id!r} has no retain=, and the "
                f"input {behind[op.op_id]!r} has no end: it would keep every row for ever.",
                hint='Say how far behind the watermark messages find their rows: app.table(…, retain="7 days").',
                operator=op.op_id,
                stream=behind[op.op_id],
                table=op.table.table_id,
                location=op.location,
            )
        elif _keeps_all(op) and op.op_id in behind:
            yield UnsupportedShape(
                f"{op.title} has no within=, and the input {behind[op.op_id]!r} has no end: it would keep every key "
                "for ever.",
                hint='Say in which time copies come, for example within="1 day".',
                operator=op.op_id,
                stream=behind[op.op_id],
                location=op.location,
            )


def _keeps_all(op: OperatorSpec) -> bool:
    """Return whether an operator forgets nothing while time goes on."""
    if isinstance(op, TableJoinSpec):
        return op.as_of is not None and not op.table.is_pushed and op.table.retain_ms is None
    return isinstance(op, DistinctSpec) and op.within_ms is None


def silent_inputs(graph: JobGraph, edges: Mapping[str, StreamEdge]) -> Iterator[str]:
    """Return a warning for each window and join of event time behind an input without end that makes no watermarks."""
    behind = _sources(graph, edges, _is_silent, _until_clocks)
    for op in graph.operators:
        if op.op_id in behind and _goes_by_event_time(op):
            yield (
                f"{operator_label(op)} goes by event time, and the input {behind[op.op_id][0]!r}, which has no end, "
                f"makes no watermarks: {_held_back(op)} only when the application is drained. "
                "Declare how late messages may come (max_delay= or watermarks=)."
            )


def _goes_by_event_time(op: OperatorSpec) -> bool:
    if isinstance(op, StreamJoinSpec):
        return op.left_time is not None
    if isinstance(op, DistinctSpec):
        return op.within_ms is not None
    if isinstance(op, TableJoinSpec):
        return op.wait_ms is not None
    return isinstance(op, WindowOperatorSpec) and op.time_column is not None


def _held_back(op: OperatorSpec) -> str:
    """Return in words that which waits for watermarks."""
    if isinstance(op, DistinctSpec | TableJoinSpec):
        return "messages leave it"
    if not isinstance(op, StreamJoinSpec):
        return "its windows close"
    return "it lets go of messages" if op.how == "inner" else "messages without a partner leave it"


def unchecked_times(graph: JobGraph, edges: Mapping[str, StreamEdge]) -> Iterator[str]:
    """Return a warning for each function of DataFrames that may move the event time of unbounded inputs."""
    behind = _sources(graph, edges, _is_endless, _until_clocks)
    windows = [op for op in graph.operators if isinstance(op, WindowOperatorSpec | DistinctSpec | TableJoinSpec)]
    timed = {op for op in windows if _goes_by_event_time(op)}
    for op in graph.operators:
        if isinstance(op, TransformSpec) and op.event_time is None and op.op_id in behind:
            further: set[OperatorSpec] = reached([op], lambda op: _until_clocks(op, graph, edges))
            if timed & further:
                yield (
                    f"{operator_label(op)} may give the event time other values, which nothing checks: messages before "
                    "the watermarks would be late. Declare how far they may lie before the former ones "
                    "(timestamp=, max_delay=)."
                )


def waits_for_silent_inputs(graph: JobGraph, edges: Mapping[str, StreamEdge]) -> Iterator[str]:
    """A warning for each merge and join that holds event time back while one of its unbounded inputs is silent.

    It is for applications that leave no silent input out (rule C8). A merge is named where event time counts behind it.
    """
    sources = _sources(graph, edges, _is_endless, _until_clocks)
    timed = _before_event_time(graph, edges)
    for op in graph.operators:
        if not isinstance(op, MergeSpec | StreamJoinSpec) or op.op_id not in timed:
            continue
        sources_by_input = [sources.get(before.op_id, []) for before in op.inputs]
        together = list(dict.fromkeys(stream for streams in sources_by_input for stream in streams))
        if all(len(streams) < len(together) for streams in sources_by_input):
            first = dict.fromkeys(streams[0] for streams in sources_by_input if streams)
            named = " and ".join(repr(stream) for stream in list(first)[:_NAMED])
            yield (
                f"{operator_label(op)} goes by the slowest of its inputs: while one of {named} is silent, windows and "
                f"joins wait. Set {WATERMARK_IDLE_TIMEOUT} to the time after which a silent input is left out."
            )


_NAMED = 2
"""The inputs that a warning names; no more are followed, so that large graphs are looked at once."""


def _sources(
    graph: JobGraph,
    edges: Mapping[str, StreamEdge],
    starts: Callable[[StreamEdge], bool],
    onward: Callable[[OperatorSpec, JobGraph, Mapping[str, StreamEdge]], Iterable[OperatorSpec]],
) -> dict[str, list[str]]:
    """Return for each operator the streams that reach it, over re-partitions too, as many as a warning names."""
    sources: dict[str, list[str]] = {}

    def open_behind(op: OperatorSpec) -> Iterator[OperatorSpec]:
        return (other for other in onward(op, graph, edges) if len(sources.get(other.op_id, ())) < _NAMED)

    for stream_id, edge in edges.items():
        if starts(edge):
            readers: list[OperatorSpec] = list(edge.readers)
            for op in reached(readers, open_behind):
                sources.setdefault(op.op_id, []).append(stream_id)
    return sources


def _before_event_time(graph: JobGraph, edges: Mapping[str, StreamEdge]) -> set[str]:
    """Return the operators behind which a window of event time, a join of streams or a task stands, and these."""
    writers = grouped((written, op) for op in graph.operators for written in op.written_streams)
    ends = [op for op in graph.operators if isinstance(op, StreamJoinSpec | TaskSpec) or _goes_by_event_time(op)]

    def before(op: OperatorSpec) -> list[OperatorSpec]:
        sent = writers.get(op.stream.stream_id, []) if isinstance(op, InputOperatorSpec) else []
        return [*op.inputs, *sent]

    return {op.op_id for op in reached(ends, before)}


def _until_clocks(op: OperatorSpec, graph: JobGraph, edges: Mapping[str, StreamEdge]) -> Iterator[OperatorSpec]:
    """The operators directly behind one, without clocks, which make watermarks of their own."""
    return (other for other in operators_behind(op, graph, edges) if not isinstance(other, ReadTimeSpec))


def _is_endless(edge: StreamEdge) -> bool:
    return edge.role is StreamRole.INPUT and not edge.descriptor.bounded


def _is_silent(edge: StreamEdge) -> bool:
    return _is_endless(edge) and not edge.descriptor.shared and edge.descriptor.watermarks is None


def _behind_endless(graph: JobGraph, edges: Mapping[str, StreamEdge]) -> dict[str, str]:
    """Return an input without an end for each operator that is behind one, by operator."""
    sources = _sources(graph, edges, _is_endless, operators_behind)
    return {op_id: streams[0] for op_id, streams in sources.items()}

"""Partition counts, each with its reason: known, pinned by the last plan, spread by joins, configured, or the maximum.

Rule P2 (groups, cap), rule P3 (configuration), rule P4 (broadcast), rule P6 (reasons), rule P10 (pinned). Source:
planner-with-tables, "Processing joined streams".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from airflow_samza.application.descriptors import StreamRole
from airflow_samza.application.operator_spec import OperatorSpec
from airflow_samza.config import INTERMEDIATE_PARTITIONS, MAX_PARTITIONS, Config
from airflow_samza.errors import PartitionMismatch, PlanChanged, PlanError, UnresolvedPartitions
from airflow_samza.grouping import grouped
from airflow_samza.planner.join_groups import JoinedStreams
from airflow_samza.planner.plan import ExecutionPlan, PlannedStream
from airflow_samza.planner.stream_edges import StreamEdge


@dataclass(frozen=True)
class PartitionCount:
    """The partition count of a stream, and the reason for it."""

    count: int
    reason: str


Counts = dict[str, PartitionCount]


def initial_counts(edges: Mapping[str, StreamEdge], metadata: Mapping[str, int]) -> tuple[Counts, list[PlanError]]:
    """Return the counts known before any is inferred: those that systems report, declared ones, and broadcasts."""
    counts: Counts = {}
    errors: list[PlanError] = []
    for stream_id, edge in edges.items():
        reported, declared = metadata.get(stream_id), edge.descriptor.partitions
        if reported is not None and (
            isinstance(reported, bool) or not isinstance(reported, int) or not 1 <= reported <= MAX_PARTITIONS
        ):
            errors.append(_no_count(edge, reported))
        elif edge.broadcast:
            counts[stream_id] = PartitionCount(1, "broadcast: every task reads all of it")
            if (reported or declared or 1) != 1:
                errors.append(_wide_broadcast(edge, reported or declared or 1))
        elif edge.is_intermediate:
            if declared is not None:
                counts[stream_id] = PartitionCount(declared, "declared")
        elif reported is not None:
            counts[stream_id] = PartitionCount(
                reported, _declared_where(edge) if reported == declared else "as the system reports"
            )
            if declared not in (None, reported) and edge.role is not StreamRole.OUTPUT:
                errors.append(_not_as_declared(edge, reported))
        elif declared is not None:
            counts[stream_id] = PartitionCount(declared, _declared_where(edge))
        elif edge.role is StreamRole.INPUT:
            errors.append(_no_count(edge, None))
    return counts, errors


def spread_over_joins(counts: Counts, groups: Sequence[JoinedStreams], edges: Mapping[str, StreamEdge]) -> None:
    """Give streams without a count that of the streams they are joined with, until nothing changes."""
    groups_of = grouped((stream_id, place) for place, group in enumerate(groups) for stream_id in group.streams)
    waiting = deque(range(len(groups)))
    finished: set[int] = set()
    while waiting:
        place = waiting.popleft()
        if place in finished:
            continue
        group = groups[place]
        reference = reference_stream(group.streams, counts, edges)
        if reference is None:
            continue
        finished.add(place)
        for stream_id in group.streams:
            if stream_id not in counts and edges[stream_id].is_intermediate:
                counts[stream_id] = PartitionCount(
                    counts[reference].count, f"joined with {reference} at {group.join.name}"
                )
                waiting.extend(other for other in groups_of[stream_id] if other not in finished)


def reference_stream(streams: Iterable[str], counts: Counts, edges: Mapping[str, StreamEdge]) -> str | None:
    """The stream of a group by which the others go.

    One with a count, inputs before intermediate streams, then by id.
    """
    counted = [stream_id for stream_id in streams if stream_id in counts]
    return min(counted, key=lambda stream_id: (edges[stream_id].is_intermediate, stream_id), default=None)


def fill_the_rest(counts: Counts, edges: Mapping[str, StreamEdge], config: Mapping[str, str]) -> None:
    """Intermediate streams that no join decides: configuration, else the maximum of inputs and outputs, capped."""
    if not any(edge.is_intermediate for edge in edges.values()):
        return  # the configuration is read only when something depends on it (rule P3)
    keys = Config(config)
    configured, cap = keys.intermediate_partitions, keys.intermediate_partitions_max
    open_streams = [stream_id for stream_id, edge in edges.items() if edge.is_intermediate and stream_id not in counts]
    if not open_streams:
        return
    if configured is not None:
        answer = PartitionCount(configured, INTERMEDIATE_PARTITIONS)
    else:
        # Side inputs do not count (rule P2); streams that are inputs as well do.
        outer = (StreamRole.INPUT, StreamRole.OUTPUT)
        most = max((counts[s].count for s, edge in edges.items() if edge.role in outer and s in counts), default=1)
        answer = PartitionCount(
            min(most, cap), "max of inputs and outputs" + (f", capped at {cap}" if most > cap else "")
        )
    for stream_id in open_streams:
        counts[stream_id] = answer


def pin_counts(
    pinned: ExecutionPlan, operators: Sequence[OperatorSpec], edges: Mapping[str, StreamEdge], counts: Counts
) -> list[PlanError]:
    """Take inferred counts over from the last plan; return an error for every stream whose known count changed.

    State lies in the partitions in which its keys were hashed. So counts must not change under a stateful application
    (rule P10). Where no state is left, no earlier plan is given.
    """
    stateful = sorted(op.op_id for op in operators if op.keeps_state)
    if not stateful or pinned.shape_only:
        return []
    former = {stream.stream_id: stream for stream in pinned.streams}
    errors: list[PlanError] = []
    reason = f"pinned by plan {pinned.fingerprint}"
    for stream_id, edge in edges.items():
        was = former.get(stream_id) or former.get(edge.renamed_from or "")
        if was is None or edge.role is StreamRole.OUTPUT or was.partitions < 1:
            continue
        if edge.is_intermediate and stream_id not in counts:
            counts[stream_id] = PartitionCount(was.partitions, reason)
        elif stream_id in counts and counts[stream_id].count != was.partitions:
            errors.append(_changed(pinned, was, edge, counts[stream_id], stateful))
    return errors


def _declared_where(edge: StreamEdge) -> str:
    if edge.role is StreamRole.SIDE_INPUT and edge.side_input_of:
        return f"declared for table {edge.side_input_of[0]}"
    return "declared"


def _no_count(edge: StreamEdge, reported: object) -> UnresolvedPartitions:
    what, hint = "is not known", "Declare it with partitions=, or make the stream in its system first."
    if isinstance(reported, int) and reported > MAX_PARTITIONS:
        what, hint = (
            f"is {reported}, and a stream has at most {MAX_PARTITIONS:,}",
            "Make the stream with fewer partitions in its system.",
        )
    elif reported is not None:
        what = f"is {reported!r}, which is not a count"
    return UnresolvedPartitions(
        f"The partition count of the {edge.role.value.replace('_', ' ')} stream {edge.stream_id!r} {what}.",
        hint=hint,
        stream=edge.stream_id,
        partitions=reported,
    )


def _wide_broadcast(edge: StreamEdge, count: int) -> PartitionMismatch:
    return PartitionMismatch(
        f"The broadcast stream {edge.stream_id!r} has {count} partitions; a broadcast stream has one.",
        hint="Give it one partition; or read it with app.input_stream(…), call .broadcast(id=…) on that, and send it "
        "to app.local_table(…)."
        if edge.role is StreamRole.SIDE_INPUT
        else "Read it as an ordinary stream and call .broadcast() on it, or give it one partition.",
        stream=edge.stream_id,
        partitions=count,
    )


def _not_as_declared(edge: StreamEdge, reported: int) -> PartitionMismatch:
    return PartitionMismatch(
        f"The stream {edge.stream_id!r} is declared with {edge.descriptor.partitions} partitions, but its system "
        f"reports {reported}.",
        hint=f"Declare partitions={reported}, or leave partitions= out and let the system report it.",
        stream=edge.stream_id,
        partitions=reported,
        declared=edge.descriptor.partitions,
    )


def _changed(
    pinned: ExecutionPlan, was: PlannedStream, edge: StreamEdge, now: PartitionCount, stateful: Sequence[str]
) -> PlanChanged:
    more = f" and {len(stateful) - 1} other operators" if len(stateful) > 1 else ""
    if edge.is_intermediate:
        back = f"Leave partitions= out, or set it back to {was.partitions}"
    else:
        back = f"Give {edge.stream_id!r} its {was.partitions} partitions back"
    return PlanChanged(
        f"The stream {edge.stream_id!r} has {now.count} partitions ({now.reason}) and had {was.partitions} in plan "
        f"{pinned.fingerprint} ({was.reason}); {stateful[0]}{more} keep state by the old partitions.",
        hint=f'{back}; or drain a run first (mode="continuous"), which leaves no state by partitions; or start with '
        "fresh state under another app_id, reading the inputs from their oldest offset.",
        stream=edge.stream_id,
        partitions=now.count,
        former_partitions=was.partitions,
        plan=pinned.fingerprint,
        operators=tuple(stateful),
    )

"""Joins whose streams have different partition counts, all of them, each with its way out (rules P4, P5).

Decision 95.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from airflow_samza.application.descriptors import StreamRole
from airflow_samza.application.operator_specs import TableJoinSpec
from airflow_samza.errors import PartitionMismatch, PlanError, UnresolvedPartitions
from airflow_samza.planner.job_graph import JobGraph
from airflow_samza.planner.join_groups import JoinedStreams
from airflow_samza.planner.partition_counts import Counts, reference_stream
from airflow_samza.planner.paths import operator_label, path_to_join
from airflow_samza.planner.stream_edges import StreamEdge
from airflow_samza.planner.wording import columns_text, count_text


def reject_mismatches(
    groups: Sequence[JoinedStreams], counts: Counts, graph: JobGraph, edges: Mapping[str, StreamEdge]
) -> Iterator[PlanError]:
    """Yield an error for every stream of a group that does not have the count of the group's reference stream."""
    for group in groups:
        unknown = [stream_id for stream_id in group.streams if stream_id not in counts]
        for stream_id in unknown:
            if edges[stream_id].role is not StreamRole.INPUT:
                yield _unresolved(group, edges[stream_id])
        different_counts = {counts[stream_id].count for stream_id in group.streams if stream_id in counts}
        if len(different_counts) > 1:
            reference = reference_stream(group.streams, counts, edges)
            assert reference is not None
            for other in group.streams:
                if other in counts and counts[other].count != counts[reference].count:
                    yield _mismatch(group, reference, other, counts, graph, edges)


def _mismatch(
    group: JoinedStreams, reference: str, other: str, counts: Counts, graph: JobGraph, edges: Mapping[str, StreamEdge]
) -> PartitionMismatch:
    join = group.join
    first, second = counts[reference], counts[other]
    path, other_path = (path_to_join(graph, edges, stream_id, join) for stream_id in (reference, other))
    return PartitionMismatch(
        f"{operator_label(join)} joins {reference!r} ({count_text(first.count, 'partition')}, {first.reason}) with "
        f"{other!r} ({count_text(second.count, 'partition')}, {second.reason}), and both need the same partition "
        f"count; the paths to the join are {' → '.join(path)} and {' → '.join(other_path)}.",
        hint=_way_out(group, reference, other, counts, edges),
        join=join.name,
        operator=join.op_id,
        stream=reference,
        partitions=first.count,
        other_stream=other,
        other_partitions=second.count,
        path=path,
        other_path=other_path,
        location=str(join.location) if join.location else None,
    )


def _way_out(group: JoinedStreams, reference: str, other: str, counts: Counts, edges: Mapping[str, StreamEdge]) -> str:
    pair = (reference, other)
    broad = [stream_id for stream_id in pair if edges[stream_id].broadcast]
    if broad:
        return (
            f"Every task holds all of {broad[0]!r}: send it to a table (.send_to(app.local_table(…))) and join the "
            "table, which fits any partition count."
        )
    through_table = [stream_id for stream_id in pair if stream_id in group.through_table]
    movable = [stream_id for stream_id in pair if stream_id not in through_table]
    if not movable:
        return (
            f"Both feed one table: give {other!r} {count_text(counts[reference].count, 'partition')}, too (partitions= "
            "of the table, or of the topic)."
        )
    # An input can be re-partitioned before the join; the count of an intermediate stream follows what it is joined
    # with.
    inputs = [stream_id for stream_id in movable if edges[stream_id].role is StreamRole.INPUT]
    chosen = inputs[-1] if inputs else movable[-1]
    kept = other if chosen == reference else reference
    key = _join_key(group, chosen)
    by = columns_text(key)
    return (
        f"Re-partition {chosen!r} by {by} before the join: .partition_by({by}, id=…); "
        f"it then takes the {count_text(counts[kept].count, 'partition')} of {kept!r}."
    )


def _join_key(group: JoinedStreams, stream_id: str) -> tuple[str, ...]:
    if isinstance(group.join, TableJoinSpec):
        return group.join.key
    return group.join.right_key if stream_id in group.on_the_right else group.join.left_key


def _unresolved(group: JoinedStreams, edge: StreamEdge) -> UnresolvedPartitions:
    table = f" of the table {edge.side_input_of[0]!r}" if edge.side_input_of else ""
    return UnresolvedPartitions(
        f"{operator_label(group.join)} needs the partition count of {edge.stream_id!r}{table}, which is not known.",
        hint=f"Declare it: partitions= {'on the table' if table else 'on the stream'}; "
        "a push then writes that many partitions.",
        join=group.join.name,
        operator=group.join.op_id,
        stream=edge.stream_id,
    )

"""Partition counts that must not change under an application's state (rule P10).

State lies in the partitions in which its keys were hashed. So the counts that an earlier plan of a stateful application
inferred are kept, and a stream that now has another count is rejected. Where no state is left, no earlier plan is
given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from airflow_samza.application.descriptors import StreamRole
from airflow_samza.application.operator_spec import OperatorSpec
from airflow_samza.errors import PlanChanged, PlanError
from airflow_samza.planner.partition_counts import Counts, PartitionCount
from airflow_samza.planner.plan import ExecutionPlan, PlannedStream
from airflow_samza.planner.stream_edges import StreamEdge


def pin_counts(
    pinned: ExecutionPlan, operators: Sequence[OperatorSpec], edges: Mapping[str, StreamEdge], counts: Counts
) -> list[PlanError]:
    """Take inferred counts over from the last plan; return an error for every stream whose known count changed."""
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

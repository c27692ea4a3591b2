"""The operators behind inputs without an end: there event time goes on by watermarks, and messages may wait for it."""

from __future__ import annotations

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.descriptors import StreamRole
from airflow_samza.application.operator_spec import OperatorSpec
from airflow_samza.application.operator_specs import InputOperatorSpec
from airflow_samza.grouping import grouped
from airflow_samza.planner.graphs import reached


def behind_unbounded(spec: ApplicationSpec) -> frozenset[str]:
    """Return the ids of the operators that an unbounded input reaches, over re-partitions too."""
    inputs = [op for op in spec.operators if isinstance(op, InputOperatorSpec)]
    readers = grouped((op.stream.stream_id, op) for op in inputs)
    endless: list[OperatorSpec] = [op for op in inputs if op.stream.role is StreamRole.INPUT and not op.stream.bounded]

    def behind(op: OperatorSpec) -> list[OperatorSpec]:
        reading = (reader for stream in op.written_streams for reader in readers.get(stream, ()))
        return [*spec.next_operators(op), *reading]

    return frozenset(op.op_id for op in reached(endless, behind))

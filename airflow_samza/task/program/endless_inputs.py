"""The operators behind inputs without an end: there event time goes on by watermarks, and messages may wait for it."""

from __future__ import annotations

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.descriptors import StreamRole
from airflow_samza.application.operator_specs import InputOperatorSpec


def behind_unbounded(spec: ApplicationSpec) -> frozenset[str]:
    """Return the ids of the operators that an unbounded input reaches, over re-partitions too."""
    behind: dict[str, list[str]] = {}
    readers: dict[str, list[str]] = {}
    waiting: list[str] = []
    for op in spec.operators:
        for source in op.inputs:
            behind.setdefault(source.op_id, []).append(op.op_id)
        if isinstance(op, InputOperatorSpec):
            readers.setdefault(op.stream.stream_id, []).append(op.op_id)
            if op.stream.role is StreamRole.INPUT and not op.stream.bounded:
                waiting.append(op.op_id)
    for op in spec.operators:
        for stream in op.written_streams:
            behind.setdefault(op.op_id, []).extend(readers.get(stream, ()))
    found: set[str] = set()
    while waiting:
        op_id = waiting.pop()
        if op_id not in found:
            found.add(op_id)
            waiting += behind.get(op_id, ())
    return frozenset(found)

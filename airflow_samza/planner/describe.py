"""Operators, streams and tables as the plan shows them.

Names and texts, never values of secrets, addresses or absolute paths.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from airflow_samza.application.callables import callable_name
from airflow_samza.application.descriptors import StoreDescriptor, StreamDescriptor, TableDescriptor
from airflow_samza.application.operator_spec import OperatorSpec, SendingSpec, TableUserSpec
from airflow_samza.application.operator_specs import AggregateSpec, InputOperatorSpec, TaskSpec
from airflow_samza.application.times import duration_text
from airflow_samza.application.windows import DEFAULT_RSD, Aggregation, WindowSpec
from airflow_samza.planner.job_graph import JobGraph
from airflow_samza.planner.partition_counts import Counts
from airflow_samza.planner.plan import KeyCheck, Partitioning, PlannedOperator, PlannedStream, PlannedTable
from airflow_samza.planner.stream_edges import StreamEdge

if TYPE_CHECKING:
    from airflow_samza.application.application import ApplicationSpec


def describe_operators(
    graph: JobGraph, in_task_0: Collection[str] = (), checks: Iterable[KeyCheck] = ()
) -> tuple[PlannedOperator, ...]:
    """The operators, by id; ``in_task_0`` are those to which task 0 alone hands what is broadcast."""
    checked = {check.op_id: (("checked", ", ".join(check.columns)),) for check in checks}
    ddl: dict[int, str] = {}  # long chains share one schema; writing it out once keeps planning quick
    described = []
    for op in sorted(graph.operators, key=lambda op: op.op_id):
        schema = None
        if op.schema is not None:
            schema = ddl.get(id(op.schema)) or ddl.setdefault(id(op.schema), op.schema.ddl())
        described.append(
            PlannedOperator(
                op_id=op.op_id,
                name=op.name,
                op=op.op,
                inputs=tuple(source.op_id for source in op.inputs),
                stream=op.stream.stream_id if isinstance(op, InputOperatorSpec | SendingSpec) else None,
                table=op.table.table_id if isinstance(op, TableUserSpec) else None,
                schema=schema,
                details=(
                    *operator_details(op),
                    *((("broadcast_handled_by", "task-0"),) if op.op_id in in_task_0 else ()),
                    *checked.get(op.op_id, ()),
                ),
            )
        )
    return tuple(described)


def describe_streams(
    spec: ApplicationSpec, edges: Mapping[str, StreamEdge], counts: Counts, partitionings: Mapping[str, Partitioning]
) -> tuple[PlannedStream, ...]:
    """The streams, by id; a stream that is not counted yet has 0 partitions and no reason."""
    return tuple(
        PlannedStream(
            stream_id=stream_id,
            role=edge.role.value,
            system=edge.descriptor.system or spec.default_system,
            partitions=counts[stream_id].count if stream_id in counts else 0,
            reason=counts[stream_id].reason if stream_id in counts else "",
            partitioning=partitionings[stream_id],
            bounded=edge.bounded,
            broadcast=edge.broadcast,
            schema=edge.descriptor.schema.ddl() if edge.descriptor.schema is not None else None,
            writers=tuple(op.op_id for op in edge.writers),
            readers=tuple(op.op_id for op in edge.readers),
        )
        for stream_id, edge in edges.items()
    )


def describe_tables(spec: ApplicationSpec, graph: JobGraph) -> tuple[PlannedTable, ...]:
    """The tables, by id; a low-level task that names a table may read and write it."""
    tasks = [op for op in graph.operators if isinstance(op, TaskSpec)]
    described = []
    for table_id in sorted(spec.tables):
        table = spec.tables[table_id]
        users = [op.op_id for op in tasks if any(used.table_id == table_id for used in op.tables)]
        described.append(
            PlannedTable(
                table_id=table_id,
                kind=table.kind.value,
                key=table.key,
                schema=table.schema.ddl() if table.schema is not None else None,
                side_inputs=tuple(table.side_inputs),
                writers=tuple(
                    sorted(
                        [
                            *(op.op_id for op in graph.table_writers.get(table_id, ())),
                            *(() if table.side_inputs else users),
                        ]
                    )
                ),
                readers=tuple(sorted([*(op.op_id for op in graph.table_readers.get(table_id, ())), *users])),
            )
        )
    return tuple(described)


def operator_details(op: OperatorSpec) -> tuple[tuple[str, str], ...]:
    """Return what an operator does, as (name, text) pairs in a fixed order."""
    shown = [(each, each) if isinstance(each, str) else each for each in op.shown]
    pairs = [(name, _text(getattr(op, attribute))) for name, attribute in shown]
    if isinstance(op, InputOperatorSpec | SendingSpec):
        pairs.append(("expect", "; ".join(each.shown for each in op.stream.expect)))
    pairs.append(("on_error", op.on_error.text if op.on_error is not None else ""))
    pairs.append(("side_outputs", _text(op.side_outputs)))
    pairs.append(("renamed_from", op.renamed_from or ""))
    if op.event_time is not None and op.event_time.max_delay_ms is not None:
        delay = op.event_time.max_delay_ms
        before = f", at most {duration_text(delay)} before" if delay or not isinstance(op, AggregateSpec) else ""
        pairs.append(("timestamp", f"{op.event_time.column}{before}"))
    return tuple((name, text) for name, text in pairs if text)


def _text(value: Any) -> str:
    """Return names and texts as they are, and of everything else only its name."""
    if isinstance(value, tuple):
        return ", ".join(_text(part) for part in value)
    if isinstance(value, StreamDescriptor):
        return value.stream_id
    if isinstance(value, TableDescriptor):
        return value.table_id
    if isinstance(value, StoreDescriptor):
        return value.name
    if isinstance(value, Aggregation):
        more = "" if value.rsd in (None, DEFAULT_RSD) else f", rsd={value.rsd}"
        return f"{value.name}={value.function}({value.column or ''}{more})"
    if isinstance(value, WindowSpec):
        return value.text
    return callable_name(value) or "" if callable(value) else "" if value is None else str(value)

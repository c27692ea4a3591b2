"""Operators, streams and tables as the plan shows them.

Names and texts, never values of secrets, addresses or absolute paths.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_samza.application.descriptors import TableKind
from airflow_samza.application.operator_specs import (
    AggregateSpec,
    BroadcastSpec,
    InputOperatorSpec,
    MapAsyncSpec,
    OperatorSpec,
    PartitionBySpec,
    ReadTimeSpec,
    SelectSpec,
    SendToSpec,
    SendToTableSpec,
    SinkSpec,
    StreamJoinSpec,
    TableJoinSpec,
    TaskSpec,
    WhereSpec,
    WindowOperatorSpec,
)
from airflow_samza.application.windows import Aggregation, WindowSpec
from airflow_samza.planner.job_graph import JobGraph
from airflow_samza.planner.partition_counts import Counts
from airflow_samza.planner.plan import Partitioning, PlannedOperator, PlannedStream, PlannedTable
from airflow_samza.planner.stream_edges import StreamEdge
from airflow_samza.planner.wording import duration_text

if TYPE_CHECKING:
    from airflow_samza.application.application import ApplicationSpec

Details = tuple[tuple[str, str], ...]


def describe_operators(graph: JobGraph, in_task_0: Collection[str] = ()) -> tuple[PlannedOperator, ...]:
    """The operators, by id; ``in_task_0`` are those to which task 0 alone hands what is broadcast."""
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
                stream=op.stream.stream_id
                if isinstance(op, InputOperatorSpec | PartitionBySpec | BroadcastSpec | SendToSpec)
                else None,
                table=op.table.table_id if isinstance(op, TableJoinSpec | SendToTableSpec) else None,
                schema=schema,
                details=operator_details(op) + ((("broadcast_handled_by", "task-0"),) if op.op_id in in_task_0 else ()),
            )
        )
    return tuple(described)


def describe_streams(
    spec: ApplicationSpec, edges: Mapping[str, StreamEdge], counts: Counts, partitionings: Mapping[str, Partitioning]
) -> tuple[PlannedStream, ...]:
    """The streams, by id; a stream that nobody counted has 0 partitions and no reason."""
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


def operator_details(op: OperatorSpec) -> Details:
    """What an operator does, as (name, text) pairs in a fixed order."""
    pairs: list[tuple[str, object]] = []
    if isinstance(op, WhereSpec):
        pairs.append(("condition", op.condition))
    elif isinstance(op, SelectSpec):
        pairs.append(("expressions", ", ".join(op.expressions)))
    elif isinstance(op, AggregateSpec):
        pairs += [("key", _names(op.key)), ("aggregations", _aggregations(op.aggregations))]
    elif isinstance(op, WindowOperatorSpec):
        pairs += [
            ("window", window_text(op.window)),
            ("key", _names(op.key)),
            ("aggregations", _aggregations(op.aggregations)),
        ]
        pairs += [
            ("fold", callable_name(op.fold)),
            ("initial", None if op.initial is None else type(op.initial).__name__),
        ]
    elif isinstance(op, StreamJoinSpec):
        same = op.left_key == op.right_key
        pairs += [
            ("key", _names(op.left_key) if same else f"{_names(op.left_key)} = {_names(op.right_key)}"),
            ("how", op.how),
        ]
        pairs += [("ttl_ms", op.ttl_ms), ("assume_partitioned_by", _names(op.assume_partitioned_by))]
    elif isinstance(op, TableJoinSpec):
        pairs += [("key", _names(op.key)), ("how", op.how), ("assume_partitioned_by", _names(op.assume_partitioned_by))]
    elif isinstance(op, ReadTimeSpec):
        pairs.append(("column", op.column))
    elif isinstance(op, PartitionBySpec):
        pairs.append(("key", _names(op.key)))
    elif isinstance(op, MapAsyncSpec):
        order = "in order" if op.ordered else "as they end"
        pairs += [("calls", f"up to {op.concurrency} at a time, {order}"), ("timeout_ms", op.timeout_ms)]
    elif isinstance(op, SinkSpec) or (isinstance(op, SendToTableSpec) and op.table.kind is TableKind.REMOTE):
        pairs.append(("delivery", "at least once"))
    elif isinstance(op, TaskSpec):
        pairs += [("task", callable_name(op.factory)), ("outputs", _names(tuple(s.stream_id for s in op.outputs)))]
        pairs.append(("tables", _names(tuple(table.table_id for table in op.tables))))
        pairs.append(("stores", _names(tuple(store.name for store in op.stores))))
    pairs.append(("function", callable_name(getattr(op, "function", None))))
    pairs.append(("on_error", op.on_error.text if op.on_error is not None else None))
    pairs.append(("side_outputs", _names(tuple(stream.stream_id for stream in op.side_outputs))))
    pairs.append(("renamed_from", getattr(op, "renamed_from", None)))
    return tuple((name, str(value)) for name, value in pairs if value not in (None, ""))


def callable_name(function: Any) -> str | None:
    """Module and name of a callable, without the places inside functions and never an address.

    >>> callable_name(len), callable_name(functools.partial(len)), callable_name(None)
    ('len', 'partial len', None)
    """
    if function is None:
        return None
    if isinstance(function, functools.partial):
        return f"partial {callable_name(function.func)}"
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    module = getattr(function, "__module__", None) or type(function).__module__
    plain = str(name).replace("<locals>.", "")
    return plain if module in ("builtins", "__main__") else f"{module}.{plain}"


def window_text(window: WindowSpec) -> str:
    """A window in words.

    >>> from airflow_samza.application.windows import hopping, session
    >>> window_text(hopping("1 hour", "5 minutes")), window_text(session("30 s", time="processing"))
    ('hopping 1 hour every 5 minutes', 'session with gaps of 30 seconds, processing time')
    """
    if window.gap_ms is not None:
        parts = [f"{window.kind} with gaps of {duration_text(window.gap_ms)}"]
    else:
        parts = [f"{window.kind} {duration_text(window.duration_ms or 0)}"]
    if window.hop_ms is not None:
        parts[0] += f" every {duration_text(window.hop_ms)}"
    if window.time != "event":
        parts.append(f"{window.time} time")
    if window.zone != "UTC":
        parts.append(window.zone)
    if window.early_every is not None:
        parts.append(f"early every {window.early_every} messages")
    if window.early_after_ms is not None:
        parts.append(f"early after {duration_text(window.early_after_ms)}")
    if window.accumulating:
        parts.append("accumulating")
    return ", ".join(parts)


def _aggregations(aggregations: Sequence[Aggregation]) -> str:
    return ", ".join(f"{a.name}={a.function}({a.column or ''})" for a in aggregations)


def _names(names: Sequence[str]) -> str:
    return ", ".join(names)

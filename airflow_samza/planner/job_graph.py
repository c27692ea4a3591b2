"""The operator graph of an application, walked once from its inputs; every later pass reads it (rule P1).

Three kinds of edges lead from operator to operator: *real* ones (an operator's outputs), *virtual* ones (from each
``send_to_table(T)`` to every join with T, linked by the table's id only; a remote table links nothing), and *stream*
ones (from ``partition_by`` or ``broadcast`` to the operator that reads the intermediate stream). Source:
planner-with-tables, "OperatorSpec graph analysis"; rule P2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_samza.application.descriptors import TableKind
from airflow_samza.application.operator_spec import OperatorSpec
from airflow_samza.application.operator_specs import InputOperatorSpec, SendToTableSpec, StreamJoinSpec, TableJoinSpec
from airflow_samza.errors import Unreachable
from airflow_samza.grouping import grouped
from airflow_samza.planner.graphs import upstream_first

if TYPE_CHECKING:
    from airflow_samza.application.application import ApplicationSpec


@dataclass(frozen=True)
class JobGraph:
    """The operators that something can reach, in an order in which each comes after its inputs and ties go by id.

    ``outputs`` are the real edges forward, ``table_edges`` the virtual ones, all sorted by operator id.
    """

    operators: tuple[OperatorSpec, ...]
    outputs: Mapping[str, tuple[OperatorSpec, ...]]
    table_edges: Mapping[str, tuple[OperatorSpec, ...]]
    table_writers: Mapping[str, tuple[SendToTableSpec, ...]]
    table_readers: Mapping[str, tuple[TableJoinSpec, ...]]

    @property
    def inputs(self) -> tuple[InputOperatorSpec, ...]:
        """The operators at which messages of input and intermediate streams enter."""
        return tuple(op for op in self.operators if isinstance(op, InputOperatorSpec))

    @property
    def joins(self) -> tuple[StreamJoinSpec | TableJoinSpec, ...]:
        """The joins whose streams must agree, by id. A remote table is everywhere, so its joins constrain nothing."""
        constrained = (
            op
            for op in self.operators
            if isinstance(op, StreamJoinSpec)
            or (isinstance(op, TableJoinSpec) and op.table.kind is not TableKind.REMOTE)
        )
        return tuple(sorted(constrained, key=lambda op: op.op_id))

    def next_operators(self, op: OperatorSpec) -> tuple[OperatorSpec, ...]:
        """The real and the virtual edges forward."""
        return self.outputs.get(op.op_id, ()) + self.table_edges.get(op.op_id, ())


def collect_operator_graph(spec: ApplicationSpec) -> JobGraph:
    """Walk the application from its inputs; one without any is rejected."""
    if not spec.inputs:
        raise Unreachable(
            f"The application {spec.name!r} has no input stream, so nothing can reach it.",
            hint="Declare one with app.input_stream(…).",
            application=spec.name,
        )
    by_id = sorted(spec.operators, key=lambda op: op.op_id)
    forward = grouped((source.op_id, op) for op in by_id for source in op.inputs)
    outputs = {op_id: tuple(dict.fromkeys(following)) for op_id, following in forward.items()}
    ordered = _in_order(spec.operators)
    writers = grouped((op.table.table_id, op) for op in ordered if isinstance(op, SendToTableSpec))
    readers = grouped((op.table.table_id, op) for op in ordered if isinstance(op, TableJoinSpec))
    # What is written to a remote table is found from everywhere, so it ties no streams together (rule P2).
    tying = {table: ops for table, ops in writers.items() if ops[0].table.kind is not TableKind.REMOTE}
    return JobGraph(
        operators=ordered,
        outputs=outputs,
        table_edges={op.op_id: tuple(readers[table]) for table, ops in tying.items() if table in readers for op in ops},
        table_writers={table: tuple(ops) for table, ops in writers.items()},
        table_readers={table: tuple(ops) for table, ops in readers.items()},
    )


def _in_order(operators: Iterable[OperatorSpec]) -> tuple[OperatorSpec, ...]:
    """Return the operators, each after its inputs, ties by id: the same order however they were declared (rule P9)."""
    by_id = {op.op_id: op for op in operators}
    before = {op_id: [source.op_id for source in op.inputs if source.op_id in by_id] for op_id, op in by_id.items()}
    return tuple(by_id[op_id] for op_id in upstream_first(before))

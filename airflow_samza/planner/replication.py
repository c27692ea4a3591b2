"""The tasks that handle broadcast messages: every task fills its tables with them.

Along every other path task 0 alone handles them.

Every task reads all of a broadcast stream. Where its messages fill a table, that is the meaning: each task looks its
own messages up in all of them. Anywhere else (a merge with messages that one task holds, an output, a result) each
message counts once, so one task handles it. An operator that leads to a table and to something else is run by every
task, and task 0 hands on what it gives to anything but the table. Low-level tasks are handed all of a broadcast, as
Samza's ``task.broadcast.inputs``: they decide what to do with it. The planner finds them, and the program of a stage is
compiled by them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from airflow_samza.application.descriptors import TableDescriptor, TableKind
from airflow_samza.application.operator_spec import OperatorSpec
from airflow_samza.application.operator_specs import InputOperatorSpec, SendToTableSpec, TableJoinSpec, TaskSpec
from airflow_samza.grouping import grouped
from airflow_samza.planner.graphs import reached


@dataclass(frozen=True)
class Replication:
    """The operators whose messages all tasks hold alike.

    ``replicated``: operators (by id) whose messages every task would make in the same way, all of them.

    ``everywhere``: those of them that every task runs, because they lead to a table.
    """

    replicated: frozenset[str]
    everywhere: frozenset[str]

    def reaches(self, source: OperatorSpec, op: OperatorSpec) -> bool:
        """Return whether messages go from one operator to the next one in every task; where not, in task 0."""
        return source.op_id not in self.replicated or op.op_id in self.everywhere or isinstance(op, TaskSpec)


def find_replication(operators: Iterable[OperatorSpec], is_broadcast: Callable[[str], bool]) -> Replication:
    """The replication among operators; ``is_broadcast`` answers for a stream's id.

    One walk forward, one back: the cost is linear.
    """
    ordered = list(operators)
    following = grouped((source.op_id, op) for op in ordered for source in op.inputs)
    writers: list[OperatorSpec] = [op for op in ordered if isinstance(op, SendToTableSpec) and _is_kept(op.table)]
    joins = [op for op in ordered if isinstance(op, TableJoinSpec) and _is_kept(op.table)]
    readers = grouped((op.table.table_id, op) for op in joins)
    own: list[OperatorSpec] = [
        *(op for op in ordered if isinstance(op, InputOperatorSpec) and not is_broadcast(op.stream.stream_id)),
        *(op for op in joins if not all(is_broadcast(stream_id) for stream_id in op.table.side_inputs)),
    ]

    def differing_behind(op: OperatorSpec) -> list[OperatorSpec]:
        # A table that differs makes what is looked up in it differ.
        looked_up = readers.get(op.table.table_id, []) if isinstance(op, SendToTableSpec) and _is_kept(op.table) else []
        return [*following.get(op.op_id, ()), *looked_up]

    differing = {op.op_id for op in reached(own, differing_behind)}  # what they give differs from task to task
    replicated = frozenset(op.op_id for op in ordered) - differing
    everywhere = reached(
        (op for op in writers if op.op_id in replicated),
        lambda op: [source for source in op.inputs if source.op_id in replicated],
    )
    return Replication(replicated, frozenset(op.op_id for op in everywhere))


def _is_kept(table: TableDescriptor) -> bool:
    """Return whether each task keeps rows of its own of a table; a remote one is one for all."""
    return table.kind is not TableKind.REMOTE

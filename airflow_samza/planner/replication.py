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

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from airflow_samza.application.descriptors import TableDescriptor, TableKind
from airflow_samza.application.operator_spec import OperatorSpec
from airflow_samza.application.operator_specs import InputOperatorSpec, SendToTableSpec, TableJoinSpec, TaskSpec


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

    def in_one_task(self, op: OperatorSpec) -> bool:
        """Return whether some of what arrives at an operator is handled by task 0 alone."""
        return not all(self.reaches(source, op) for source in op.inputs)


def find_replication(operators: Iterable[OperatorSpec], is_broadcast: Callable[[str], bool]) -> Replication:
    """The replication among operators; ``is_broadcast`` answers for a stream's id.

    One walk forward, one back: the cost is linear.
    """
    ordered = list(operators)
    following: dict[str, list[OperatorSpec]] = defaultdict(list)
    readers: dict[str, list[OperatorSpec]] = defaultdict(list)
    waiting: list[OperatorSpec] = []
    for op in ordered:
        for source in op.inputs:
            following[source.op_id].append(op)
        if isinstance(op, InputOperatorSpec):
            if not is_broadcast(op.stream.stream_id):
                waiting.append(op)
        elif isinstance(op, TableJoinSpec) and op.table.kind is not TableKind.REMOTE:
            readers[op.table.table_id].append(op)
            if not all(is_broadcast(stream_id) for stream_id in op.table.side_inputs):
                waiting.append(op)
    differing: set[str] = set()  # what they give differs from task to task
    while waiting:
        op = waiting.pop()
        if op.op_id in differing:
            continue
        differing.add(op.op_id)
        waiting += following[op.op_id]
        if isinstance(op, SendToTableSpec) and _is_kept(op.table):
            waiting += readers[op.table.table_id]  # a table that differs makes what is looked up in it differ
    replicated = frozenset(op.op_id for op in ordered) - differing
    everywhere: set[str] = set()
    waiting = [
        op for op in ordered if isinstance(op, SendToTableSpec) and _is_kept(op.table) and op.op_id in replicated
    ]
    while waiting:
        op = waiting.pop()
        if op.op_id in replicated and op.op_id not in everywhere:
            everywhere.add(op.op_id)
            waiting += op.inputs
    return Replication(replicated, frozenset(everywhere))


def _is_kept(table: TableDescriptor) -> bool:
    """Return whether each task keeps rows of its own of a table; a remote one is one for all."""
    return table.kind is not TableKind.REMOTE

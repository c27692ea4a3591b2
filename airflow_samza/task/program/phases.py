"""The order in which a stage's inputs are read: what fills a table comes before what looks it up (rule M8)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from airflow_samza.application.operator_spec import OperatorSpec
from airflow_samza.application.operator_specs import InputOperatorSpec, SendToTableSpec, TableJoinSpec
from airflow_samza.grouping import grouped
from airflow_samza.planner.graphs import reached


@dataclass(frozen=True)
class Phases:
    """For each operator (by id) the phase in which it runs, and the joins of a table that is written behind them.

    An edge from an earlier phase to a later one is held back until the later phase begins.
    """

    of: Mapping[str, int]
    one_by_one: frozenset[str]
    interleaved: bool = False
    """True where a table is looked up while it is being written, so that the order of messages shows."""


def order_phases(operators: Sequence[OperatorSpec], *, bounded: bool = True) -> Phases:
    """The phases of a stage's operators, given in an order in which each comes after its inputs.

    What is not bounded has one phase: its writers never run to their end. A stream that the stage itself writes is read
    no earlier than it is written.
    """
    members = {operator.op_id for operator in operators}
    following = grouped(
        (source.op_id, operator.op_id)
        for operator in operators
        for source in operator.inputs
        if source.op_id in members
    )
    writers = grouped(
        (operator.table.table_id, operator.op_id) for operator in operators if isinstance(operator, SendToTableSpec)
    )
    joins = [operator for operator in operators if isinstance(operator, TableJoinSpec)]
    before = {join.op_id: set(writers.get(join.table.table_id, ())) for join in joins}
    if not bounded:
        looked_up = frozenset(join for join, writing in before.items() if writing)
        return Phases(dict.fromkeys((operator.op_id for operator in operators), 0), looked_up, bool(looked_up))
    # Writers that depend on the join, also through other tables or streams of the stage's own, cannot run to their end
    # before it.
    readers = _readers_of_own_streams(operators)
    onward = {op_id: [*following.get(op_id, ()), *readers[op_id]] for op_id in members}
    circular: set[str] = set()
    interleaved = False
    for join in joins:
        circular.update({join.op_id} if _reachable(join.op_id, following, before) & before[join.op_id] else ())
        behind = _reachable(join.op_id, onward, before)
        interleaved = interleaved or bool(behind & before[join.op_id])
        before[join.op_id] -= behind
    written_by = _reversed(readers)
    phase = dict.fromkeys((operator.op_id for operator in operators), 0)
    changed = True
    while changed:  # at most once per table in a chain of tables
        changed = False
        for operator in operators:
            least = [phase[source.op_id] for source in operator.inputs if source.op_id in members]
            least += [phase[writer] + 1 for writer in before.get(operator.op_id, ())]
            least += [phase[writer] for writer in written_by.get(operator.op_id, ())]
            if max(least, default=0) > phase[operator.op_id]:
                phase[operator.op_id] = max(least)
                changed = True
    for operator in reversed(
        operators
    ):  # what only later phases need is read when they begin, not held back until then
        if operator.op_id in following and not operator.is_terminal:
            phase[operator.op_id] = max(phase[operator.op_id], min(phase[op_id] for op_id in following[operator.op_id]))
    return Phases(phase, frozenset(circular), interleaved)


def _readers_of_own_streams(operators: Sequence[OperatorSpec]) -> dict[str, list[str]]:
    """By operator, the inputs that read what it sends: streams that the stage itself writes."""
    inputs = {
        operator.stream.stream_id: operator.op_id for operator in operators if isinstance(operator, InputOperatorSpec)
    }
    return {
        operator.op_id: [inputs[stream_id] for stream_id in operator.written_streams if stream_id in inputs]
        for operator in operators
    }


def _reversed(edges: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    return grouped((target, source) for source, targets in edges.items() for target in targets)


def _reachable(start: str, following: Mapping[str, Iterable[str]], before: Mapping[str, Iterable[str]]) -> set[str]:
    joins_of = _reversed(before)
    return reached([start], lambda op_id: [*following.get(op_id, ()), *joins_of.get(op_id, ())])

"""End-of-stream: the bookkeeping of a consuming task, and who sends how many messages.

A task counts by it; the stage runner and progress reports ask it what has ended.
Source: control-messages, "the reconciliation process"; rules C1–C3, C5–C7, C9.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_samza.control.messages import EndOfStreamMessage, ProducerEnds, TaskCounts
from airflow_samza.planner.graphs import reached
from airflow_samza.planner.plan import ExecutionPlan


@dataclass(frozen=True)
class PartitionEnded:
    """The end of one partition of a stream for this task. ``final`` False ends a slice, not the stream (rule C9)."""

    stream: str
    partition: int
    final: bool = True


@dataclass
class _Partition:
    tasks: set[str] = field(default_factory=set)
    total: int | None = None
    ended: bool = False
    final: bool = True


class EndOfStreamBookkeeping:
    """Bookkeeping of ended partitions: per (stream, partition) the producer tasks that ended, against ``taskCount``.

    ``partitions`` are all that the task owns; side inputs are not among them (rule C5). ``producer_counts`` serve
    messages that carry no task count. The state goes into the checkpoint (:meth:`checkpoint`, :meth:`restore`), so that
    a restart between two messages still ends.

    >>> ends = EndOfStreamBookkeeping([("views", 0)])
    >>> ends.update("views", 0, EndOfStreamMessage("task-0", 2, stream_id="views"))
    >>> ends.update("views", 0, EndOfStreamMessage("task-1", 2, stream_id="views"))
    PartitionEnded(stream='views', partition=0, final=True)
    >>> ends.all_ended()
    True
    """

    def __init__(self, partitions: Iterable[tuple[str, int]], producer_counts: Mapping[str, int] | None = None) -> None:
        self._partitions = {(stream, partition): _Partition() for stream, partition in partitions}
        self._producer_counts = dict(producer_counts or {})
        self._counts = TaskCounts(self._producer_counts)

    def update(
        self, stream: str, partition: int, message: EndOfStreamMessage, *, offset: object = None
    ) -> PartitionEnded | None:
        """Record one message; return the event when this message ends the partition, and None otherwise.

        A message of a partition that is not this task's (a side input, rule C5) changes nothing. A task count that
        contradicts an earlier one of the same stream is a :class:`~airflow_samza.errors.ControlError` (rule C3).
        """
        state = self._partitions.get((stream, partition))
        if state is None:
            return None
        if message.task_name is None:  # from a source, or aggregated: it speaks for all producers (rule C2)
            if not state.ended:
                state.final = state.final and message.final
            return self._end(stream, partition, state)
        total = self._counts.take(stream, partition, message, offset)
        if state.ended:
            return None
        state.total = total
        state.tasks.add(message.task_name)
        state.final = state.final and message.final
        return self._end(stream, partition, state) if len(state.tasks) >= total else None

    def has_heard_none(self, stream: str, partition: int) -> bool:
        """Return whether a partition of this task has got no message yet."""
        state = self._partitions.get((stream, partition))
        return state is not None and not state.ended and not state.tasks

    def end(self, stream: str, partition: int, ends: ProducerEnds, *, offset: object = None) -> PartitionEnded | None:
        """Record the ends of all producers, the first messages of their partition, as :meth:`update` would each.

        Their names are not kept: the partition has ended.
        """
        state = self._partitions[stream, partition]
        state.total = self._counts.take(stream, partition, ends.messages[0], offset)
        state.final = state.final and ends.messages[0].final
        return self._end(stream, partition, state)

    def is_ended(self, stream: str, partition: int) -> bool:
        """Return whether a partition has ended."""
        state = self._partitions.get((stream, partition))
        return state is not None and state.ended

    def is_final(self, stream: str) -> bool:
        """Return whether all ends so far are ends of the stream, and not of an input range (rule C9)."""
        return all(state.final for (name, _), state in self._partitions.items() if name == stream)

    def stream_ended(self, stream: str) -> bool:
        """Return whether all of this task's partitions of a stream have ended; False where it owns none."""
        states = [state for (name, _), state in self._partitions.items() if name == stream]
        return bool(states) and all(state.ended for state in states)

    def all_ended(self) -> bool:
        """Return whether all partitions have ended; True also for a task that owns none."""
        return all(state.ended for state in self._partitions.values())

    def missing(self) -> dict[tuple[str, int], tuple[int, int | None]]:
        """Return the partitions that have not ended, with the producers that ended, of how many (None: not known)."""
        return {
            place: (len(state.tasks), state.total if state.total is not None else self._producer_counts.get(place[0]))
            for place, state in sorted(self._partitions.items())
            if not state.ended
        }

    def checkpoint(self, *, names_of_ended: bool = True) -> list[dict[str, Any]]:
        """Return the state as JSON, one object per partition that anything is known of (rule C6).

        What has ended needs no names of producers any more (``names_of_ended`` False): with every task naming every
        task, manifests would grow with their number squared.
        """
        return [
            {
                "stream": stream,
                "partition": partition,
                "total_tasks": state.total,
                "tasks": sorted(state.tasks) if names_of_ended or not state.ended else [],
                "ended": state.ended,
                "emitted": state.ended,
                "final": state.final,
            }
            for (stream, partition), state in sorted(self._partitions.items())
            if state.tasks or state.ended
        ]

    def restore(self, checkpoint: Iterable[Mapping[str, Any]]) -> None:
        """Restore what :meth:`checkpoint` wrote. What had ended by then was emitted, too."""
        for entry in checkpoint:
            stream, partition = str(entry["stream"]), int(entry["partition"])
            state = self._partitions.get((stream, partition))
            if state is None:
                continue
            total = entry.get("total_tasks")
            state.tasks = set(entry.get("tasks", ()))
            state.total = None if total is None else int(total)
            state.final = bool(entry.get("final", True))
            state.ended = bool(entry.get("ended", False)) or (
                state.total is not None and len(state.tasks) >= state.total
            )
            if state.total is not None:
                self._counts.restore(stream, state.total)

    def _end(self, stream: str, partition: int, state: _Partition) -> PartitionEnded | None:
        if state.ended:
            return None
        state.ended = True
        return PartitionEnded(stream, partition, state.final)


def output_sources(
    inputs_of: Mapping[str, Sequence[str]], input_streams: Mapping[str, str], writers: Mapping[str, Sequence[str]]
) -> dict[str, frozenset[str]]:
    """Return for each output stream the input streams from which it can be reached along operator outputs (rule C7).

    ``inputs_of`` holds the operators that each operator reads, ``input_streams`` the stream of each input operator,
    ``writers`` the operators that write each output. The walk stops at input operators; virtual edges through tables
    are not among ``inputs_of`` and do not count.
    """

    def before(operator: str) -> Sequence[str]:
        return () if operator in input_streams else inputs_of.get(operator, ())

    return {
        output: frozenset(input_streams[operator] for operator in reached(writing, before) if operator in input_streams)
        for output, writing in writers.items()
    }


def task_name(number: int) -> str:
    """Return the name of task ``number`` of a stage."""
    return f"task-{number}"


def task_partitions(plan: ExecutionPlan, stage_id: str, number: int) -> list[tuple[str, int]]:
    """Return the partitions of one task of a stage: *k* of every input that has one, and all of a broadcast.

    Side inputs are left out (rule C5).
    """
    return [
        (stream.stream_id, partition)
        for stream in (plan.stream(stream_id) for stream_id in plan.stage(stage_id).inputs)
        for partition in (
            range(stream.partitions) if stream.broadcast else ([number] if number < stream.partitions else [])
        )
    ]


def stage_output_sources(plan: ExecutionPlan, stage_id: str) -> dict[str, frozenset[str]]:
    """Return for each output of a stage the inputs of the stage that reach it (rule C7)."""
    stage = plan.stage(stage_id)
    operators = [plan.operator(op_id) for op_id in stage.operators]
    members = set(stage.operators)
    return output_sources(
        {operator.op_id: operator.inputs for operator in operators},
        {
            operator.op_id: operator.stream
            for operator in operators
            if operator.op == "input" and operator.stream is not None
        },
        {output: [writer for writer in plan.stream(output).writers if writer in members] for output in stage.outputs},
    )


def producing_task_count(plan: ExecutionPlan, stage_id: str, output: str) -> int:
    """Return how many tasks of a stage end an output: those that own a partition of an input that reaches it (rule C7).

    They are the first ones, as task k owns the partitions k. Their number is ``taskCount``.
    """
    tasks = plan.stage(stage_id).task_count
    sources = [plan.stream(name) for name in stage_output_sources(plan, stage_id).get(output, ())]
    owners = [(tasks if source.partitions else 0) if source.broadcast else source.partitions for source in sources]
    return min(max(owners, default=0), tasks)

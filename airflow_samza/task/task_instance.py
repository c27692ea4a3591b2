"""One task of a stage: its operators wired up; batches go in at an input, ends follow behind them (SEMANTICS C7)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_samza.application.operator_specs import InputOperatorSpec
from airflow_samza.control.end_of_stream import task_name
from airflow_samza.systems.dictionaries import decoded
from airflow_samza.task.held_back import HeldBack
from airflow_samza.task.operators.factory import TaskResources, make_operator
from airflow_samza.task.operators.low_level import LowLevelTask
from airflow_samza.task.operators.operator import Operator
from airflow_samza.task.report import OperatorReport
from airflow_samza.task.stage_program import Section, StageProgram, output_streams

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass
class _Node:
    """An operator with the edges behind it. ``open`` counts the inputs that have not ended."""

    op_id: str
    operator: Operator[Any]
    open: int
    final: bool = True
    ended: bool = False
    next: list[_Node] = field(default_factory=list)
    held: dict[str, HeldBack] = field(default_factory=dict)
    """Edges to a later phase (by operator id), and what waits on them."""
    held_end: dict[str, bool] = field(default_factory=dict)


class _Work(NamedTuple):
    """Batches before an operator, or (``emitted``) behind it."""

    node: _Node
    batches: Iterator[pa.RecordBatch]
    emitted: bool


def _before(node: _Node, batch: pa.RecordBatch) -> _Work:
    return _Work(node, iter((batch,)), False)


class TaskInstance:
    """The operators of one task section of one task.

    A batch is pushed through the graph depth first, without recursion, so a chain may be as long as it likes. Batches that reach
    the section's boundary are yielded. ``on_output_ended`` is called with (stream id, final) when everything that this task sends to an
    output has been sent.
    """

    def __init__(
        self,
        program: StageProgram,
        section: Section,
        task: int,
        resources: TaskResources,
        on_output_ended: Callable[[str, bool], None],
    ) -> None:
        self.name = task_name(task)
        self.program = program
        self.section = section
        self._on_output_ended = on_output_ended
        self._phase_of = program.phases.of
        self._nodes: dict[str, _Node] = {}
        self._outputs_open: dict[str, int] = {}
        self._outputs_final: dict[str, bool] = {}
        members = set(section.operators)
        for op_id in section.operators:
            compiled = program.operators[op_id]
            sources = [source.op_id for source in compiled.spec.inputs]
            open_inputs = sum(1 for source in sources if source in members or source == section.entry)
            self._nodes[op_id] = _Node(op_id, make_operator(compiled, resources), max(open_inputs, 1))
        self._entry = [self._nodes[op_id] for op_id in section.operators if self._reads(op_id, section.entry)]
        for op_id, node in self._nodes.items():
            for source in program.operators[op_id].spec.inputs:
                if source.op_id in members:
                    self._connect(self._nodes[source.op_id], node)
            for stream in output_streams(program.operators[op_id].spec):
                self._outputs_open[stream] = self._outputs_open.get(stream, 0) + 1

    def _reads(self, op_id: str, entry: str | None) -> bool:
        return entry is not None and any(source.op_id == entry for source in self.program.operators[op_id].spec.inputs)

    def _connect(self, source: _Node, node: _Node) -> None:
        if self._phase_of[node.op_id] > self._phase_of[source.op_id]:
            source.held[node.op_id] = HeldBack()
        source.next.append(node)

    @property
    def low_level_tasks(self) -> list[LowLevelTask]:
        """The operators that are low-level tasks."""
        return [node.operator for node in self._nodes.values() if isinstance(node.operator, LowLevelTask)]

    def input_operators(self) -> Mapping[str, str]:
        """Stream id → operator id of the inputs in this section."""
        found = {}
        for op_id in self._nodes:
            spec = self.program.operators[op_id].spec
            if isinstance(spec, InputOperatorSpec):
                found[spec.stream.stream_id] = op_id
        return found

    def start(self) -> None:
        """Start all operators."""
        for node in self._nodes.values():
            node.operator.start()

    def push(self, op_id: str, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Give a batch to an operator; yields what reaches the boundary."""
        return self._run([_before(self._nodes[op_id], batch)])

    def push_entry(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Give a batch of the section's entry to all operators that read it."""
        return self._run([_before(node, batch) for node in reversed(self._entry)])

    def end(self, op_id: str, final: bool) -> Iterator[pa.RecordBatch]:
        """End an input: everything behind it that has no other open input flushes (when final) and ends, outputs last."""
        return self._end([(self._nodes[op_id], final)])

    def end_entry(self, final: bool) -> Iterator[pa.RecordBatch]:
        """End the section's entry."""
        return self._end([(node, final) for node in self._entry])

    def release(self, phase: int) -> Iterator[pa.RecordBatch]:
        """Begin a phase: what was held back for its operators goes on, and ends behind it."""
        for source in list(self._nodes.values()):
            for op_id in list(source.held):
                if self._phase_of[op_id] > phase:
                    continue
                node, held = self._nodes[op_id], source.held.pop(op_id)
                for batch in held.drain():
                    yield from self._run([_before(node, batch)])
                if op_id in source.held_end:
                    yield from self._end([(node, source.held_end.pop(op_id))])

    def _run(self, stack: list[_Work]) -> Iterator[pa.RecordBatch]:
        """Works a stack off, depth first: batches before an operator are processed, batches behind it handed on."""
        while stack:
            node, batches, emitted = stack[-1]
            batch = next(batches, None)
            if batch is None:
                stack.pop()
            elif not batch.num_rows:
                continue
            elif not emitted:
                node.operator.messages_in += batch.num_rows
                taken = batch if node.operator.takes_dictionaries else decoded(batch)
                stack.append(_Work(node, iter(node.operator.process(taken)), True))
            else:
                node.operator.messages_out += batch.num_rows
                if node.op_id == self.section.boundary:
                    yield decoded(batch)
                for following in reversed(node.next):
                    if not self._held(node, following, batch):
                        stack.append(_before(following, batch))

    def _held(self, source: _Node, node: _Node, batch: pa.RecordBatch) -> bool:
        held = source.held.get(node.op_id)
        if held is None:
            return False
        held.add(decoded(batch))
        return True

    def _end(self, work: list[tuple[_Node, bool]]) -> Iterator[pa.RecordBatch]:
        waiting = list(work)
        while waiting:
            node, final = waiting.pop(0)
            if node.ended:
                continue
            node.final = node.final and final
            node.open -= 1
            if node.open > 0:
                continue
            node.ended = True
            if node.final:  # SEMANTICS C9: the end of a slice flushes nothing
                yield from self._run([_Work(node, iter(node.operator.flush()), True)])
            node.operator.finish()
            for following in node.next:
                if following.op_id in node.held:
                    node.held_end[following.op_id] = node.final
                else:
                    waiting.append((following, node.final))
            for stream in output_streams(self.program.operators[node.op_id].spec):
                self._writer_ended(stream, node.final)

    def _writer_ended(self, stream: str, final: bool) -> None:
        self._outputs_final[stream] = self._outputs_final.get(stream, True) and final
        self._outputs_open[stream] -= 1
        if not self._outputs_open[stream]:
            self._on_output_ended(stream, self._outputs_final[stream])

    def reports(self) -> dict[str, OperatorReport]:
        """Messages in and out of every operator."""
        return {op_id: OperatorReport(node.operator.messages_in, node.operator.messages_out) for op_id, node in self._nodes.items()}

    def close(self) -> None:
        """Close all operators, also when one of them fails; the first failure is raised."""
        failure: Exception | None = None
        for node in self._nodes.values():
            for held in node.held.values():
                held.close()
            try:
                node.operator.close()
            except Exception as error:
                failure = failure or error
        if failure is not None:
            raise failure

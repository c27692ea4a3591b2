"""One task of a stage: its operators wired up.

Batches and watermarks go in at an input, ends follow behind them (rules C4, C7).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pyarrow as pa

from airflow_samza.application.operator_specs import InputOperatorSpec
from airflow_samza.control.end_of_stream import task_name
from airflow_samza.control.operator_watermark import OperatorWatermark
from airflow_samza.control.watermarks import END_OF_TIME, NONE_YET
from airflow_samza.records import understood
from airflow_samza.runs.records.expectations import Checked
from airflow_samza.systems.dictionaries import decoded
from airflow_samza.task.checkpoint import fitting_state
from airflow_samza.task.loop.checks import KeyPlaces, checked_times, key_counts
from airflow_samza.task.loop.operator_nodes import (
    Edge,
    HeldBack,
    Node,
    State,
    Work,
    before,
    hands_time_on,
    make_operator,
    output_watermark,
)
from airflow_samza.task.messages.bad_records import BadRecords
from airflow_samza.task.operators.aggregation.combiner import Combiner
from airflow_samza.task.operators.low_level.task import LowLevelTask
from airflow_samza.task.operators.operator import Operator
from airflow_samza.task.operators.stateless import ExpectingInput
from airflow_samza.task.program.kinds.operator_kind import TaskResources
from airflow_samza.task.program.stage_program import StageProgram, StageSection
from airflow_samza.task.report import OperatorReport, added
from airflow_samza.task.tables.remote_table import RemoteTables

SOURCE = ""
"""The upstream of an operator at which a section begins: the stream, or the section before."""


class TaskInstance:
    """The operators of one task section of one task.

    A batch is pushed through the graph depth first, without recursion, so a chain may be as long as it likes. Batches
    that reach the section's boundary are yielded. ``on_output_ended`` is called with (stream id, final) when everything
    that this task sends to an output has been sent.
    """

    def __init__(
        self,
        program: StageProgram,
        section: StageSection,
        task: int,
        resources: TaskResources,
        on_output_ended: Callable[[str, bool], None],
        hand_over: Callable[[str, pa.RecordBatch], Iterator[pa.RecordBatch]],
    ) -> None:
        self.name = task_name(task)
        self._remote = RemoteTables(program.spec, program.stage.task_count, self.name)
        resources = replace(resources, remote=self._remote)
        self.program = program
        self.section = section
        self._on_output_ended = on_output_ended
        self._hand_over = hand_over
        self._handed_over = {*section.sets_aside, section.boundary}
        self._phase_of = program.phases.of
        self._nodes: dict[str, Node] = {}
        self._writers: dict[str, list[Node]] = {}
        self._replication = program.replication
        self._first = task == 0
        members = set(section.operators)
        for op_id in section.operators:
            compiled = program.operators[op_id]
            sources = [source.op_id for source in compiled.spec.inputs]
            upstreams = [SOURCE if source == section.entry else source for source in sources] or [SOURCE]
            operator = make_operator(compiled, resources, beside=not self._repeats(op_id))
            self._nodes[op_id] = Node(
                op_id,
                operator,
                len(upstreams),
                OperatorWatermark(upstreams, output_watermark(operator)),
                keys=key_counts(compiled.spec),
                times=checked_times(operator),
            )
        for check in program.plan.key_checks:
            if check.op_id in members and task < check.partitions:
                spec = program.operators[check.op_id].spec
                self._nodes[check.op_id].places[check.side] = KeyPlaces(check, spec, task)
        self._arriving: dict[str, list[Edge]] = {op_id: [] for op_id in section.arriving}
        for op_id, node in self._nodes.items():
            for side, source in enumerate(program.operators[op_id].spec.inputs):
                # what is broadcast goes on in task 0, and where every task keeps it
                goes_on = self._first or self._replication.reaches(source, node.operator.spec)
                edge = Edge(node, side, goes_on)
                if source.op_id not in members:
                    self._arriving[source.op_id].append(edge)
                    continue
                if self._phase_of[op_id] > self._phase_of[source.op_id]:
                    self._nodes[source.op_id].held[op_id] = HeldBack()
                self._nodes[source.op_id].next.append(edge)
            for stream in program.operators[op_id].spec.written_streams:
                self._writers.setdefault(stream, []).append(node)
        self._timed = [node for node in self._nodes.values() if type(node.operator).on_time is not Operator.on_time]

    def _repeats(self, op_id: str) -> bool:
        """Return whether this task only repeats what task 0 does, which is neither counted nor reported twice."""
        return not self._first and op_id in self._replication.replicated

    @property
    def low_level_tasks(self) -> list[LowLevelTask]:
        """The operators that are low-level tasks."""
        return [node.operator for node in self._nodes.values() if isinstance(node.operator, LowLevelTask)]

    @property
    def all_ended(self) -> bool:
        """Return whether every operator has seen the end of all its inputs."""
        return all(node.ended for node in self._nodes.values())

    @property
    def follows_the_clock(self) -> bool:
        """Return whether any of its operators acts because time passes."""
        return any(node.operator.waits_for_time for node in self._timed if not node.ended)

    def input_operators(self) -> Mapping[str, str]:
        """Stream id → operator id of the inputs in this section."""
        specs = {op_id: node.operator.spec for op_id, node in self._nodes.items()}
        return {spec.stream.stream_id: op_id for op_id, spec in specs.items() if isinstance(spec, InputOperatorSpec)}

    def meeting_inputs(self) -> dict[str, set[str]]:
        """Return the inputs that each input meets in this section: in an operator, or in a stream that both write."""
        reached: dict[str, set[str]] = {}
        for stream, op_id in self.input_operators().items():
            places, waiting = {op_id}, [self._nodes[op_id]]
            while waiting:
                node = waiting.pop()
                places.update(f"to {written}" for written in self.program.operators[node.op_id].spec.written_streams)
                behind = [edge.node for edge in node.next if edge.node.op_id not in places]
                places.update(other.op_id for other in behind)
                waiting += behind
            reached[stream] = places
        return {
            stream: {other for other in reached if other != stream and reached[other] & places}
            for stream, places in reached.items()
        }

    def start(self) -> None:
        """Start all operators."""
        for node in self._nodes.values():
            node.operator.start()

    # -- what goes in --------------------------------------------------------------------------------------------------

    def push(self, op_id: str, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Give a batch to an operator; yields what reaches the boundary."""
        return self._run([before(self._nodes[op_id], batch)])

    def take_partials(self, stream_id: str, partials: pa.RecordBatch) -> None:
        """Give partial results to the combiner that sends such to a stream."""
        for node in self._writers[stream_id]:
            assert isinstance(node.operator, Combiner)
            node.operator.take(partials)

    def push_from(self, op_id: str, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Give a batch of an operator of an earlier section to all that read it, in this one and behind."""
        if op_id in self._handed_over:
            yield from self._hand_over(op_id, batch)
        yield from self._run(
            [before(edge.node, batch, edge.side) for edge in reversed(self._arriving[op_id]) if edge.open]
        )

    def advance(self, op_id: str, timestamp: int) -> Iterator[pa.RecordBatch]:
        """Advance event time at an input, or behind an operator of an earlier section, to ``timestamp`` (ms).

        Operators behind it act on it, each before those behind it.
        """
        return self._advance([(node, upstream, timestamp) for node, upstream in self._arrivals(op_id)])

    def tick(self, now: int) -> Iterator[pa.RecordBatch]:
        """Advance processing time to ``now`` (ms)."""
        for node in self._timed:
            if not node.ended:
                yield from self._run([Work(node, iter(node.operator.on_time(now)), None)])
                if node.operator.moves_watermark:
                    yield from self._advance(self._moved(node))

    def settle(self) -> Iterator[pa.RecordBatch]:
        """End an epoch: everything in flight goes out, from the first operator to the last."""
        for node in self._nodes.values():
            if not node.ended:
                yield from self._run([Work(node, iter(node.operator.settle()), None)])

    def end(self, op_id: str, final: bool) -> Iterator[pa.RecordBatch]:
        """End an input, or an operator of an earlier section.

        All behind it without another open input flushes (when final) and ends, outputs last.
        """
        return self._end([(node, upstream, final) for node, upstream in self._arrivals(op_id)])

    def _arrivals(self, op_id: str) -> list[tuple[Node, str]]:
        """Return the operators at which an input or an operator of an earlier section arrives, and as what upstream."""
        if op_id in self._nodes:
            return [(self._nodes[op_id], SOURCE)]
        upstream = SOURCE if op_id == self.section.entry else op_id
        return [(edge.node, upstream) for edge in self._arriving[op_id]]

    def has_ended(self, op_id: str) -> bool:
        """Return whether an operator has seen the end of all its inputs."""
        return self._nodes[op_id].ended

    def watermark(self, op_id: str) -> int:
        """Return the output watermark of an operator, which is the input watermark of those behind it; -1: none yet."""
        return self._nodes[op_id].marks.output

    def release(self, phase: int) -> Iterator[pa.RecordBatch]:
        """Begin a phase: push what was held back for its operators, and its ends."""
        for source in list(self._nodes.values()):
            for node, side, is_open in source.next:
                if node.op_id not in source.held or self._phase_of[node.op_id] > phase:
                    continue
                held = source.held.pop(node.op_id)
                for batch in held.drain() if is_open else ():
                    yield from self._run([before(node, batch, side)])
                if source.marks.output > NONE_YET:
                    yield from self._advance([(node, source.op_id, source.marks.output)])
                if node.op_id in source.held_end:
                    yield from self._end([(node, source.op_id, source.held_end.pop(node.op_id))])

    # -- within --------------------------------------------------------------------------------------------------------

    def _run(self, stack: list[Work]) -> Iterator[pa.RecordBatch]:
        """Works a stack off, depth first: batches before an operator are processed, batches behind it handed on."""
        movers: dict[str, Node] = {}
        while stack:
            node, batches, side = stack[-1]
            batch = next(batches, None)
            operator = node.operator
            if batch is None:
                stack.pop()
            elif not batch.num_rows:
                continue
            elif side is not None:
                operator.messages_in += batch.num_rows
                taken = batch if operator.takes_dictionaries else decoded(batch)
                if side in node.places:
                    node.places[side].see(taken)
                if node.keys:
                    node.keys[side].see(taken)
                if node.times is not None:
                    node.times.note(taken)
                results = operator.process_from(taken, side)
                stack.append(Work(node, iter(results) if node.times is None else node.times.through(results), None))
                if operator.moves_watermark:
                    movers[node.op_id] = node
            else:
                operator.messages_out += batch.num_rows
                if node.op_id in self._handed_over:
                    yield from self._hand_over(node.op_id, decoded(batch))
                for edge in reversed(node.next):
                    if edge.open and not self._held(node, edge.node, batch):
                        stack.append(before(edge.node, batch, edge.side))
        for node in movers.values():
            yield from self._advance(self._moved(node))

    def _held(self, source: Node, node: Node, batch: pa.RecordBatch) -> bool:
        held = source.held.get(node.op_id)
        if held is None:
            return False
        held.add(decoded(batch))
        return True

    def _advance(self, work: Iterable[tuple[Node, str, int]]) -> Iterator[pa.RecordBatch]:
        waiting = deque(work)
        while waiting:
            node, upstream, timestamp = waiting.popleft()
            moved = node.marks.arrived(upstream, timestamp)
            if moved is None or (node.ended and (node.final or not hands_time_on(node.operator))):
                continue
            if not node.ended and moved < END_OF_TIME:  # the end of time is the end of the inputs: a flush
                yield from self._run([Work(node, iter(node.operator.on_watermark(moved)), None)])
                if node.times is not None:
                    node.times.forget()
            waiting.extend(self._moved(node))

    def _moved(self, node: Node) -> list[tuple[Node, str, int]]:
        """Yield the operators to which the moved output watermark of another has to be passed."""
        timestamp = node.marks.moved()
        if timestamp is None or timestamp == END_OF_TIME:
            return []
        return [(edge.node, node.op_id, timestamp) for edge in node.next if edge.node.op_id not in node.held]

    def _end(self, work: list[tuple[Node, str, bool]]) -> Iterator[pa.RecordBatch]:
        waiting = deque(work)
        while waiting:
            node, upstream, final = waiting.popleft()
            if node.ended:
                continue
            if final:  # what has ended for good holds the others back no more
                yield from self._advance([(node, upstream, END_OF_TIME)])
            node.final = node.final and final
            node.open -= 1
            if node.open > 0:
                continue
            node.ended = True
            yield from self._run([Work(node, iter(node.operator.settle()), None)])
            if node.final:  # rule C9: the end of an input range flushes nothing
                yield from self._run([Work(node, iter(node.operator.flush()), None)])
            node.operator.finish()
            for edge in node.next:
                if edge.node.op_id in node.held:
                    node.held_end[edge.node.op_id] = node.final
                else:
                    waiting.append((edge.node, node.op_id, node.final))
            for stream in self.program.operators[node.op_id].spec.written_streams:
                if all(writer.ended for writer in self._writers[stream]):
                    self._on_output_ended(stream, all(writer.final for writer in self._writers[stream]))

    # -- what is left --------------------------------------------------------------------------------------------------

    def output_watermarks(self) -> dict[str, int]:
        """The watermark of each output stream that has one.

        It is the least of the operators that write the stream and have not ended for good. The end of an input range is
        no end: how far time had come is what the readers of this run, and the next one, go by (rule C9).
        """
        watermarks = {}
        for stream, writers in self._writers.items():
            least = min(
                (writer.marks.input for writer in writers if not (writer.ended and writer.final)), default=END_OF_TIME
            )
            if NONE_YET < least < END_OF_TIME:
                watermarks[stream] = least
        return watermarks

    def checkpoint(self) -> dict[str, dict[str, Any]]:
        """Return how far each operator has come, as JSON by operator id."""
        return {op_id: node.checkpoint() for op_id, node in self._nodes.items()}

    def snapshot(self) -> State:
        """Return the state of the operators, and the batches that wait for a later phase."""
        return {name: tables for node in self._nodes.values() for name, tables in node.snapshot()}

    @understood("of a task's checkpoint")
    def restore(self, checkpoint: Mapping[str, Mapping[str, Any]], state: Mapping[str, Mapping[str, pa.Table]]) -> None:
        """Takes over what :meth:`checkpoint` and :meth:`snapshot` gave; to be called after :meth:`start`."""
        for op_id, node in self._nodes.items():
            if tables := state.get(op_id):
                with fitting_state(node.operator.spec.title):
                    node.operator.restore(tables)
            if op_id in checkpoint:
                node.restore(checkpoint[op_id], state)

    def reports(self) -> dict[str, OperatorReport]:
        """Messages in and out of every operator."""
        return {
            op_id: OperatorReport(node.operator.messages_in, node.operator.messages_out)
            for op_id, node in self._nodes.items()
        }

    def metrics(self) -> dict[str, float]:
        """Return what the operators have counted, added up by name.

        Of operators of a broadcast, which every task runs, task 0 reports.
        """
        nodes = [node for node in self._nodes.values() if not self._repeats(node.op_id)]
        counts = self._remote.metrics({table.table_id for node in nodes for table in node.operator.spec.tables})
        for node in nodes:
            bad = [node.operator.bad.metrics] if node.operator.bad is not None else []
            for more in (node.operator.metrics(), *bad, *(keys.metrics() for keys in node.keys)):
                counts = added(counts, more)
        return counts

    def expected(self) -> Iterator[tuple[str, list[Checked]]]:
        """Yield the findings about what is expected of inputs, by stream; of a broadcast task 0 has them."""
        for node in self._nodes.values():
            operator = node.operator
            if isinstance(operator, ExpectingInput) and not self._repeats(node.op_id):
                assert isinstance(operator.spec, InputOperatorSpec)
                yield operator.spec.stream.stream_id, operator.expectations.checked()

    def bad_records(self, op_id: str) -> BadRecords | None:
        """Return the handler of the messages on which an operator fails; None: they fail the task."""
        return self._nodes[op_id].operator.bad

    def bad_samples(self) -> list[str]:
        """Return some of the messages on which operators failed without failing the stage."""
        nodes = [node for node in self._nodes.values() if not self._repeats(node.op_id)]
        return [sample for node in nodes if node.operator.bad is not None for sample in node.operator.bad.samples]

    def close(self) -> None:
        """Close all operators, also when one of them fails."""
        with ExitStack() as stack:
            stack.callback(self._remote.close)
            for node in reversed(self._nodes.values()):
                stack.callback(node.operator.close)
                for held in node.held.values():
                    stack.callback(held.close)

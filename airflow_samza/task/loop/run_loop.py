"""The run loop: it reads a task's partitions, pushes batches, reconciles control messages and ends outputs.

Tries at tasks run it, and the test driver.
Source: control-messages, "The reconciliation of control messages happens inside TaskInstance"; rules C4–C9, M8.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace

import pyarrow as pa

from airflow_samza.chooser.runs import reject_left
from airflow_samza.config import Config
from airflow_samza.control.end_of_stream import task_name, task_partitions
from airflow_samza.control.messages import EndOfStreamMessage, WatermarkMessage
from airflow_samza.control.task_control import ControlEvent, StreamEnded, StreamWatermark, TaskControl
from airflow_samza.control.watermarks import END_OF_TIME, NONE_YET
from airflow_samza.grouping import grouped
from airflow_samza.quoting import show_messages
from airflow_samza.systems.system import Envelope, MessageRun
from airflow_samza.task.checkpoint import TaskCheckpoint, TaskStart
from airflow_samza.task.loop.checks import later_by, no_end
from airflow_samza.task.loop.operator_nodes import State
from airflow_samza.task.loop.outputs import TaskOutputs
from airflow_samza.task.loop.reading import InputReading, TaskInput
from airflow_samza.task.loop.set_aside import SetAside, in_order, with_order
from airflow_samza.task.loop.side_tables import SideTables
from airflow_samza.task.loop.source_watermarks import SourceWatermarks
from airflow_samza.task.loop.task_instance import TaskInstance
from airflow_samza.task.loop.task_tables import Filled, TaskTables
from airflow_samza.task.messages.bad_records import Reading, readable
from airflow_samza.task.messages.conform import SchemaConformer
from airflow_samza.task.messages.messages import CHUNK
from airflow_samza.task.messages.output_writers import Writer
from airflow_samza.task.program.kinds.operator_kind import TaskResources
from airflow_samza.task.program.stage_program import StageProgram
from airflow_samza.task.report import Boundary, InputReport, TaskReport, added
from airflow_samza.task.tables.store import TableStore

TICK_MS = 100
"""Milliseconds between calls of operators with the time while batches come."""


class SectionRun:
    """Runs one task section of a stage for one task; sections before and behind belong to other engines.

    The first section gets ``inputs``, a later one batches (:meth:`run_batches`). Both yield what the section hands to
    the section behind; a section without a boundary yields nothing and must be exhausted all the same. :meth:`report`
    is complete when it is exhausted.

    ``side_tables`` are the tables that side inputs feed, filled before anything else (rule S1; None: empty),
    and ``filled`` is what was read for that. ``start`` is where the epoch before ended (None: from the
    beginning). ``whole``: what is given is all there is, and an input without an end is an error; else it is one epoch,
    and inputs may stay open. An epoch takes ``limit`` messages at most, and ends soon after it has taken
    ``job.epoch.max.ms``. ``shut_down``: a task has asked that all end, so it reads nothing more.
    """

    def __init__(
        self,
        program: StageProgram,
        section: int,
        task: int,
        outputs: Mapping[str, Writer],
        tables: dict[str, TableStore] | None = None,
        clock: Callable[[], int] | None = None,
        *,
        side_tables: SideTables | None = None,
        filled: Filled | None = None,
        start: TaskStart | None = None,
        whole: bool = True,
        limit: int | None = None,
        shut_down: bool = False,
        aside: SetAside | None = None,
    ) -> None:
        show_messages(Config(program.spec.config).messages_shown)
        self._program = program
        self._section = program.sections[section]
        self._task = task
        self._name = task_name(task)
        self._started = time.perf_counter()
        self._clock = clock or (lambda: time.time_ns() // 1_000_000)
        self._start = start or TaskStart(TaskCheckpoint())
        self._whole = whole
        self._limit = limit
        self._budget_ms = None if whole else Config(program.spec.config).epoch_max_ms
        self._owned = grouped(task_partitions(program.plan, program.stage.stage_id, task))
        self.outputs = TaskOutputs(program, task, outputs, self._start.checkpoint.sent)
        side_tables = side_tables or SideTables(program, section)
        self._filled = filled or Filled()
        stores = tables if tables is not None else {}
        stores.update(side_tables.stores)
        self._tables = TaskTables(program, section, stores)
        self._control = TaskControl(
            [(stream, partition) for stream, partitions in self._owned.items() for partition in partitions],
            idle_timeout_ms=Config(program.spec.config).watermark_idle_timeout_ms,
            clock=self._clock,
        )
        self._sources = SourceWatermarks(self._start.checkpoint.sources)
        self._offsets = {stream: dict(numbers) for stream, numbers in self._start.checkpoint.offsets.items()}
        self._heads = {stream: dict(numbers) for stream, numbers in self._start.checkpoint.heads.items()}
        self._chooser = dict(self._start.checkpoint.chooser)
        self._aside = aside or SetAside("")
        self._order = 0
        self._reached: dict[str, Boundary] = {}
        self.set_aside: dict[str, Boundary] = {}
        """The progress of the streams that wait for a later section."""
        self._ticked = 0
        self._reading = Reading()
        self.state: State = {}
        """The state kept for the next epoch: tables by operator id, the local tables by ``table:<id>``."""
        self.report = TaskReport(program.stage.stage_id, self._name)
        resources = TaskResources(
            self._name,
            self.outputs.writers,
            self._tables.stores,
            self._owned,
            program.spec.config,
            program.phases.one_by_one,
            self._clock,
            self._reading,
            unbounded=program.unbounded,
        )
        self._instance = TaskInstance(program, self._section, task, resources, self.outputs.end, self._hand_over)
        self._operators = self._instance.input_operators()
        self._conformers = {stream: self._conformer(stream, op_id) for stream, op_id in self._operators.items()}
        self._control.beside = self._instance.meeting_inputs()
        self._unread: list[TaskInput] = []
        for low_level in self._instance.low_level_tasks:
            low_level.stops_at_commit = not whole  # an unbounded one reads in its next epoch what it leaves
            low_level.coordinator.shut_down = shut_down

    # -- running -------------------------------------------------------------------------------------------------------

    def run(
        self,
        inputs: Sequence[TaskInput],
        partials: Callable[[Callable[[str, pa.RecordBatch], None]], None] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Reads the inputs, table fillers first (rule M8).

        ``partials`` gives partial results that are sent beside those of the inputs, by the stream to which they go.
        """
        with closing(self._instance):
            self._begin()
            self._control.restore(self._start.checkpoint.control)
            self._control.watermarks.restore_heard(self._start.checkpoint.heard.get("watermarks", ()))
            for source in inputs:
                self._heads.setdefault(source.stream_id, {}).setdefault(source.partition, source.head)
            self._unread = list(inputs)
            if partials is not None:
                partials(self._instance.take_partials)
            yield from self._tick()
            yield from self._read_phases([source for source in inputs if source.stream_id in self._operators])
            yield from self._finished()

    def run_batches(
        self,
        batches: Iterable[pa.RecordBatch],
        boundary: Callable[[str], Boundary] = lambda _: Boundary(),
    ) -> Iterator[pa.RecordBatch]:
        """Run a later section with the ``batches`` of the one before.

        ``boundary`` is asked about each operator whose messages it gets when they are over.
        """
        with closing(self._instance):
            self._begin()
            yield from self._tick()
            yield from self._push_arriving(batches)
            reached = {op_id: boundary(op_id) for op_id in self._section.arriving}
            entry = self._section.entry
            assert entry is not None
            delay = self._program.delay_before(self._section)
            reached[entry] = replace(reached[entry], watermark=later_by(delay, reached[entry].watermark))
            self._reached = reached
            self.report.final = all(stream.final for stream in reached.values())
            for op_id, stream in reached.items():
                if NONE_YET < stream.watermark < END_OF_TIME:
                    yield from self._instance.advance(op_id, stream.watermark)
            for op_id, stream in reached.items():
                if stream.ended:
                    yield from self._instance.end(op_id, stream.final)
            yield from self._instance.settle()
            self._complete()

    def _push_arriving(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        entry = self._section.entry
        assert entry is not None
        schemas = {op_id: self._program.operators[op_id].schema for op_id in self._section.arriving}
        conformers = {
            op_id: SchemaConformer(schema, f"what {op_id} gives")
            for op_id, schema in schemas.items()
            if schema is not None
        }
        with ExitStack() as stack:
            readers = (self._aside.reader(op_id) for op_id in self._section.takes_up)
            waiting = [stack.enter_context(closing(reader)) for reader in readers]
            for op_id, self._order, batch in in_order(entry, batches, waiting):
                if batch.num_rows:
                    conformer = conformers.get(op_id)
                    yield from self._instance.push_from(op_id, batch if conformer is None else conformer.conform(batch))

    def _hand_over(self, op_id: str, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Set a batch aside for a later section, and yield it where the section behind gets it."""
        if op_id in self._section.sets_aside:
            self._aside.add(op_id, self._order, batch)
        if op_id == self._section.boundary:
            yield with_order(batch, self._order) if self._program.keeps_order else batch

    def _begin(self) -> None:
        self._tables.report_filled(self._filled, self.report)
        self._instance.start()
        self._tables.restore(self._start.state)
        self._instance.restore(self._start.checkpoint.operators, self._start.state)

    def _read_phases(self, inputs: Sequence[TaskInput]) -> Iterator[pa.RecordBatch]:
        phase_of = self._program.phases.of
        left = self._limit
        for stream in self._operators:
            self.report.inputs[stream] = InputReport()
        for phase in range(max(phase_of.values(), default=0) + 1):
            yield from self._instance.release(phase)
            for stream, op_id in self._operators.items():
                if phase_of[op_id] == phase and not self._owned.get(stream):
                    yield from self._instance.end(op_id, True)  # this task owns no partition of it
            ready = [
                source
                for source in inputs
                if phase_of[self._operators[source.stream_id]] == phase and not self._is_over(source)
            ]
            if ready and not self._shut_down:
                taken = sum(report.messages for report in self.report.inputs.values())
                yield from self._read(ready, None if left is None else max(left - taken, 0), str(phase))
            in_phase = [op_id for op_id in self._operators.values() if phase_of[op_id] == phase]
            if not self._whole and not all(self._instance.has_ended(op_id) for op_id in in_phase):
                return  # the rest of the phase, and what comes behind it, is for a later epoch

    def _is_over(self, source: TaskInput) -> bool:
        return self._control.ends.is_ended(source.stream_id, source.partition)

    @property
    def _shut_down(self) -> bool:
        return any(task.coordinator.shut_down for task in self._instance.low_level_tasks)

    def _read(self, sources: Sequence[TaskInput], limit: int | None, phase: str) -> Iterator[pa.RecordBatch]:
        for source in sources:
            self._offsets.setdefault(source.stream_id, {}).setdefault(source.partition, source.start)
        former = None if self._whole else self._chooser.get(phase, {})
        reading = InputReading(self._program, sources, self._conformers, self._heads, former)
        low_level = self._instance.low_level_tasks
        with closing(reading.envelopes(limit, None if self._budget_ms is None else CHUNK)) as envelopes:
            for source, envelope in envelopes:
                yield from self._take(source, envelope)
                if any(task.is_stopped() for task in low_level):
                    reading.leave(
                        envelope.offset + envelope.messages - self._offsets[source.stream_id][source.partition]
                    )
                    break
                if self._budget_ms is not None and (time.perf_counter() - self._started) * 1000 >= self._budget_ms:
                    break
            else:
                self._unread = [source for source in self._unread if source not in reading.read_up]
                for source in reading.read_up:  # its last offsets may hold nothing: superseded, or of no use here
                    offsets = self._offsets[source.stream_id]
                    offsets[source.partition] = max(offsets[source.partition], source.head or 0)
                if self._whole:
                    reject_left(reading.waits)
        if reading.state is not None:
            self._chooser[phase] = reading.state

    def _take(self, source: TaskInput, envelope: Envelope) -> Iterator[pa.RecordBatch]:
        stream, partition = source.stream_id, source.partition
        report = self.report.inputs[stream]
        self._offsets[stream][partition] = envelope.offset + envelope.messages
        if not isinstance(envelope, MessageRun):
            report.control_messages += envelope.messages
            message = envelope.message
            if message.task_name is None:  # the end of a source has no offset, or a later run would skip a message
                self._offsets[stream][partition] = envelope.offset
            assert isinstance(message, EndOfStreamMessage | WatermarkMessage)
            events = (
                self._control.update(stream, partition, message, offset=envelope.offset)
                if envelope.ends is None
                else self._control.end(stream, partition, envelope.ends, offset=envelope.offset)
            )
            for event in events:
                yield from self._handle(event)
            return
        batch = envelope.batch
        if not batch.num_rows:
            return
        self._control.watermarks.take_note(stream, partition)
        report.messages += batch.num_rows
        report.bytes += batch.nbytes
        self._reading.begin(stream, partition, envelope.offset)
        end = self._offsets[stream][partition]
        bad = self._instance.bad_records(self._operators[stream])
        for offset, part in readable(envelope, self._conformers[stream], bad):
            self._offsets[stream][partition] = offset + part.num_rows
            left = yield from self._push(stream, partition, offset, part)
            if left:
                report.messages -= end - offset - part.num_rows
                return
            self._reading.begin(stream, partition, offset + part.num_rows)
        self._reading.end()
        self._offsets[stream][partition] = end

    def _push(
        self, stream: str, partition: int, offset: int, taken: pa.RecordBatch
    ) -> Generator[pa.RecordBatch, None, int]:
        """Give messages to the operators; return how many of them a task has left."""
        self._order += 1
        self._reading.begin(stream, partition, offset)
        yield from self._instance.push(self._operators[stream], taken)
        self._reading.end()
        left = 0
        for task in self._instance.low_level_tasks:
            if task.left:  # it asked for a commit or a shutdown in the middle of the batch
                left += task.left
                kept = taken.slice(0, taken.num_rows - task.left)
                self._offsets[stream][partition] -= task.left
                self.report.inputs[stream].messages -= task.left
                self.report.inputs[stream].bytes -= taken.nbytes - kept.nbytes
                taken = kept
        watermark = self._sources.observe(
            self._program.spec.stream(stream), self._conformers[stream].schema, partition, taken
        )
        if watermark is not None and watermark > NONE_YET:
            for event in self._control.update(stream, partition, WatermarkMessage(None, 0, timestamp=watermark)):
                yield from self._handle(event)
        yield from self._tick()
        return left

    def _handle(self, event: ControlEvent) -> Iterator[pa.RecordBatch]:
        """Yield what a control message brings about; what was sent before it has been processed."""
        if isinstance(event, StreamWatermark) and event.timestamp < END_OF_TIME:
            yield from self._instance.advance(self._operators[event.stream], event.timestamp)
        elif isinstance(event, StreamEnded):
            yield from self._instance.end(self._operators[event.stream], event.final)

    def _tick(self) -> Iterator[pa.RecordBatch]:
        now = self._clock()
        if now < self._ticked + TICK_MS and now >= self._ticked > 0:
            return
        self._ticked = now
        for source in filter(self._waits, self._unread):
            self._control.watermarks.take_note(source.stream_id, source.partition)
        for event in self._control.leave_out_idle():
            yield from self._handle(event)
        yield from self._instance.tick(now)

    def _waits(self, source: TaskInput) -> bool:
        """Return whether messages of an input wait to be read: it is not silent, whatever the chooser takes first."""
        offset = self._offsets.get(source.stream_id, {}).get(source.partition, source.start)
        return not self._is_over(source) and (source.head is None or offset < source.head)

    def _conformer(self, stream: str, op_id: str) -> SchemaConformer:
        schema = self._program.operators[op_id].schema
        assert schema is not None
        return SchemaConformer(schema, f"input {stream!r}", dictionaries=True)

    def _finished(self) -> Iterator[pa.RecordBatch]:
        if self._shut_down:
            self.report.shut_down = True
            for op_id in self._operators.values():
                yield from self._instance.end(op_id, True)
        elif self._whole and not self._control.ends.all_ended():
            raise no_end(self._program.stage.stage_id, self._name, self._control.ends.missing())
        if not self._instance.all_ended:
            self._ticked = 0
            yield from self._tick()
            yield from self._instance.settle()
        self.report.final = all(self._control.ends.is_final(stream) for stream in self._operators)
        self._complete()

    # -- the end -------------------------------------------------------------------------------------------------------

    def _complete(self) -> None:
        report = self.report
        report.ended = self._instance.all_ended
        report.shuts_down_all = any(task.coordinator.shuts_down_all for task in self._instance.low_level_tasks)
        report.follows_clock = (
            self._instance.follows_the_clock or Config(self._program.spec.config).watermark_idle_timeout_ms is not None
        )
        if not self._whole:
            self.outputs.advance(self._instance.output_watermarks())
        report.outputs = self.outputs.reports()
        for stream, offsets in self._offsets.items():
            if stream in report.inputs:
                report.inputs[stream].next_offsets.update(offsets)
        for stream, checked in self._instance.expected():
            report.inputs[stream].expectations = checked
        report.operators = self._instance.reports()
        report.tables = self._tables.reports(filled=bool(report.side_inputs))
        report.metrics = added(added(report.metrics, self._instance.metrics()), self.outputs.metrics())
        report.bad_samples = self._instance.bad_samples()
        for task in self._instance.low_level_tasks:
            report.metrics = added(report.metrics, task.context.metrics.counters)
            report.gauges.update(task.context.metrics.gauges)
        report.checkpoint = self._checkpoint()
        self.state = {} if self._whole else {**self._instance.snapshot(), **self._tables.snapshot(ended=report.ended)}
        boundary = self._section.boundary
        report.boundary = None if boundary is None else self._boundary(boundary)
        self.set_aside = {op_id: self._boundary(op_id) for op_id in self._section.sets_aside}
        report.seconds = round(time.perf_counter() - self._started, 6)

    def _checkpoint(self) -> TaskCheckpoint:
        if self._whole:
            ends = self._control.ends.checkpoint(names_of_ended=False) if self._operators else []
            return TaskCheckpoint(offsets=self._offsets, control={"end_of_stream": ends})
        self._control.watermarks.note_who_holds_back(self._control.beside)
        return TaskCheckpoint(
            offsets=self._offsets,
            heads=self._heads,
            control=self._control.checkpoint() if self._operators else {},
            heard={"watermarks": self._control.watermarks.heard()} if self._operators else {},
            sources=self._sources.snapshot(),
            operators=self._instance.checkpoint(),
            sent=self.outputs.sent,
            chooser=self._chooser,
        )

    def _boundary(self, op_id: str) -> Boundary:
        if op_id in self._reached:
            return self._reached[op_id]
        return Boundary(self._instance.has_ended(op_id), self.report.final, self._instance.watermark(op_id))

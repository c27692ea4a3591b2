"""The run loop: pulls envelopes from a task's partitions, pushes batches, reconciles end-of-stream, ends outputs in turn.

Source: control-messages, "The reconciliation of control messages happens inside TaskInstance"; SEMANTICS C5–C7, C9, M8.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_samza.application.operator_specs import TableJoinSpec
from airflow_samza.control.end_of_stream import EndOfStreamBookkeeping, task_name, task_partitions
from airflow_samza.control.messages import EndOfStreamMessage
from airflow_samza.errors import NotYet, StageError
from airflow_samza.systems.system import Envelope, MessageRun
from airflow_samza.task.conform import Conformer
from airflow_samza.task.operators.factory import TaskResources
from airflow_samza.task.operators.outputs import OutputWriter, Writer
from airflow_samza.task.report import InputReport, OutputReport, TableReport, TaskReport
from airflow_samza.task.stage_program import StageProgram
from airflow_samza.task.table_store import TableStore
from airflow_samza.task.task_instance import TaskInstance

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class TaskInput:
    """One partition of an input (or side input) of a task: its envelopes in offset order, read once, from front to end.

    ``start`` is the offset from which they are read, for the report when there are none.
    """

    stream_id: str
    partition: int
    envelopes: Iterable[Envelope]
    start: int = 0


class SectionRun:
    """Runs one task section of a stage for one task; sections before and behind belong to other engines.

    The first section gets ``inputs``, a later one batches (:meth:`run_batches`). Both yield what the section hands to the section behind;
    a section without a boundary yields nothing and must be exhausted all the same. :meth:`report` is complete when it is exhausted.
    """

    def __init__(
        self,
        program: StageProgram,
        section: int,
        task: int,
        outputs: Mapping[str, Writer],
        tables: dict[str, TableStore] | None = None,
        clock: Callable[[], int] | None = None,
    ) -> None:
        self._program = program
        self._section = program.sections[section]
        self._task = task
        self._name = task_name(task)
        self._started = time.perf_counter()
        self._owned = dict(_by_stream(task_partitions(program.plan, program.stage.stage_id, task)))
        self._writers = {stream: self._writer(stream, writer) for stream, writer in outputs.items()}
        self._tables = tables if tables is not None else {}
        for table_id in program.stage.tables:
            self._tables.setdefault(table_id, self._table(table_id))
        self._bookkeeping = EndOfStreamBookkeeping(
            [(stream, partition) for stream, partitions in self._owned.items() for partition in partitions]
        )
        self.report = TaskReport(program.stage.stage_id, self._name)
        resources = TaskResources(
            self._name, self._writers, self._tables, self._owned, program.spec.config, program.phases.one_by_one, clock or _now_ms
        )
        self._instance = TaskInstance(program, self._section, task, resources, self._output_ended)

    def _writer(self, stream: str, writer: Writer) -> OutputWriter:
        planned = self._program.plan.stream(stream)
        descriptor = self._program.spec.stream(stream)
        return OutputWriter(stream, writer, descriptor.key, planned.partitions, self._task)

    def _table(self, table_id: str) -> TableStore:
        schema = self._program.tables.get(table_id)
        if schema is None:
            raise NotYet(
                f"The columns of table {table_id!r} are not known.",
                hint=f'Declare them: schema= of table "{table_id}".',
                table=table_id,
            )
        return TableStore(table_id, schema, self._program.spec.table(table_id).key)

    # -- running -------------------------------------------------------------------------------------------------------

    def run(self, inputs: Sequence[TaskInput], side_inputs: Sequence[TaskInput] = ()) -> Iterator[pa.RecordBatch]:
        """Reads all inputs to their end, table fillers first; ``side_inputs`` fill their tables before anything else (S1)."""
        try:
            self._fill_tables(side_inputs)
            self._instance.start()
            operators = self._instance.input_operators()
            phase_of = self._program.phases.of
            for stream in operators:
                self.report.inputs[stream] = InputReport()
            ready = self._in_order(inputs, operators)
            last = max(phase_of.values(), default=0)
            for phase in range(last + 1):
                yield from self._instance.release(phase)
                for stream, op_id in operators.items():
                    if phase_of[op_id] == phase and not self._owned.get(stream):
                        yield from self._instance.end(op_id, True)  # this task owns no partition of it
                for source in ready:
                    if phase_of[operators[source.stream_id]] == phase and not self._shut_down:
                        yield from self._read(source, operators[source.stream_id])
            yield from self._finished(operators)
        finally:
            self._instance.close()

    def run_batches(
        self, batches: Iterable[pa.RecordBatch], *, final: bool = True, side_inputs: Sequence[TaskInput] = ()
    ) -> Iterator[pa.RecordBatch]:
        """Runs a later section: the batches are what the section before gives, and end when they are exhausted."""
        try:
            self._fill_tables(side_inputs)
            self._instance.start()
            self.report.final = final
            entry = self._section.entry
            assert entry is not None
            schema = self._program.operators[entry].schema
            conformer = Conformer(schema, f"what {entry} gives") if schema is not None else None
            for batch in batches:
                if batch.num_rows:
                    yield from self._instance.push_entry(batch if conformer is None else conformer.conform(batch))
            yield from self._instance.end_entry(final)
            self._complete()
        finally:
            self._instance.close()

    def _in_order(self, inputs: Sequence[TaskInput], operators: Mapping[str, str]) -> list[TaskInput]:
        """Bootstrap streams first, then by priority, then as declared; each is read to its end."""
        order = {stream: place for place, stream in enumerate(operators)}

        def rank(source: TaskInput) -> tuple[bool, int, int, int]:
            stream = self._program.spec.stream(source.stream_id)
            return not stream.bootstrap, -(stream.priority or 0), order[source.stream_id], source.partition

        return sorted((source for source in inputs if source.stream_id in operators), key=rank)

    @property
    def _shut_down(self) -> bool:
        return any(task.coordinator.shut_down for task in self._instance.low_level_tasks)

    def _read(self, source: TaskInput, op_id: str) -> Iterator[pa.RecordBatch]:
        stream = source.stream_id
        report = self.report.inputs[stream]
        conformer = self._conformer(op_id, stream)
        descriptor = self._program.spec.stream(stream)
        report.next_offsets[source.partition] = source.start
        low_level = self._instance.low_level_tasks
        for envelope in source.envelopes:
            if isinstance(envelope, MessageRun):
                batch = envelope.batch
                report.next_offsets[source.partition] = envelope.offset + batch.num_rows
                if not batch.num_rows:
                    continue
                report.messages += batch.num_rows
                report.bytes += batch.nbytes
                for task in low_level:
                    task.origin = (descriptor, source.partition, envelope.offset)
                yield from self._instance.push(op_id, conformer.conform(batch, envelope.offset))
            else:
                report.next_offsets[source.partition] = envelope.offset + 1
                report.control_messages += 1
                message = envelope.message
                if isinstance(message, EndOfStreamMessage):
                    ended = self._bookkeeping.update(stream, source.partition, message, offset=envelope.offset)
                    if ended is not None and self._bookkeeping.stream_ended(stream):
                        # What was sent before the last end-of-stream message has been processed: ends follow in band.
                        yield from self._instance.end(op_id, self._bookkeeping.is_final(stream))
            if low_level and self._shut_down:
                return

    def _conformer(self, op_id: str, stream: str) -> Conformer:
        schema = self._program.operators[op_id].schema
        assert schema is not None
        return Conformer(schema, f"input {stream!r}", dictionaries=True)

    def _finished(self, operators: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
        if self._shut_down:
            self.report.shut_down = True
            for op_id in operators.values():
                yield from self._instance.end(op_id, True)
        elif not self._bookkeeping.all_ended():
            raise self._no_end()
        self.report.final = all(self._bookkeeping.is_final(stream) for stream in operators)
        self._complete()

    def _no_end(self) -> StageError:
        missing = self._bookkeeping.missing()
        stream, partition = next(iter(missing))
        spoken, total = missing[stream, partition]
        said = f"{spoken} of {total} producers have ended it" if total is not None else "no producer has ended it"
        more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        return StageError(
            f"Input {stream!r}, partition {partition}{more}, of stage {self._program.stage.stage_id!r} has no end-of-stream: {said}.",
            hint="The stage that writes it did not finish, or its topic was cleaned up: clear it with its upstream.",
            stage=self._program.stage.stage_id,
            task=self._name,
            stream=stream,
            partition=partition,
        )

    # -- tables --------------------------------------------------------------------------------------------------------

    def _fill_tables(self, side_inputs: Sequence[TaskInput]) -> None:
        for source in side_inputs:
            report = self.report.side_inputs.setdefault(source.stream_id, InputReport())
            report.next_offsets[source.partition] = source.start
            tables = [self._program.spec.table(t) for t in self._program.stage.tables]
            fed = [table for table in tables if source.stream_id in table.side_inputs]
            for table in fed:
                if table.processor is not None:
                    raise NotYet(
                        f"Table {table.table_id!r} has a processor of side inputs, which this version cannot run yet.",
                        hint="Leave processor= out: each message is then a row of the table.",
                        table=table.table_id,
                    )
            conformers = {t.table_id: Conformer(self._tables[t.table_id].schema, f"side input {source.stream_id!r}") for t in fed}
            for envelope in source.envelopes:
                if isinstance(envelope, MessageRun):
                    report.messages += envelope.batch.num_rows
                    report.bytes += envelope.batch.nbytes
                    report.next_offsets[source.partition] = envelope.offset + envelope.batch.num_rows
                    for table_id, conformer in conformers.items():
                        self._tables[table_id].write(conformer.conform(envelope.batch, envelope.offset))
                else:
                    report.control_messages += 1
                    report.next_offsets[source.partition] = envelope.offset + 1

    # -- the end -------------------------------------------------------------------------------------------------------

    def _output_ended(self, stream: str, final: bool) -> None:
        """Everything that this task sends to an output has been sent: its end-of-stream message follows."""
        tasks = self._program.producing_tasks.get(stream, frozenset())
        if self._name in tasks:
            output = self.report.outputs.setdefault(stream, OutputReport())
            output.end_of_stream = EndOfStreamMessage(self._name, len(tasks), stream_id=stream, final=final)

    def _complete(self) -> None:
        report = self.report
        for stream, writer in self._writers.items():
            output = report.outputs.setdefault(stream, OutputReport())
            output.messages, output.bytes = writer.messages, writer.bytes
        report.operators = self._instance.reports()
        joined = {c.spec.table.table_id for c in self._program.operators.values() if isinstance(c.spec, TableJoinSpec)}
        for table_id, store in self._tables.items():
            rows = store.rows if table_id in joined or report.side_inputs else None
            if rows is not None:
                report.tables[table_id] = TableReport(rows.num_rows, rows.nbytes, store.ignored)
        for task in self._instance.low_level_tasks:
            report.metrics.update(task.context.metrics.values)
        # What has ended needs no names any more, and every task naming every task would make manifests grow with their number squared.
        report.bookkeeping = [{**entry, "tasks": []} if entry["ended"] else entry for entry in self._bookkeeping.checkpoint()]
        report.seconds = round(time.perf_counter() - self._started, 6)


def run_task(
    program: StageProgram,
    task: int,
    inputs: Sequence[TaskInput],
    outputs: Mapping[str, Writer],
    *,
    side_inputs: Sequence[TaskInput] = (),
    tables: dict[str, TableStore] | None = None,
    clock: Callable[[], int] | None = None,
) -> TaskReport:
    """Runs one task of a stage of one section from first message to last; the report says what to commit.

    ``tables`` is filled with the task's tables, for who wants to look at them afterwards; ``clock`` gives the time in ms.
    ``outputs`` maps every output stream of the stage to its producer (finishing it is the caller's). A stage with a Catalyst section is
    run section by section with :class:`SectionRun`.
    """
    if len(program.sections) > 1:
        catalyst = next(c for c in program.operators.values() if c.engine == "catalyst")
        raise NotYet(
            f"{catalyst.spec.title} of stage {program.stage.stage_id!r} runs only in Catalyst ({catalyst.reason}), and "
            "there is no Spark here.",
            hint="Write it within the subset that Arrow runs, or run the stage on Spark.",
            operator=catalyst.spec.op_id,
            stage=program.stage.stage_id,
        )
    run = SectionRun(program, 0, task, outputs, tables, clock)
    for _ in run.run(inputs, side_inputs):
        raise AssertionError("a section without a boundary yields nothing")
    return run.report


def _by_stream(partitions: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for stream, partition in partitions:
        found.setdefault(stream, []).append(partition)
    return found


def _now_ms() -> int:
    return time.time_ns() // 1_000_000

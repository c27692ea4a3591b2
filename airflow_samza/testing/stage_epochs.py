"""One stage of a run in memory.

Whole, or epoch by epoch as stages on Spark do, with everything between two epochs as JSON and tables.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_samza.control.messages import ControlMessage, EndOfStreamMessage
from airflow_samza.partitioner import partition_array, split_by_partition
from airflow_samza.planner.plan import Stage
from airflow_samza.records import from_plain, plain
from airflow_samza.runs.expectations import Judgement
from airflow_samza.runs.records.expectations import Checked
from airflow_samza.systems.filesystems.memory import MemoryFilesystem
from airflow_samza.systems.memory.system import MemoryConsumer, MemorySystem
from airflow_samza.systems.memory.wire import WireForm
from airflow_samza.systems.system import (
    ControlEnvelope,
    Envelope,
    OffsetRange,
    Publication,
    StreamSpec,
    SystemStreamPartition,
)
from airflow_samza.task.checkpoint import TaskCheckpoint, TaskStart
from airflow_samza.task.loop.reading import TaskInput
from airflow_samza.task.loop.run_loop import SectionRun
from airflow_samza.task.loop.side_tables import SideTables
from airflow_samza.task.program.stage_program import StageProgram, reject_catalyst
from airflow_samza.task.report import TaskReport
from airflow_samza.task.tables.history_store import Changes, HistoryStore
from airflow_samza.task.tables.store import TableStore
from airflow_samza.testing.wire_forms import wire_form

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass
class _Task:
    """A task between two epochs."""

    start: TaskStart | None = None
    ended: bool = False
    report: TaskReport | None = None
    tables: dict[str, TableStore] = field(default_factory=dict)
    side_tables: SideTables | None = None


@dataclass(frozen=True)
class TableVersionHere:
    """A version of a pushed table, which has its rows and no others, and the time from which on it is valid (µs)."""

    valid_from: int
    batches: Sequence[pa.RecordBatch]


class StageEpochs:
    """The tasks of one stage in run number ``run``; ``starts`` is the state that a former run left, by task."""

    def __init__(
        self,
        program: StageProgram,
        system: MemorySystem,
        clock: Callable[[], int],
        run: int = 0,
        starts: dict[int, TaskStart] | None = None,
        intermediate_serde: str | None = None,
        versions: Mapping[str, Sequence[TableVersionHere]] | None = None,
    ) -> None:
        reject_catalyst(program)
        self.program = program
        self.stage: Stage = program.stage
        self._system = system
        self._clock = clock
        self._run = run
        self._versions = versions or {}
        self._epoch = 0
        self._shuts_down = False
        self._sent: dict[str, int] = {}
        self._tasks = {task: _Task((starts or {}).get(task)) for task in range(self.stage.task_count)}
        self._specs: dict[str, StreamSpec] = {}
        for stream_id in self.stage.outputs:
            planned = program.plan.stream(stream_id)
            topic = self.topic(stream_id)
            self._specs[stream_id] = StreamSpec(topic, planned.partitions, None, program.spec.stream(stream_id).key)
            schema = program.streams.get(stream_id)
            form = wire_form(program.spec.stream(stream_id))
            if intermediate_serde is not None and stream_id in program.spec.intermediates:
                form = WireForm(intermediate_serde, in_band=True)
            system.make(topic, max(planned.partitions, 1), schema.ddl() if schema is not None else None, form=form)

    def topic(self, stream_id: str) -> str:
        """Return the name of a stream in the system: the topics of a run are its own."""
        return f"{stream_id}/{self._run}" if self._run and stream_id in self.program.spec.intermediates else stream_id

    @property
    def ended(self) -> bool:
        """Return whether all tasks have ended."""
        return all(task.ended for task in self._tasks.values())

    @property
    def reports(self) -> list[TaskReport]:
        """Return the last report of each task that has run."""
        return [task.report for task in self._tasks.values() if task.report is not None]

    @property
    def tables(self) -> list[dict[str, TableStore]]:
        """Return the tables of each task."""
        return [task.tables for task in self._tasks.values()]

    def starts(self) -> dict[int, TaskStart]:
        """Return the starting point of the next run (rule C9)."""
        inputs = self.program.spec.inputs
        external = [
            stream for stream in self.stage.inputs if stream in inputs and not self.program.plan.stream(stream).bounded
        ]
        return {
            number: TaskStart(task.start.checkpoint.for_next_run(external), task.start.state)
            for number, task in self._tasks.items()
            if task.start is not None
        }

    def run(
        self, *, whole: bool = False, limit: int | None = None, ends: Callable[[str], bool | None] = lambda stream: True
    ) -> bool:
        """Run one epoch and publish it; return whether it did anything. ``whole``: everything, in one epoch.

        ``ends`` says how an external input ends when all that is there has been read: True (for good), False (a slice),
        None: not yet.
        """
        staged: dict[str, dict[int, Any]] = {stream_id: {} for stream_id in self._specs}
        control: dict[str, list[ControlMessage]] = {stream_id: [] for stream_id in self._specs}
        moved = False
        checked: list[Mapping[str, Sequence[Checked]]] = []
        keys = MemoryFilesystem()
        shuts_down = self._shuts_down
        for number, task in self._tasks.items():
            if task.ended:
                continue
            if task.side_tables is None:
                task.side_tables = SideTables(self.program, 0)
            filled = task.side_tables.fill(self._side_inputs(number, task.side_tables))
            self._hold_versions(number, task.side_tables)
            attempt = f"{self._run}-{self.stage.stage_id}-{self._epoch}-{number}"
            producers = {stream_id: self._system.producer(spec, attempt) for stream_id, spec in self._specs.items()}
            task.tables = {}
            run = SectionRun(
                self.program,
                0,
                number,
                producers,
                task.tables,
                self._clock,
                side_tables=task.side_tables,
                filled=filled,
                start=task.start,
                whole=whole,
                limit=limit,
                shut_down=shuts_down,
            )
            try:
                for _ in run.run(self._inputs(number, ends)):
                    raise AssertionError("a section without a boundary yields nothing")
            except BaseException:
                for producer in producers.values():
                    producer.abort()
                raise
            run.write_keys(keys, "keys", attempt)
            report, task.report = run.report, run.report
            reports: dict[str, Any] = {**report.inputs, **report.outputs}
            for stream_id, sent in report.outputs.items():
                self._sent[stream_id] = self._sent.get(stream_id, 0) + sent.messages
            checked.append({stream_id: each.expectations for stream_id, each in reports.items() if each.expectations})
            moved = moved or _has_moved(task, report)
            task.start = TaskStart(_through_json(report.checkpoint), run.state)
            task.ended = report.ended
            self._shuts_down = self._shuts_down or report.shuts_down_all
            for stream_id, producer in producers.items():
                staged[stream_id][number] = producer.finish()
                if stream_id in self.program.spec.intermediates:  # only they carry control messages (rule C1)
                    control[stream_id] += report.outputs[stream_id].control
        self._judge(keys, checked, whole=whole)
        for stream_id, spec in self._specs.items():
            writer = f"test/{self._run}/{self.stage.stage_id}"
            publication = Publication(writer, "1.1", self._epoch, staged[stream_id], tuple(control[stream_id]))
            self._system.publish(spec, publication)
        self._epoch += 1
        return moved

    def _judge(
        self, keys: MemoryFilesystem, checked: Sequence[Mapping[str, Sequence[Checked]]], *, whole: bool
    ) -> None:
        """Reject output that does not meet an expectation; there is no run before with which to compare."""
        judgement = Judgement(
            keys,
            self.stage.stage_id,
            f"test {self._run}",
            frozenset(self._specs),
            lambda stream_id: self._sent.get(stream_id, 0),
            lambda stream_id: None,
            whole=whole,
            is_last=all(task.ended for task in self._tasks.values()),
        )
        error = judgement.error(judgement.results(checked))
        if error is not None:
            raise error

    def _hold_versions(self, task: int, tables: SideTables) -> None:
        """Give tables that are joined as of event times the versions that they have now."""
        for table in tables.tables:
            stream_id = table.table.side_inputs[0]
            versions = self._versions.get(stream_id)
            if not versions or not isinstance(table.store, HistoryStore):
                continue
            count = max(self.program.plan.stream(stream_id).partitions, 1)
            in_order = sorted(range(len(versions)), key=lambda number: (versions[number].valid_from, number))
            history = [
                {"number": number, "from": versions[number].valid_from, "sections": [("version", str(number))]}
                for number in in_order
            ]
            sections: dict[tuple[str, str], Changes] = {
                ("version", str(number)): [
                    table.changes_in((stream_id, task), part)
                    for batch in version.batches
                    for place, part in split_by_partition(batch, partition_array(batch, table.store.key, count), count)
                    if place == task
                ]
                for number, version in enumerate(versions)
            }
            table.store.hold(history, in_order[-1], table.store.versions_of(history, sections))

    def _inputs(self, task: int, ends: Callable[[str], bool | None]) -> list[TaskInput]:
        return [
            source
            for stream in self.stage.inputs
            for source in self._partitions(stream, task, ends, self.program.reads.get(stream))
        ]

    def _side_inputs(self, task: int, tables: SideTables) -> list[TaskInput]:
        inputs: list[TaskInput] = []
        for stream in tables.streams:
            inputs += self._partitions(stream, task, lambda _: None, None, partial(tables.start, stream, oldest=0))
        return inputs

    def _partitions(
        self,
        stream_id: str,
        task: int,
        ends: Callable[[str], bool | None],
        columns: tuple[str, ...] | None,
        reached: Callable[[int], int] | None = None,
    ) -> Iterator[TaskInput]:
        topic = StreamSpec(self.topic(stream_id))
        if self._system.identity(topic) is None:
            return
        planned = self.program.plan.stream(stream_id)
        consumer = self._system.consumer(topic)
        start = self._tasks[task].start
        for partition in (
            range(max(planned.partitions, 1)) if planned.broadcast else [task] if task < planned.partitions else []
        ):
            read_to = start.checkpoint.offset(stream_id, partition) if start is not None else None
            first, head = read_to or 0 if reached is None else reached(partition), consumer.head[partition]
            end = None if stream_id in self.program.spec.intermediates else ends(stream_id)
            yield TaskInput(
                stream_id,
                partition,
                _envelopes(consumer, partition, OffsetRange(first, head), columns, end),
                first,
                head,
            )


def _envelopes(
    consumer: MemoryConsumer, partition: int, offsets: OffsetRange, columns: tuple[str, ...] | None, end: bool | None
) -> Iterator[Envelope]:
    place = SystemStreamPartition("memory", consumer.topic.name, partition)
    yield from consumer.read(place, offsets, columns)
    if end is not None:
        yield ControlEnvelope(place, offsets.end, EndOfStreamMessage(None, 0, stream_id=place.stream, final=end))


def _has_moved(task: _Task, report: TaskReport) -> bool:
    read = any(source.messages or source.control_messages for source in report.inputs.values())
    return read or report.ended or any(output.messages for output in report.outputs.values())


def _through_json(checkpoint: TaskCheckpoint) -> TaskCheckpoint:
    return from_plain(TaskCheckpoint, json.loads(json.dumps(plain(checkpoint))))

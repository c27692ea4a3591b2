"""One stage of a run in memory.

Whole, or epoch by epoch as stages on Spark do, with everything between two epochs as JSON and tables.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from airflow_samza.control.messages import ControlMessage
from airflow_samza.engine.task_inputs import TaskInputs
from airflow_samza.partitioner import partition_array, split_by_partition
from airflow_samza.planner.plan import Stage
from airflow_samza.prepare.task_side_inputs import SideInputs
from airflow_samza.records import from_plain, plain
from airflow_samza.runs.expectations import Judgement
from airflow_samza.runs.records.epoch_records import InputIntent, Intent
from airflow_samza.runs.records.expectations import Checked
from airflow_samza.runs.records.run_plan import BoundStream
from airflow_samza.system_kinds import EMBEDDED
from airflow_samza.systems.filesystems.memory import MemoryFilesystem
from airflow_samza.systems.memory.system import MemorySystem, WireForm
from airflow_samza.systems.system import Publication, StreamSpec
from airflow_samza.task.checkpoint import TaskCheckpoint, TaskStart
from airflow_samza.task.loop.run_loop import SectionRun
from airflow_samza.task.loop.side_tables import SideTables
from airflow_samza.task.program.stage_program import StageProgram, reject_catalyst
from airflow_samza.task.report import InputReport, TaskReport
from airflow_samza.task.tables.store import TableStore
from airflow_samza.task.tables.timed_store import Changes, HistoryStore


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
        self._systems = {EMBEDDED: system}
        self._streams = {
            stream_id: BoundStream(stream_id, "input", EMBEDDED, StreamSpec(self.topic(stream_id)))
            for stream_id in (*self.stage.inputs, *self.stage.side_inputs)
        }
        self._tasks = {task: _Task((starts or {}).get(task)) for task in range(self.stage.task_count)}
        self._specs: dict[str, StreamSpec] = {}
        for stream_id in self.stage.outputs:
            planned = program.plan.stream(stream_id)
            topic = self.topic(stream_id)
            self._specs[stream_id] = StreamSpec(topic, planned.partitions, None, program.spec.stream(stream_id).key)
            schema = program.streams.get(stream_id)
            form = WireForm.of(program.spec.stream(stream_id))
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

    def run(self, ends: Callable[[str], bool | None], limit: int | None = None, *, alone: bool = False) -> bool:
        """Run one epoch and publish it; return whether it did anything.

        ``ends`` says how an external input ends when all that is there has been read: True (for good), False (a slice),
        None: not yet. ``alone``: no stage before it goes on; one that needs one epoch only does everything in it.
        """
        staged: dict[str, dict[int, Any]] = {stream_id: {} for stream_id in self._specs}
        control: dict[str, list[ControlMessage]] = {stream_id: [] for stream_id in self._specs}
        whole = alone and not self.stage.several_epochs
        moved = False
        checked: list[Mapping[str, Sequence[Checked]]] = []
        keys = MemoryFilesystem()
        shuts_down, intent = self._shuts_down, self._intent(ends)
        inputs = TaskInputs(self.program, self._systems, self._streams, intent)
        for number, task in self._tasks.items():
            if task.ended:
                continue
            if task.side_tables is None:
                task.side_tables = SideTables(self.program, 0)
            side_inputs = SideInputs(self.program, self._systems, self._streams, intent, lambda path: False)
            filled = task.side_tables.fill(side_inputs.of(task.side_tables, number))
            filled.inputs.update(
                {name: InputReport() for name in task.side_tables.streams if name not in filled.inputs}
            )
            self._hold_versions(number, task.side_tables)
            reached = task.start.checkpoint if task.start is not None else TaskCheckpoint()
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
                limit=None if whole else limit,
                shut_down=shuts_down,
            )
            try:
                for _ in run.run(inputs.of(number, reached)):
                    raise AssertionError("a section without a boundary yields nothing")
            except BaseException:
                for producer in producers.values():
                    producer.abort()
                raise
            run.outputs.write_keys(keys, "keys", attempt)
            report, task.report = run.report, run.report
            reports: dict[str, Any] = {**report.inputs, **report.outputs}
            for stream_id, sent in report.outputs.items():
                self._sent[stream_id] = self._sent.get(stream_id, 0) + sent.messages
            checked.append({stream_id: each.expectations for stream_id, each in reports.items() if each.expectations})
            read = any(source.messages or source.control_messages for source in report.inputs.values())
            moved = moved or read or report.ended or any(output.messages for output in report.outputs.values())
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

    def _intent(self, ends: Callable[[str], bool | None]) -> Intent:
        """Return an epoch of all that is there now, as stages of a run decide about theirs."""
        external, reads = self.program.spec.inputs, {}
        for stream_id, bound in self._streams.items():
            empty = {"offsets": [(0, 0)] * max(self.program.plan.stream(stream_id).partitions, 1)}
            exists = self._system.identity(bound.spec) is not None  # else it is a side input that nobody has filled
            end = ends(stream_id) if stream_id in external else None
            reads[stream_id] = InputIntent(
                bound.spec.name, self._system.slice(bound.spec) if exists else empty, end=end
            )
        tasks = self.stage.task_count
        return Intent(self.stage.stage_id, "1.1", self._epoch, tasks, reads, {}, whole=False, side_inputs=reads)


def _through_json(checkpoint: TaskCheckpoint) -> TaskCheckpoint:
    return from_plain(TaskCheckpoint, json.loads(json.dumps(plain(checkpoint))))

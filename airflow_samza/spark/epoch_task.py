"""One task of an epoch, in a Spark Python worker.

Reads its partitions, runs the operators, stages the output, leaves a manifest.

Spark's partition k is Samza's task k. A stage of one section runs whole in one call; with Catalyst between, each task
section is a call of its own in the same Spark task, and hands its report to the next in a note named after the task's
attempt (control messages and offsets do not travel through Catalyst).
"""

from __future__ import annotations

import functools
import json
import os
import platform
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_samza.engine.task_inputs import TaskInputs
from airflow_samza.engine.warm_tables import EpochTables, FilledTables
from airflow_samza.engine.worker_errors import from_worker
from airflow_samza.errors import StageError, TopicError
from airflow_samza.prepare.bound_systems import bind_systems
from airflow_samza.records import durable, made, plain
from airflow_samza.runs.failpoints import reach
from airflow_samza.runs.records.epoch_records import Intent, Manifest, Staged, control_entries, read_manifest
from airflow_samza.runs.records.folders import StageFolder, must_read, read, replace, write_once
from airflow_samza.runs.records.names import Generation, writer_attempt
from airflow_samza.runs.records.run_plan import BoundStream
from airflow_samza.runs.records.stage_start import StageStart, TaskLeft
from airflow_samza.runs.records.totals import GAUGES
from airflow_samza.spark.sealed_bindings import worker_bindings
from airflow_samza.spark.worker_rows import one_row, read_over
from airflow_samza.storage.host_files import HostFiles, sweep_host
from airflow_samza.storage.local_store import host_part
from airflow_samza.storage.snapshots import KnownTables, Restored, read_snapshot, snapshot_files, write_snapshot
from airflow_samza.systems.capabilities import Durable
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.system import System, SystemProducer
from airflow_samza.task.checkpoint import TaskCheckpoint, TaskStart
from airflow_samza.task.loop.run_loop import SectionRun
from airflow_samza.task.program.stage_program import ProgramSource, StageProgram
from airflow_samza.task.report import Boundary, TaskReport, added

if TYPE_CHECKING:
    import pyarrow as pa

RESULT_SCHEMA = "task bigint, adopted boolean"
"""What the last section of a task gives back to the driver: one row."""

EPOCH_PROPERTY = "airflow_samza.epoch"
"""The local property of a job that names its epoch, where one DataFrame serves many epochs."""

_KNOWN = KnownTables()
"""State that this worker process has read or written last.

The next epoch of the task often comes to the same process.
"""


@dataclass(frozen=True)
class EpochTask:
    """The function that ``mapInArrow`` calls; small and plain, so that it travels to any worker.

    It must stay small: Spark writes functions of more than a megabyte to disk, and the bindings hold secrets. So intent
    and program are named by their paths. ``inputs``, ``side_inputs`` and ``outputs`` are the streams without their
    slices (the intent has those), ``own`` those of them that are topics of the run; ``section`` is the number of the
    task section that it runs. ``epoch`` None: each job says which. ``host_dir`` is where each host keeps copies of
    state (None: nowhere, as on the runner's own host the root is near). ``digests`` are those of the tables with a
    processor that hosts may keep.
    """

    root: str
    bindings: Mapping[str, Any] = field(repr=False)
    stage: str
    stage_folder: str
    program: str
    epoch: int | None
    inputs: Mapping[str, Mapping[str, Any]]
    outputs: Mapping[str, Mapping[str, Any]]
    own: tuple[str, ...]
    section: int = 0
    side_inputs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    host_dir: str | None = None
    digests: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Runs the section for the task that this Spark partition is: the k-th of those that run in the epoch."""
        from pyspark import TaskContext

        _one_thread()
        context = TaskContext.get()
        assert context is not None, "this runs in a Python worker of Spark"
        epoch = self.epoch if self.epoch is not None else int(str(context.getLocalProperty(EPOCH_PROPERTY)))
        try:
            yield from _Section(self, epoch, context.partitionId(), str(context.taskAttemptId())).run(batches)
        except Exception as error:
            raise from_worker(error, self.stage, context.partitionId()) from error

    def intent(self, epoch: int) -> Intent:
        """The intent of an epoch; a host that does not see what the stage runner has just written is refused."""
        files, path = open_filesystem(self.root), StageFolder(self.stage_folder).intent(epoch)
        intent = read(files, path, Intent)
        if intent is None:
            raise TopicError(
                f"The Python worker on {platform.node()} does not see the run's records: {files.location(path)} is "
                "missing there.",
                hint="The root has to be one folder that all of Spark's hosts share, under the same path. "
                "If it is: was the run's folder deleted?",
                path=files.location(path),
            )
        return intent

    def tables(self, intent: Intent, task: int) -> EpochTables:
        """The tables of a task that side inputs feed, in an epoch."""
        root = open_filesystem(self.root).root
        systems = _systems(json.dumps(self.bindings, sort_keys=True), root)
        return EpochTables(
            root,
            self.program,
            _program(self.root, self.program),
            systems,
            _bound(self.side_inputs),
            intent,
            task,
            self.digests,
        )


class _Section:
    """One task section of one try at one task: the one at ``place`` among those that run in the epoch."""

    def __init__(self, epoch: EpochTask, number: int, place: int, attempt: str) -> None:
        self._epoch = epoch
        self._files = open_filesystem(epoch.root)
        self._folder = StageFolder(epoch.stage_folder)
        self._intent = epoch.intent(number)
        self._task = self._intent.running[place]
        self._attempt = f"{number}-{self._task}-{attempt}"
        self._tables = epoch.tables(self._intent, self._task)
        self._program = self._tables.program
        self._systems = self._tables.systems
        folder = epoch.host_dir
        self._host = (
            task_host_files(folder, self._files.root, epoch.stage_folder, self._task) if folder is not None else None
        )
        self._restored = Restored()
        self._state: Mapping[str, Any] = {}

    @property
    def _is_first(self) -> bool:
        return self._epoch.section == 0

    @property
    def _is_last(self) -> bool:
        return self._epoch.section == len(self._program.sections) - 1

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields what the section behind gets; the last section yields one row for the driver."""
        manifest = self._folder.manifest(self._intent.epoch, self._task)
        if self._files.exists(manifest):  # an earlier attempt has done this task: its output is the one that counts
            read_over(batches)
            adopted = True
        elif self._is_last:
            adopted = not self._run_to_the_end(batches, manifest)
        else:
            yield from self._run_to_the_boundary(batches)
            return
        if self._is_last:
            yield one_row(RESULT_SCHEMA, self._task, adopted)

    def _run_to_the_boundary(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        before = self._before()
        with self._tables.filled(self._epoch.section) as filled:
            section = self._section_run(before, {}, filled)
            yield from self._output_of(section, before, batches)
        state = None if self._intent.whole else self._kept_state(section, before, self._new_attempt())
        replace(self._files, self._note(self._epoch.section), TaskNote(section.report, state))

    def _run_to_the_end(self, batches: Iterator[pa.RecordBatch], manifest: str) -> bool:
        """Stages the output and leaves the manifest.

        False when another attempt was quicker, whose output then counts.
        """
        started = time.time()
        attempt = self._new_attempt()
        producers: dict[str, SystemProducer] = {}
        for stream_id, data in self._epoch.outputs.items():
            bound = made(BoundStream, data)
            producers[stream_id] = self._systems[bound.system].producer(bound.spec, attempt)
        try:
            before = self._before()
            with self._tables.filled(self._epoch.section) as filled:
                section = self._section_run(before, producers, filled)
                for _ in self._output_of(section, before, batches):
                    raise AssertionError("the last section yields nothing")
            reach("task-before-output")
            described = {stream_id: dict(producer.finish()) for stream_id, producer in producers.items()}
            report, state = self._whole_report(section.report)
            if self._goes_on(report):
                reach("task-before-state")
                state.update(self._kept_state(section, before, attempt) or {})
                if self._host is not None:
                    self._host.keep_only(snapshot_files(before.state) | snapshot_files(state))
        except BaseException:
            _abort(producers)
            raise
        reach("task-before-manifest")
        record = self._manifest(attempt, report, described, state or None, time.time() - started)
        written = write_once(self._files, manifest, record)
        reach("task-after-manifest")
        if not written:
            _abort(producers)
        return written

    def _new_attempt(self) -> str:
        return writer_attempt(
            self._intent.stage, Generation.parse(self._intent.generation), self._intent.epoch, self._task
        )

    def _goes_on(self, report: TaskReport) -> bool:
        """Return whether anybody starts from what the task leaves: its next epoch, or another run."""
        if self._intent.whole:
            return False
        return self._intent.keeps_state or not (report.ended and report.final)

    def _before(self) -> _Before:
        """What the task's former epoch left: checkpoint and state."""
        standing = self._intent.standing.get(self._task)
        if standing is not None:
            manifest = read_manifest(self._files, self._folder, self._task, standing)
            return _Before(manifest.checkpoint, manifest.state)
        if self._intent.start is not None:
            left = must_read(self._files, self._intent.start, StageStart).tasks.get(self._task, TaskLeft())
            return _Before(left.checkpoint, left.state)
        return _Before(None, None)

    def _section_run(
        self, before: _Before, producers: Mapping[str, SystemProducer], filled: FilledTables
    ) -> SectionRun:
        self._state = read_snapshot(self._files, before.state, _KNOWN, self._host, self._restored)
        start = TaskStart(before.start, self._state)
        number, intent = self._epoch.section, self._intent
        return SectionRun(
            self._program,
            number,
            self._task,
            producers,
            side_tables=filled.tables,
            filled=filled.read,
            start=start,
            whole=intent.whole,
            limit=intent.limit,
            shut_down=intent.shut_down,
        )

    def _kept_state(self, section: SectionRun, before: _Before, attempt: str) -> dict[str, Any] | None:
        folder = self._folder.state(self._intent.epoch, attempt)
        # Where outputs survive a power failure, what the next epoch goes on from does so, too.
        durable = any(isinstance(system, Durable) and system.durable for system in self._systems.values())
        return write_snapshot(
            self._files,
            folder,
            section.state(),
            before.state,
            _KNOWN,
            durable=durable,
            given=self._state,
            host=self._host,
        )

    def _output_of(
        self, section: SectionRun, before: _Before, batches: Iterator[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        inputs = TaskInputs(self._program, self._systems, _bound(self._epoch.inputs), self._epoch.own, self._intent)
        try:
            if not self._is_first:
                yield from section.run_batches(batches, self._boundary)
                return
            read_over(batches)
            yield from section.run(inputs.of(self._task, before.start))
        finally:
            inputs.close()

    def _boundary(self) -> Boundary:
        """What the task section before has reached; its note is there when its last batch has come through."""
        number = max((n for n in range(self._epoch.section) if self._program.sections[n].kind == "task"), default=None)
        if number is None:
            return Boundary()
        note = read(self._files, self._note(number), TaskNote)
        found = note.report.boundary if note is not None else None
        return found if found is not None else Boundary()

    def _whole_report(self, report: TaskReport) -> tuple[TaskReport, dict[str, Any]]:
        """The report of all sections of this try, this one being the last, and the state that the others keep."""
        state: dict[str, Any] = {}
        for number in range(self._epoch.section):
            if self._program.sections[number].kind != "task":
                continue
            if not self._files.exists(self._note(number)):
                raise StageError(
                    f"Task {self._task} of the stage {self._intent.stage} never ran its section {number + 1}: Spark "
                    "left it out.",
                    hint="This is a defect of airflow_samza; please report it with the stage's SQL and transforms.",
                    stage=self._intent.stage,
                )
            note = must_read(self._files, self._note(number), TaskNote)
            earlier = note.report
            state.update(note.state or {})
            self._files.delete(self._note(number))
            report.inputs.update(earlier.inputs)
            report.side_inputs.update(earlier.side_inputs)
            report.operators = {**earlier.operators, **report.operators}
            report.metrics = added(earlier.metrics, report.metrics)
            report.gauges = {**earlier.gauges, **report.gauges}
            report.bad_samples = [*earlier.bad_samples, *report.bad_samples]
            report.checkpoint = earlier.checkpoint.merged(report.checkpoint)
            report.final = report.final and earlier.final
            report.ended = report.ended and earlier.ended
            report.follows_clock = report.follows_clock or earlier.follows_clock
        return report, state

    def _note(self, section: int) -> str:
        return self._folder.note(f"{self._attempt}-{section}.json")

    def _manifest(
        self,
        attempt: str,
        report: TaskReport,
        described: Mapping[str, Mapping[str, Any]],
        state: Mapping[str, Any] | None,
        seconds: float,
    ) -> Manifest:
        read: dict[str, dict[str, int]] = {}
        for stream_id, found in (*report.inputs.items(), *report.side_inputs.items()):  # a stream may be both
            counts = {"messages": found.messages, "control": found.control_messages, "bytes": found.bytes}
            read[stream_id] = {name: count + read.get(stream_id, {}).get(name, 0) for name, count in counts.items()}
        staged = {}
        for stream_id, description in described.items():
            output = report.outputs[stream_id]
            # Only the run's own topics and those that applications share carry control messages in band (rule C1,
            # rule C10).
            in_band = stream_id in self._epoch.own or self._program.spec.stream(stream_id).shared
            control = control_entries(output.control) if in_band else ()
            staged[stream_id] = Staged(description, output.messages, control)
        facts: dict[str, Any] = dict(report.metrics)
        facts.update(self._restored.facts())
        if report.gauges:
            facts[GAUGES] = {name: {str(self._task): value} for name, value in report.gauges.items()}
        if report.bad_samples:
            facts["bad_records"] = report.bad_samples
        ignored = sum(table.ignored for table in report.tables.values())
        if ignored:
            facts["table_rows_ignored_for_a_null_key"] = ignored
        return Manifest(
            task=self._task,
            epoch=self._intent.epoch,
            attempt=attempt,
            seconds=round(seconds, 3),
            read=read,
            staged=staged,
            facts=facts,
            checkpoint=None if self._intent.whole else plain(report.checkpoint),
            state=state,
            ended=report.ended,
            follows_clock=report.follows_clock,
            shuts_down_all=report.shuts_down_all,
            report=_told(report),
        )


@durable("note of a task")
@dataclass(frozen=True)
class TaskNote:
    """The report of one task section of a try at a task, and the description of its state, for the last section."""

    report: TaskReport
    state: Mapping[str, Any] | None


@dataclass(frozen=True)
class _Before:
    """What the epoch before left of a task; None: nothing."""

    checkpoint: Mapping[str, Any] | None
    state: Mapping[str, Any] | None

    @property
    def start(self) -> TaskCheckpoint:
        """Where the task begins."""
        return (
            TaskCheckpoint()
            if self.checkpoint is None
            else made(TaskCheckpoint, self.checkpoint, "of a task's checkpoint")
        )


def _told(report: TaskReport) -> dict[str, Any]:
    """A report as a manifest holds it: the checkpoint stands beside it."""
    return {name: value for name, value in plain(report).items() if name != "checkpoint"}


def _bound(streams: Mapping[str, Mapping[str, Any]]) -> dict[str, BoundStream]:
    return {stream_id: made(BoundStream, data) for stream_id, data in streams.items()}


def task_host_files(host_dir: str, root: str, stage_folder: str, task: int) -> HostFiles:
    """The copies of a task's state on this host.

    ``$NAME`` in the folder's name is what the host's environment says; "": the default.
    """
    folder = os.path.dirname(host_part("state", host_dir))
    _sweep_once(folder)
    return HostFiles(folder, root, f"{stage_folder}/{task}")


@functools.lru_cache(maxsize=8)
def _sweep_once(folder: str) -> None:
    sweep_host(folder)


def _abort(producers: Mapping[str, SystemProducer]) -> None:
    for producer in producers.values():
        producer.abort()


@functools.lru_cache(maxsize=1)
def _one_thread() -> None:
    """Arrow's own threads would compete with Spark's: a task runs on one core."""
    import pyarrow as pa

    pa.set_cpu_count(1)


@functools.lru_cache(maxsize=8)
def _program(root: str, path: str) -> StageProgram:
    """The stage's program; made once per worker process, which runs many tasks."""
    return must_read(open_filesystem(root), path, ProgramSource).load()


@functools.lru_cache(maxsize=8)
def _systems(bindings: str, root: str) -> Mapping[str, System]:
    return bind_systems(worker_bindings(json.loads(bindings)), root)

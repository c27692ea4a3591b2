"""One task of an epoch, in a Spark Python worker: reads its partitions, runs the operators, stages the output, leaves a manifest.

Spark's partition k is Samza's task k. A stage of one section runs whole in one call; with Catalyst between, each task section is a call
of its own in the same Spark task, and hands its report to the next in a note named after the task's attempt (control messages and
offsets do not travel through Catalyst).
"""

from __future__ import annotations

import functools
import json
import platform
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_samza.control.end_of_stream import task_partitions
from airflow_samza.errors import StageError, TopicError
from airflow_samza.runs.epoch_records import Intent, Manifest, Staged
from airflow_samza.runs.failpoints import reach
from airflow_samza.runs.folders import StageFolder, must_read, replace, write_once
from airflow_samza.runs.names import Generation, writer_attempt
from airflow_samza.runs.run_plan import BoundStream
from airflow_samza.spark.bindings_json import bindings_from_json
from airflow_samza.spark.bound_systems import bind_systems
from airflow_samza.spark.worker_errors import from_worker
from airflow_samza.systems.filesystem import Filesystem, open_filesystem
from airflow_samza.systems.system import Envelope, OffsetRange, System, SystemConsumer, SystemProducer, SystemStreamPartition
from airflow_samza.task.report import TaskReport
from airflow_samza.task.run_loop import SectionRun, TaskInput
from airflow_samza.task.stage_program import ProgramSource, StageProgram

if TYPE_CHECKING:
    import pyarrow as pa

RESULT_SCHEMA = "task bigint, adopted boolean"
"""What the last section of a task gives back to the driver: one row."""


@dataclass(frozen=True)
class EpochTask:
    """The function that ``mapInArrow`` calls; small and plain, so that it travels to any worker.

    It must stay small: Spark writes functions of more than a megabyte to disk, and the bindings hold secrets. So intent and program
    are named by their paths. ``inputs`` and ``outputs`` are the streams without their slices (the intent has those), ``own`` those of
    them that are topics of the run; ``section`` is the number of the task section that it runs.
    """

    root: str
    bindings: Mapping[str, Any] = field(repr=False)
    stage: str
    stage_folder: str
    program: str
    epoch: int
    inputs: Mapping[str, Mapping[str, Any]]
    outputs: Mapping[str, Mapping[str, Any]]
    own: tuple[str, ...]
    section: int = 0

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Runs the section for the task that this Spark partition is."""
        from pyspark import TaskContext

        _one_thread()
        context = TaskContext.get()
        task = context.partitionId()
        try:
            yield from _Section(self, task, f"{task}-{context.taskAttemptId()}").run(batches)
        except Exception as error:
            raise from_worker(error, self.stage, task) from error


class _Section:
    """One task section of one try at one task."""

    def __init__(self, epoch: EpochTask, task: int, attempt: str) -> None:
        self._epoch = epoch
        self._task = task
        self._attempt = attempt
        self._files = open_filesystem(epoch.root)
        self._folder = StageFolder(epoch.stage_folder)
        intent = self._folder.intent(epoch.epoch)
        _see(self._files, intent)
        self._intent = Intent.from_dict(must_read(self._files, intent))
        self._program = _program(epoch.root, epoch.program)
        self._systems = _systems(json.dumps(epoch.bindings, sort_keys=True), self._files.root)

    @property
    def _is_first(self) -> bool:
        return self._epoch.section == 0

    @property
    def _is_last(self) -> bool:
        return self._epoch.section == len(self._program.sections) - 1

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields what the section behind gets; the last section yields one row for the driver."""
        import pyarrow as pa

        manifest = self._folder.manifest(self._intent.epoch, self._task)
        if self._files.exists(manifest):  # an earlier attempt has done this task: its output is the one that counts
            for _ in batches:
                pass
            adopted = True
        elif self._is_last:
            adopted = not self._run_to_the_end(batches, manifest)
        else:
            yield from self._run_to_the_boundary(batches)
            return
        if self._is_last:
            yield pa.RecordBatch.from_arrays([pa.array([self._task], pa.int64()), pa.array([adopted])], ["task", "adopted"])

    def _run_to_the_boundary(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        section = SectionRun(self._program, self._epoch.section, self._task, {})
        yield from self._output_of(section, batches)
        replace(self._files, self._note(self._epoch.section), section.report.to_dict())

    def _run_to_the_end(self, batches: Iterator[pa.RecordBatch], manifest: str) -> bool:
        """Stages the output and leaves the manifest; False when another attempt was quicker, whose output then counts."""
        started = time.time()
        generation = Generation.parse(self._intent.generation)
        attempt = writer_attempt(self._intent.stage, generation, self._intent.epoch, self._task)
        producers: dict[str, SystemProducer] = {}
        for stream_id, data in self._epoch.outputs.items():
            bound = BoundStream.from_dict(data)
            producers[stream_id] = self._systems[bound.system].producer(bound.spec, attempt)
        try:
            section = SectionRun(self._program, self._epoch.section, self._task, producers)
            for _ in self._output_of(section, batches):
                raise AssertionError("the last section yields nothing")
            report = self._whole_report(section.report)
            described = {stream_id: dict(producer.finish()) for stream_id, producer in producers.items()}
        except BaseException:
            _abort(producers)
            raise
        reach("task-before-manifest")
        record = self._manifest(attempt, report, described, time.time() - started)
        written = write_once(self._files, manifest, {**record.to_dict(), "report": report.to_dict()})
        reach("task-after-manifest")
        if not written:
            _abort(producers)
        return written

    def _output_of(self, section: SectionRun, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if not self._is_first:
            yield from section.run_batches(batches)
            return
        for _ in batches:  # the one row that stands for this task
            pass
        consumers: dict[str, SystemConsumer] = {}
        try:
            yield from section.run(self._inputs(consumers))
        finally:
            for consumer in consumers.values():
                consumer.close()

    def _inputs(self, consumers: dict[str, SystemConsumer]) -> list[TaskInput]:
        """The partitions that this task owns; envelopes are read when their turn comes."""
        owned = task_partitions(self._program.plan, self._program.stage.stage_id, self._task)
        inputs = []
        for stream_id, partition in owned:
            bound = BoundStream.from_dict(self._epoch.inputs[stream_id])
            slice_ = self._intent.inputs[stream_id].slice
            if stream_id not in consumers:
                consumers[stream_id] = self._systems[bound.system].consumer(bound.spec, slice_)
            place = SystemStreamPartition(bound.system, bound.spec.name, partition)
            offsets = slice_.get("offsets")
            start = int(offsets[partition][0]) if offsets is not None else 0
            # A topic that the run wrote is read by offsets: it has ended only if its writers say so in band, never because it was read.
            exact = OffsetRange(*offsets[partition]) if stream_id in self._epoch.own and offsets is not None else None
            envelopes = _Envelopes(self._program, stream_id, consumers[stream_id], place, exact)
            inputs.append(TaskInput(stream_id, partition, envelopes, start))
        return inputs

    def _whole_report(self, report: TaskReport) -> TaskReport:
        """The report of all sections of this try, this one being the last."""
        for number in range(self._epoch.section):
            if self._program.sections[number].kind != "task":
                continue
            if not self._files.exists(self._note(number)):
                raise StageError(
                    f"Task {self._task} of the stage {self._intent.stage} never ran its section {number + 1}: Spark left it out.",
                    hint="This is a defect of airflow_samza; please report it with the stage's SQL and transforms.",
                    stage=self._intent.stage,
                )
            earlier = TaskReport.from_dict(must_read(self._files, self._note(number)))
            self._files.delete(self._note(number))
            report.inputs.update(earlier.inputs)
            report.side_inputs.update(earlier.side_inputs)
            report.operators = {**earlier.operators, **report.operators}
            report.metrics = {**earlier.metrics, **report.metrics}
            report.checkpoint = earlier.checkpoint.merged(report.checkpoint)
            report.final = report.final and earlier.final
        return report

    def _note(self, section: int) -> str:
        return self._folder.note(f"{self._attempt}-{section}.json")

    def _manifest(self, attempt: str, report: TaskReport, described: Mapping[str, Mapping[str, Any]], seconds: float) -> Manifest:
        read = {
            stream_id: {"messages": found.messages, "control": found.control_messages, "bytes": found.bytes}
            for stream_id, found in {**report.inputs, **report.side_inputs}.items()
        }
        staged = {}
        for stream_id, description in described.items():
            output = report.outputs[stream_id]
            # Only the run's own topics carry control messages in band (SEMANTICS C1).
            sends_end = output.end_of_stream is not None and stream_id in self._epoch.own
            staged[stream_id] = Staged(description, output.messages, (output.end_of_stream,) if sends_end and output.end_of_stream else ())
        facts: dict[str, Any] = dict(report.metrics)
        ignored = sum(table.ignored for table in report.tables.values())
        if ignored:
            facts["table_rows_ignored_for_a_null_key"] = ignored
        return Manifest(self._task, self._intent.epoch, attempt, round(seconds, 3), read, staged, facts)


class _Envelopes:
    """The envelopes of one partition, of which only what the stage uses is read; opened when they are first asked for."""

    def __init__(
        self,
        program: StageProgram,
        stream_id: str,
        consumer: SystemConsumer,
        place: SystemStreamPartition,
        offsets: OffsetRange | None,
    ) -> None:
        self._columns = program.reads.get(stream_id)
        self._bounds = program.bounds.get(stream_id, ())
        self._consumer = consumer
        self._place = place
        self._offsets = offsets

    def __iter__(self) -> Iterator[Envelope]:
        return self._consumer.read(self._place, self._offsets, self._columns, self._bounds, dictionaries=True)


def _abort(producers: Mapping[str, SystemProducer]) -> None:
    for producer in producers.values():
        producer.abort()


def _see(files: Filesystem, intent: str) -> None:
    """Refuses a host that does not see what the stage runner has just written."""
    if not files.exists(intent):
        raise TopicError(
            f"The Python worker on {platform.node()} does not see the run's records: {files.location(intent)} is missing there.",
            hint="The root has to be one folder that all of Spark's hosts share, under the same path. "
            "If it is: was the run's folder deleted?",
            path=files.location(intent),
        )


@functools.lru_cache(maxsize=1)
def _one_thread() -> None:
    """Arrow's own threads would compete with Spark's: a task runs on one core."""
    import pyarrow as pa

    pa.set_cpu_count(1)


@functools.lru_cache(maxsize=8)
def _program(root: str, path: str) -> StageProgram:
    """The stage's program; made once per worker process, which runs many tasks."""
    return ProgramSource.from_json(open_filesystem(root).read(path).decode()).load()


@functools.lru_cache(maxsize=8)
def _systems(bindings: str, root: str) -> Mapping[str, System]:
    return bind_systems(bindings_from_json(json.loads(bindings)), root)

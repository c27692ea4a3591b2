"""The partial results of data intervals in a task: read where an earlier run has left them, else computed and kept."""

from __future__ import annotations

import dataclasses
import hashlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from airflow_samza.application.operator_specs import PartitionBySpec
from airflow_samza.control.end_of_stream import task_partitions
from airflow_samza.engine.task_inputs import TaskInputs
from airflow_samza.errors import SamzaError
from airflow_samza.runs.records.epoch_records import Intent
from airflow_samza.runs.records.names import KEPT_RESULTS, partial_path
from airflow_samza.runs.records.run_plan import BoundStream
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.system import System
from airflow_samza.task.checkpoint import TaskCheckpoint
from airflow_samza.task.loop.reading import TaskInput
from airflow_samza.task.loop.run_loop import SectionRun
from airflow_samza.task.operators.aggregation.combiner import MOST_ROWS, TRIED_ROWS, WORTH, Combining
from airflow_samza.task.program.stage_program import StageProgram
from airflow_samza.task.report import TaskReport, added

Take = Callable[[str, "pa.RecordBatch"], None]
"""Gives partial results to the combiner of an output."""

_DIGEST_BYTES = 32

log = logging.getLogger(__name__)


class IntervalResults:
    """Results that one task makes of each data interval of the stage's only input.

    An interval that nobody has left anything of is read by a run of the section of its own, whose output is kept. So
    what is merged is the same, whichever run has computed which interval.
    """

    def __init__(
        self,
        files: Filesystem,
        program: StageProgram,
        systems: Mapping[str, System],
        streams: Mapping[str, BoundStream],
        intent: Intent,
        task: int,
    ) -> None:
        self._files = files
        self._program = program
        self._systems = systems
        self._streams = streams
        self._intent = intent
        self._task = task
        self._stream_id = next(iter(intent.inputs))
        self._slice = intent.inputs[self._stream_id].slice
        self._kept = self._slice[KEPT_RESULTS][intent.stage]
        self._outputs = program.stage.outputs
        sent = {
            compiled.spec.stream.stream_id: compiled.compiled.sent.to_arrow()
            for compiled in program.operators.values()
            if isinstance(compiled.spec, PartitionBySpec) and isinstance(compiled.compiled, Combining)
        }
        self._schemas = [sent[stream_id] for stream_id in self._outputs]
        self._reports: list[TaskReport] = []
        self._used = 0

    @staticmethod
    def are_kept(program: StageProgram, intent: Intent) -> bool:
        """Return whether the plan keeps results of intervals for the stage, and the epoch reads all of them."""
        return (
            intent.whole
            and len(program.sections) == 1
            and any(intent.stage in read.slice.get(KEPT_RESULTS, {}) for read in intent.inputs.values())
        )

    def ends(self) -> list[TaskInput]:
        """Return the task's inputs without any message: the ends of what :meth:`give` gives."""
        return self._inputs([[] for _ in self._slice["splits"]]).of(self._task, TaskCheckpoint())

    def give(self, take: Take) -> None:
        """Give the results of all intervals, oldest first."""
        for _, partition in task_partitions(self._program.plan, self._program.stage.stage_id, self._task):
            for name, splits in self._parts(partition):
                self._give(name, partition, splits, take)

    def add_to(self, report: TaskReport) -> None:
        """Add to the report of the task what was read for it, and how much was not."""
        for made in self._reports:
            for stream_id, read in made.inputs.items():
                report.inputs[stream_id].messages += read.messages
                report.inputs[stream_id].bytes += read.bytes
            for op_id, counts in made.operators.items():
                report.operators[op_id].messages_in += counts.messages_in
                report.operators[op_id].messages_out += counts.messages_out
            report.metrics = added(report.metrics, made.metrics)
            report.bad_samples += made.bad_samples
        parts = {"interval_results_used": self._used, "interval_results_made": len(self._reports)}
        report.metrics = added(report.metrics, parts)

    def _parts(self, partition: int) -> Iterator[tuple[str, list[list[Any]]]]:
        begun = 0
        for interval, names in zip(self._slice["intervals"], self._kept["names"], strict=True):
            count = interval["splits"][partition]
            if count:
                yield names[partition], self._slice["splits"][partition][begun : begun + count]
            begun += count

    def _give(self, name: str, partition: int, splits: list[list[Any]], take: Take) -> None:
        paths = [partial_path(self._kept["folder"], name, number) for number in range(len(self._outputs))]
        found = [_read(self._files, path, schema) for path, schema in zip(paths, self._schemas, strict=True)]
        if all(batches is not None for batches in found):
            self._used += 1
            for stream_id, batches in zip(self._outputs, found, strict=True):
                for batch in batches or ():
                    take(stream_id, batch)
            return
        captured = {stream_id: _Captured(stream_id, take) for stream_id in self._outputs}
        report = self._computed(partition, splits, captured)
        self._reports.append(report)
        if all(one.pays(report.inputs[self._stream_id].messages) for one in captured.values()):
            for path, schema, one in zip(paths, self._schemas, captured.values(), strict=True):
                _write(self._files, path, schema, one.batches)

    def _computed(self, partition: int, splits: list[list[Any]], captured: Mapping[str, _Captured]) -> TaskReport:
        of_partitions: list[list[list[Any]]] = [[] for _ in self._slice["splits"]]
        of_partitions[partition] = splits
        inputs = self._inputs(of_partitions)
        section = SectionRun(self._program, 0, self._task, captured)
        try:
            for _ in section.run(inputs.of(self._task, TaskCheckpoint())):
                raise AssertionError("the only section yields nothing")
        finally:
            inputs.close()
        return section.report

    def _inputs(self, splits: list[list[list[Any]]]) -> TaskInputs:
        """Return the stage's inputs, cut to some splits of each partition."""
        files = sorted({file for of_partition in splits for file, _, _ in of_partition})
        numbers = {file: number for number, file in enumerate(files)}
        slice_ = {
            **self._slice,
            "files": [self._slice["files"][file] for file in files],
            "splits": [[[numbers[file], start, end] for file, start, end in of_one] for of_one in splits],
        }
        read = dataclasses.replace(self._intent.inputs[self._stream_id], slice=slice_)
        intent = dataclasses.replace(self._intent, inputs={self._stream_id: read})
        return TaskInputs(self._program, self._systems, self._streams, intent)


class _Captured:
    """A writer that hands on what a combiner sends, and remembers it as long as it is little."""

    def __init__(self, stream_id: str, take: Take) -> None:
        self.batches: list[pa.RecordBatch] = []
        self._stream_id = stream_id
        self._take = take
        self._rows = 0

    def write(self, partition: int, batch: pa.RecordBatch) -> None:
        """Take a batch; its partition is found again when it is sent."""
        self._rows += batch.num_rows
        if self._rows <= MOST_ROWS:
            self.batches.append(batch)
        else:
            self.batches.clear()
        self._take(self._stream_id, batch)

    def write_keyed(self, batch: pa.RecordBatch, key: tuple[str, ...]) -> None:
        """Take a batch of several partitions."""
        self.write(0, batch)

    def pays(self, messages: int) -> bool:
        """Return whether what was sent is little enough to be kept, as for combining itself (decision 7)."""
        return self._rows <= MOST_ROWS and (messages < TRIED_ROWS or self._rows <= WORTH * messages)


def _write(files: Filesystem, path: str, schema: pa.Schema, batches: Sequence[pa.RecordBatch]) -> None:
    """Keep partial results; that there is no room for them is no reason for a task to fail."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    content = sink.getvalue().to_pybytes()
    try:
        files.put_if_absent(path, content + hashlib.sha256(content).digest())
    except SamzaError as error:
        log.warning("Partial results are not kept, so that the next run computes them again: %s", error.sentence)


def _read(files: Filesystem, path: str, schema: pa.Schema) -> list[pa.RecordBatch] | None:
    """Return kept partial results; None where there are none that are whole, and a damaged file is removed."""
    try:
        data = files.read(path)
    except FileNotFoundError:
        return None
    content = data[:-_DIGEST_BYTES]
    if hashlib.sha256(content).digest() == data[-_DIGEST_BYTES:]:
        with pa.ipc.open_stream(pa.py_buffer(content)) as reader:
            if reader.schema.equals(schema):
                return list(reader)
    log.warning("The partial results in %s are damaged, and are computed again.", files.location(path))
    files.delete(path)
    return None

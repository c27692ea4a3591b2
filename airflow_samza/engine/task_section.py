"""One try at one task of an epoch: read its partitions, run the operators, stage the output, leave a manifest.

A stage of one section runs whole in one call. With Catalyst between, each task section is a call of its own in the same
Spark task, and hands its report to the next in a note named after the try (control messages and offsets do not travel
through Catalyst). Spark's workers run it, and so do the processes beside the driver.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from airflow_samza.engine.interval_results import IntervalResults
from airflow_samza.engine.stage_task import StageTask
from airflow_samza.engine.tables.warm_tables import FilledTables
from airflow_samza.engine.task_inputs import TaskInputs
from airflow_samza.errors import StageError
from airflow_samza.records import durable, from_plain, plain
from airflow_samza.runs.failpoints import reach
from airflow_samza.runs.records.epoch_records import (
    Intent,
    Manifest,
    Staged,
    StageStart,
    TaskLeft,
    control_entries,
    read_manifest,
)
from airflow_samza.runs.records.folders import StageFolder, must_read, read, replace, write_once
from airflow_samza.runs.records.names import Generation, writer_name
from airflow_samza.runs.records.stage_result import request_facts
from airflow_samza.runs.records.totals import GAUGES
from airflow_samza.storage.snapshots import Restored, TableCache, read_snapshot, snapshot_files, write_snapshot
from airflow_samza.systems.capabilities import Durable, FixesOutputs, has
from airflow_samza.systems.filesystems.object_store import requests
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.system import SystemProducer
from airflow_samza.task.checkpoint import TaskCheckpoint, TaskStart
from airflow_samza.task.loop.run_loop import SectionRun
from airflow_samza.task.loop.set_aside import SetAside
from airflow_samza.task.report import Boundary, TaskReport, added

_KNOWN = TableCache()
"""State that this process has read or written last: the next epoch of the task often comes to the same process."""


def read_over(batches: Iterator[pa.RecordBatch]) -> None:
    """Read and ignore the batches of a task that has its input elsewhere."""
    deque(batches, maxlen=0)


class TaskSection:
    """A task section of one try at one task of an epoch: the task at ``place`` among those that run in it."""

    def __init__(
        self, stage: StageTask, intent: Intent, place: int, attempt: str, section: int = 0, folder: str = ""
    ) -> None:
        self._stage = stage
        self._section = section
        self._files = open_filesystem(stage.root)
        self._folder = StageFolder(stage.stage_folder)
        self._intent = intent
        self.task = self._intent.running[place]
        """The number of the task."""
        self._attempt = f"{intent.epoch}-{self.task}-{attempt}"
        self._tables = stage.tables(self._intent, self.task)
        self._program = self._tables.program
        self._systems = self._tables.systems
        self._host = stage.host_files(self.task)
        self._aside = SetAside(os.path.join(folder, f"airflow-samza-{self._attempt}"))
        self._restored = Restored()
        self._requests = requests.snapshot()
        self._state: Mapping[str, Any] = {}

    @property
    def is_last(self) -> bool:
        """Return whether no section comes behind it."""
        return self._section == len(self._program.sections) - 1

    def run(self, batches: Iterator[pa.RecordBatch]) -> Generator[pa.RecordBatch, None, bool]:
        """Yield what the section behind gets; return whether the output of an earlier attempt at the task counts."""
        manifest = self._folder.manifest(self._intent.epoch, self.task)
        if self._files.exists(manifest):
            read_over(batches)
            return True
        if self.is_last:
            return not self._run_to_the_end(batches, manifest)
        yield from self._run_to_the_boundary(batches)
        return False

    def _run_to_the_boundary(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        before = self._before()
        with self._tables.filled(self._section) as filled:
            section = self._section_run(before, {}, filled)
            yield from self._output_of(section, before, batches)
        state = None if self._intent.whole else self._kept_state(section, before, self._new_attempt())
        replace(self._files, self._note(self._section), TaskNote(section.report, state, section.set_aside))

    def _run_to_the_end(self, batches: Iterator[pa.RecordBatch], manifest: str) -> bool:
        """Stage the output and leave the manifest.

        Return False when another attempt was quicker, whose output then counts.
        """
        started = time.time()
        attempt = self._new_attempt()
        producers: dict[str, SystemProducer] = {}
        for stream_id, bound in self._stage.outputs.items():
            system = self._systems[bound.system]
            if has(system, FixesOutputs):
                producers[stream_id] = system.producer(bound.spec, attempt, bound.slice)
            else:
                producers[stream_id] = system.producer(bound.spec, attempt)
        try:
            before = self._before()
            with self._tables.filled(self._section) as filled:
                section = self._section_run(before, producers, filled)
                for _ in self._output_of(section, before, batches):
                    raise AssertionError("the last section yields nothing")
            section.outputs.write_keys(self._files, self._folder.keys(self._intent.epoch), attempt)
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
        written = write_once(self._files, manifest, record, durable=self._output_is_durable())
        reach("task-after-manifest")
        if not written:
            _abort(producers)
        return written

    def _output_is_durable(self) -> bool:
        """Return whether the output survives a power failure: then what says where it lies has to survive it, too.

        Of a stage that writes only topics whose segments wait for no disk, the manifests wait for none.
        """
        systems = [self._systems[bound.system] for bound in self._stage.outputs.values()]
        return not systems or any(not has(system, Durable) or system.durable for system in systems)

    def _new_attempt(self) -> str:
        return writer_name(self._intent.stage, Generation.parse(self._intent.generation), self._intent.epoch, self.task)

    def _goes_on(self, report: TaskReport) -> bool:
        """Return whether anybody starts from what the task leaves: its next epoch, or another run."""
        if self._intent.whole:
            return False
        return self._intent.keeps_state or not (report.ended and report.final)

    def _before(self) -> TaskLeft:
        """Return what the task's former epoch left: checkpoint and state."""
        standing = self._intent.standing.get(self.task)
        if standing is not None:
            manifest = read_manifest(self._files, self._folder, self.task, standing)
            return TaskLeft(manifest.checkpoint, manifest.state)
        if self._intent.start is not None:
            return must_read(self._files, self._intent.start, StageStart).tasks.get(self.task, TaskLeft())
        return TaskLeft()

    def _section_run(
        self, before: TaskLeft, producers: Mapping[str, SystemProducer], filled: FilledTables
    ) -> SectionRun:
        self._state = read_snapshot(self._files, before.state, _KNOWN, self._host, self._restored)
        intent = self._intent
        return SectionRun(
            self._program,
            self._section,
            self.task,
            producers,
            side_tables=filled.tables,
            filled=filled.read,
            start=TaskStart(_checkpoint_in(before), self._state),
            whole=intent.whole,
            limit=intent.limit,
            shut_down=intent.shut_down,
            aside=self._aside,
        )

    def _kept_state(self, section: SectionRun, before: TaskLeft, attempt: str) -> dict[str, Any] | None:
        folder = self._folder.state(self._intent.epoch, attempt)
        # Where outputs survive a power failure, what the next epoch goes on from does so, too.
        durable = any(has(system, Durable) and system.durable for system in self._systems.values())
        return write_snapshot(
            self._files,
            folder,
            section.state,
            before.state,
            _KNOWN,
            durable=durable,
            former_state=self._state,
            host=self._host,
        )

    def _output_of(
        self, section: SectionRun, before: TaskLeft, batches: Iterator[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        inputs = TaskInputs(self._program, self._systems, self._stage.inputs, self._intent)
        try:
            if self._section > 0:
                yield from section.run_batches(batches, self._boundary)
                return
            read_over(batches)
            if IntervalResults.are_kept(self._program, self._intent):
                yield from self._output_of_intervals(section)
                return
            yield from section.run(inputs.of(self.task, _checkpoint_in(before)))
        finally:
            inputs.close()
            self._aside.close(delete=self.is_last)

    def _output_of_intervals(self, section: SectionRun) -> Iterator[pa.RecordBatch]:
        """Run the section over what earlier runs have left of the data intervals, as far as they have."""
        streams = self._stage.inputs
        results = IntervalResults(self._files, self._program, self._systems, streams, self._intent, self.task)
        yield from section.run(results.ends(), results.give)
        results.add_to(section.report)

    def _boundary(self, op_id: str) -> Boundary:
        """Return how far an operator of an earlier section has come.

        The note of that section is there when its last batch has come through.
        """
        sections = self._program.sections
        writer = next((n for n in range(self._section) if op_id in sections[n].sets_aside), self._section - 2)
        note = read(self._files, self._note(writer), TaskNote) if writer >= 0 else None
        if note is None:
            return Boundary()
        return note.set_aside.get(op_id) or note.report.boundary or Boundary()

    def _whole_report(self, report: TaskReport) -> tuple[TaskReport, dict[str, Any]]:
        """Return the report of all sections of this try, and the state that the others than this one keep."""
        state: dict[str, Any] = {}
        for number in range(self._section):
            if self._program.sections[number].kind != "task":
                continue
            note = read(self._files, self._note(number), TaskNote)  # a try after this one writes it anew
            if note is None:
                raise StageError(
                    f"Task {self.task} of the stage {self._intent.stage} never ran its section {number + 1}: Spark "
                    "left it out.",
                    hint="This is a defect of airflow_samza; please report it with the stage's SQL and transforms.",
                    stage=self._intent.stage,
                )
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
        read = {
            stream_id: {"messages": counts.messages, "control": counts.control_messages, "bytes": counts.bytes}
            for stream_id, counts in report.inputs.items()
        }
        staged = {}
        for stream_id, description in described.items():
            output = report.outputs[stream_id]
            # Only the run's own topics and those that applications share carry control messages in band (rule C1,
            # rule C10).
            in_band = self._stage.outputs[stream_id].is_own or self._program.spec.stream(stream_id).shared
            control = control_entries(output.control) if in_band else ()
            staged[stream_id] = Staged(description, output.messages, control)
        facts: dict[str, Any] = dict(report.metrics)
        facts.update(self._restored.facts())
        sent = requests.since(self._requests)
        requests.record(sent)
        facts.update(request_facts(sent))
        if report.gauges:
            facts[GAUGES] = {name: {str(self.task): value} for name, value in report.gauges.items()}
        if report.bad_samples:
            facts["bad_records"] = report.bad_samples
        ignored = sum(table.ignored for table in report.tables.values())
        if ignored:
            facts["table_rows_ignored_for_a_null_key"] = ignored
        reported = plain(report)
        checkpoint = reported.pop("checkpoint")
        return Manifest(
            task=self.task,
            epoch=self._intent.epoch,
            attempt=attempt,
            seconds=round(seconds, 3),
            read=read,
            staged=staged,
            facts=facts,
            checkpoint=None if self._intent.whole else checkpoint,
            state=state,
            ended=report.ended,
            follows_clock=report.follows_clock,
            shuts_down_all=report.shuts_down_all,
            report=reported,
            code=self._stage.code,
        )


@durable("note of a task", later={"set_aside": {}})
@dataclass(frozen=True)
class TaskNote:
    """The report of one task section of a try at a task, and the description of its state, for the last section.

    ``set_aside`` says how far the streams have come that wait for a later section, by operator.
    """

    report: TaskReport
    state: Mapping[str, Any] | None
    set_aside: Mapping[str, Boundary] = field(default_factory=dict)


def _checkpoint_in(left: TaskLeft) -> TaskCheckpoint:
    """Return the checkpoint from which a task begins."""
    return from_plain(TaskCheckpoint, left.checkpoint or {}, "of a task's checkpoint")


def _abort(producers: Mapping[str, SystemProducer]) -> None:
    for producer in producers.values():
        producer.abort()

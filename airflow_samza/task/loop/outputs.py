"""The outputs of one task: their writers, and the control messages that follow what was written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from airflow_samza.control.end_of_stream import task_name
from airflow_samza.control.messages import EndOfStreamMessage, WatermarkMessage
from airflow_samza.control.watermarks import NONE_YET
from airflow_samza.runs.records.names import safe
from airflow_samza.storage.snapshots import Files
from airflow_samza.task.messages.output_writers import OutputWriter, Writer
from airflow_samza.task.program.stage_program import StageProgram
from airflow_samza.task.report import OutputReport, added


class TaskOutputs:
    """The outputs that one section writes, by their ``producers``; ``sent`` are the watermarks that went out before."""

    def __init__(
        self, program: StageProgram, task: int, producers: Mapping[str, Writer], sent: Mapping[str, int]
    ) -> None:
        self._producing_tasks = program.producing_tasks
        self._task = task
        self._reports: dict[str, OutputReport] = {}
        self.sent = dict(sent)
        self.writers = {
            stream: OutputWriter(
                stream, writer, program.spec.stream(stream).key, program.plan.stream(stream).partitions, task
            )
            for stream, writer in producers.items()
        }

    def end(self, stream: str, final: bool) -> None:
        """Add an end-of-stream message: everything that this task sends to an output has been sent."""
        tasks = self._producing_tasks.get(stream, 0)
        if self._task < tasks:
            self._report(stream).end_of_stream = EndOfStreamMessage(
                task_name(self._task), tasks, stream_id=stream, final=final
            )

    def advance(self, watermarks: Mapping[str, int]) -> None:
        """Send watermarks (ms) to outputs that stay open, where they are later than those sent before."""
        for stream, timestamp in watermarks.items():
            tasks = self._producing_tasks.get(stream, 0)
            if self._task < tasks and timestamp > self.sent.get(stream, NONE_YET):
                self.sent[stream] = timestamp
                self._report(stream).watermark = WatermarkMessage(task_name(self._task), tasks, timestamp=timestamp)

    def reports(self) -> dict[str, OutputReport]:
        """Return reports of what was written, by stream, with the control messages to commit behind it."""
        for stream, writer in self.writers.items():
            report = self._report(stream)
            report.messages, report.bytes = writer.messages, writer.bytes
            if writer.expectations is not None:
                report.expectations = writer.expectations.checked()
        return dict(self._reports)

    def metrics(self) -> dict[str, float]:
        """Return how many rows did not meet expectations, and were dropped or sent away."""
        counts: dict[str, float] = {}
        for writer in self.writers.values():
            if writer.expectations is not None:
                counts = added(counts, writer.expectations.metrics)
        return counts

    def write_keys(self, files: Files, folder: str, attempt: str) -> None:
        """Write files of the keys that must be unique, and note them in the reports."""
        for stream, writer in self.writers.items():
            for number, keys in writer.expectations.gathered() if writer.expectations is not None else ():
                path = f"{folder}/{attempt}-{safe(stream)}-{number}.arrow"
                if keys.write(files, path):
                    checked = self._report(stream).expectations
                    checked[number] = replace(checked[number], keys=path)

    def _report(self, stream: str) -> OutputReport:
        return self._reports.setdefault(stream, OutputReport())

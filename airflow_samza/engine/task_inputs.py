"""Inputs of one task in an epoch: partitions, each from its checkpoint up to the intent's bound, and their ends.

Tries at tasks read through it, on Spark and in the test driver.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from airflow_samza.control.end_of_stream import task_partitions
from airflow_samza.control.messages import EndOfStreamMessage
from airflow_samza.runs.records.epoch_records import Intent
from airflow_samza.runs.records.run_plan import BoundStream, range_end
from airflow_samza.systems.system import (
    ControlEnvelope,
    Envelope,
    MessageRun,
    OffsetRange,
    System,
    SystemConsumer,
    SystemStreamPartition,
)
from airflow_samza.task.checkpoint import TaskCheckpoint
from airflow_samza.task.loop.reading import TaskInput
from airflow_samza.task.program.stage_program import StageProgram


class TaskInputs:
    """The inputs of a task in one epoch; envelopes are read when their turn comes."""

    def __init__(
        self,
        program: StageProgram,
        systems: Mapping[str, System],
        streams: Mapping[str, BoundStream],
        intent: Intent,
    ) -> None:
        self._program = program
        self._systems = systems
        self._streams = streams
        self._intent = intent
        self._consumers: dict[str, SystemConsumer] = {}

    def of(self, task: int, checkpoint: TaskCheckpoint) -> list[TaskInput]:
        """Return the partitions that the task owns, from its checkpoint on."""
        owned = task_partitions(self._program.plan, self._program.stage.stage_id, task)
        return [
            self._input(stream_id, partition, checkpoint.offset(stream_id, partition)) for stream_id, partition in owned
        ]

    def close(self) -> None:
        """Close what was opened."""
        for consumer in self._consumers.values():
            consumer.close()

    def _input(self, stream_id: str, partition: int, reached: int | None) -> TaskInput:
        bound, read = self._streams[stream_id], self._intent.inputs[stream_id]
        offsets = read.slice.get("offsets")
        slice_ = OffsetRange(*offsets[partition]) if offsets is not None else None
        first = slice_.start if slice_ is not None else 0
        start = first if reached is None else reached
        exact: OffsetRange | None = None
        # A topic that the run wrote is read by offsets: it has ended only if its writers say so in band, never because
        # it was read.
        if slice_ is not None and (bound.is_own or not self._intent.whole):
            exact = OffsetRange(start, max(start, slice_.end))
        if stream_id not in self._consumers:
            self._consumers[stream_id] = self._systems[bound.system].consumer(bound.spec, read.slice)
        place = SystemStreamPartition(bound.system, bound.spec.name, partition)
        envelopes = self._envelopes(stream_id, place, exact, start)
        return TaskInput(
            stream_id, partition, envelopes, start, slice_.end if slice_ is not None else None, bound.system
        )

    def _envelopes(
        self, stream_id: str, place: SystemStreamPartition, offsets: OffsetRange | None, start: int
    ) -> Iterator[Envelope]:
        """Yield the envelopes of one partition, opened when first asked for, and its end."""
        end = self._intent.inputs[stream_id].end
        if offsets is not None:
            if offsets.start < offsets.end:
                yield from self._read(stream_id, place, offsets)
            if end is not None:
                yield _end(stream_id, place, offsets.end, end)
        elif end is not None:  # what is counted only while it is read ends where the last epoch stopped
            yield _end(stream_id, place, start, end)
        else:
            yield from self._behind_start(stream_id, place, start)

    def _read(self, stream_id: str, place: SystemStreamPartition, offsets: OffsetRange | None) -> Iterator[Envelope]:
        """Read of a partition only what the stage uses."""
        columns, bounds = self._program.reads.get(stream_id), self._program.bounds.get(stream_id, ())
        return self._consumers[stream_id].read(place, offsets, columns, bounds, dictionaries=True)

    def _behind_start(self, stream_id: str, place: SystemStreamPartition, start: int) -> Iterator[Envelope]:
        """Yield what earlier epochs have not read, where offsets are counted while reading."""
        for envelope in self._read(stream_id, place, None):
            if isinstance(envelope, ControlEnvelope) and range_end(self._intent.inputs[stream_id].slice) is False:
                yield _end(stream_id, place, envelope.offset, False)  # it ends for this run only (rule C9)
            elif envelope.offset >= start:
                yield envelope
            elif isinstance(envelope, MessageRun) and envelope.offset + envelope.messages > start:
                yield envelope.slice(start - envelope.offset)


def _end(stream_id: str, place: SystemStreamPartition, end: int, final: bool) -> ControlEnvelope:
    # It takes no offset of its own: the next run reads the next message, not the one after it.
    return ControlEnvelope(place, end, EndOfStreamMessage(None, 1, stream_id=stream_id, final=final))

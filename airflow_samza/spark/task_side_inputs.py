"""What the tables of one task are filled from in an epoch: its partitions of the side inputs, as far as the intent says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from airflow_samza.errors import TopicError
from airflow_samza.runs.epoch_records import Intent
from airflow_samza.runs.run_plan import BoundStream
from airflow_samza.systems.system import Envelope, OffsetRange, System, SystemConsumer, SystemStreamPartition
from airflow_samza.task.reading import TaskInput
from airflow_samza.task.stage_program import StageProgram
from airflow_samza.task.task_tables import section_tables, side_partitions


class SideInputs:
    """The side inputs of a task in one epoch; a topic is opened when it is first read."""

    def __init__(self, program: StageProgram, systems: Mapping[str, System], streams: Mapping[str, BoundStream], intent: Intent) -> None:
        self._program = program
        self._systems = systems
        self._streams = streams
        self._intent = intent
        self._consumers: dict[str, SystemConsumer] = {}

    def of(self, task: int, section: int) -> list[TaskInput]:
        """The partitions that feed the tables of a section of the task."""
        tables = section_tables(self._program, section)
        fed = sorted({stream_id for table_id in tables for stream_id in self._program.spec.table(table_id).side_inputs})
        return [self._input(stream_id, partition) for stream_id in fed for partition in side_partitions(self._program, stream_id, task)]

    def close(self) -> None:
        """Closes what was opened."""
        for consumer in self._consumers.values():
            consumer.close()

    def read(self, stream_id: str, partition: int, offsets: OffsetRange | None) -> Iterator[Envelope]:
        """The envelopes of one partition; None: all of them, of a stream that counts no offsets."""
        bound, read = self._streams[stream_id], self._intent.side_inputs[stream_id]
        if offsets is not None and offsets.start >= offsets.end:
            return
        if stream_id not in self._consumers:
            self._consumers[stream_id] = self._opened(stream_id)
        place = SystemStreamPartition(bound.system, read.stream, partition)
        yield from self._consumers[stream_id].read(place, offsets)

    def _opened(self, stream_id: str) -> SystemConsumer:
        bound, read = self._streams[stream_id], self._intent.side_inputs[stream_id]
        try:
            return self._systems[bound.system].consumer(bound.spec, read.slice)
        except TopicError as error:
            raise TopicError(
                f"The side input {stream_id!r} cannot be read as it was planned: {error.sentence}",
                hint="Its topic was deleted or made anew: clear the plan task with its downstream tasks, which build the tables anew.",
                stream=stream_id,
            ) from error

    def _input(self, stream_id: str, partition: int) -> TaskInput:
        offsets = self._intent.side_inputs[stream_id].slice.get("offsets")
        slice_ = OffsetRange(*map(int, offsets[partition])) if offsets is not None else None
        start, head = slice_ if slice_ is not None else (0, None)
        return TaskInput(stream_id, partition, _Envelopes(self, stream_id, partition, slice_), start, head)


@dataclass(frozen=True)
class _Envelopes:
    """The envelopes of one partition, read when they are asked for."""

    side_inputs: SideInputs
    stream_id: str
    partition: int
    offsets: OffsetRange | None

    def __iter__(self) -> Iterator[Envelope]:
        return self.side_inputs.read(self.stream_id, self.partition, self.offsets)

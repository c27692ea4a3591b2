"""A task with a table that side inputs feed, over topics that begin and end where a test says."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from airflow_samza import stream_application
from airflow_samza.planner.planner import ExecutionPlanner
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.prepare.side_inputs import SideInputSlices
from airflow_samza.prepare.task_side_inputs import TOPIC_IDENTITY, SideInputs
from airflow_samza.runs.records.epoch_records import InputIntent, Intent
from airflow_samza.runs.records.run_plan import SIDE_INPUT, BoundStream
from airflow_samza.storage.offsets_file import Place
from airflow_samza.systems.filesystems.memory import MemoryFilesystem
from airflow_samza.systems.system import MessageRun, OffsetRange, StreamSpec, SystemStreamPartition
from airflow_samza.task.loop.reading import TaskInput
from airflow_samza.task.loop.side_tables import SideTables
from airflow_samza.task.program.stage_program import check_application, compile_stage

COLUMNS = "id bigint, text string"


class NotThere(Exception):
    """A topic is asked for more messages than it has."""


class Topics:
    """A system whose partitions hold ``messages``, which came one after the other, in the offsets ``ranges``.

    ``read_up_to`` counts the messages up to the last one that was read.
    """

    def __init__(self, ranges: Mapping[Place, tuple[int, int]], messages: Sequence[tuple[Place, int]]) -> None:
        self._ranges = ranges
        self._messages = messages
        self.read_up_to = 0

    def slice(self, stream: StreamSpec) -> dict[str, Any]:
        ranges = {partition: list(found) for (name, partition), found in self._ranges.items() if name == stream.name}
        return {"offsets": [ranges[partition] for partition in sorted(ranges)]} if ranges else {}

    def consumer(self, stream: StreamSpec, slice_: Mapping[str, Any]) -> Topics:
        return self

    def close(self) -> None:
        """Hold nothing."""

    def read(self, ssp: SystemStreamPartition, offsets: OffsetRange) -> Iterator[MessageRun]:
        following = offsets.start
        for number, (place, offset) in enumerate(self._messages, 1):
            if place == (ssp.stream, ssp.partition) and offset in range(following, offsets.end):
                self.read_up_to = max(self.read_up_to, number)
                following = offset + 1
                yield MessageRun(ssp, offset, pa.record_batch({"id": [offset], "text": ["x"]}))
        if following < offsets.end:
            raise NotThere


class SideInputTask:
    """A task with a table that side inputs feed, by a ``processor`` or without one; it reads all of their ``places``.

    Their messages have ``columns``.
    """

    def __init__(
        self,
        topics: Any,
        places: Collection[Place],
        config: Mapping[str, str],
        processor: Any = None,
        columns: str = COLUMNS,
    ) -> None:
        counts = {stream: 1 + max(p for name, p in places if name == stream) for stream, _ in sorted(places)}

        @stream_application("case", config=config, default_system="log")
        def application(app: Any) -> None:
            views = app.input_stream("views", schema="id bigint", key="id", partitions=1)
            feeds = [
                app.side_input(stream, schema=columns, partitions=count, broadcast=True, bounded=False)
                for stream, count in counts.items()
            ]
            table = app.table("s", key="id", side_inputs=feeds, schema=COLUMNS, processor=processor)
            views.join(table, how="left", id="join").send_to(app.output_stream("out"))

        spec = application.spec()
        plan = ExecutionPlanner({}, {**counts, "views": 1}).plan(spec)
        check_application(spec, plan)
        self._program = compile_stage(spec, plan, plan.stages[0].stage_id)
        self._topics = topics
        self._streams = {
            stream: BoundStream(stream, SIDE_INPUT, "log", StreamSpec(stream, count))
            for stream, count in counts.items()
        }
        self.tables = SideTables(self._program, 0)

    def has_read(self, place: Place, last: int) -> None:
        """Let the table hold what a place had up to an offset."""
        self.tables.sources[place[0]] = {"offsets": [[0, last + 1]], TOPIC_IDENTITY: None}
        for table in self.tables.tables:
            table.pass_by(place, last + 1)

    def inputs(self) -> list[TaskInput]:
        """Return what the table lacks, as an epoch reads it that begins now."""
        systems = {"log": self._topics}
        slices = SideInputSlices(MemoryFilesystem(), self._program.spec, systems, RunRequest("", ""))
        found = {stream: InputIntent(stream, slices.of(bound)) for stream, bound in self._streams.items()}
        intent = Intent("views", "1.1", 0, 1, {}, {}, side_inputs=found)
        return SideInputs(self._program, systems, self._streams, intent, lambda mark: False).of(self.tables, 0)

"""The side inputs from which the tables of one task are filled in an epoch, as far as the intent reaches (decision 54).

Tables of an earlier epoch are continued; where the topic was created again or another version is read, they begin
again. Each task fills its tables through it, on a host or in the test driver.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from functools import cache
from typing import Any

from airflow_samza.errors import TopicError
from airflow_samza.runs.records.epoch_records import Intent
from airflow_samza.runs.records.run_plan import BoundStream
from airflow_samza.runs.tables.table_version import sections_since
from airflow_samza.storage.offsets_file import STALE_SECONDS, Place
from airflow_samza.systems.capabilities import CompactsTopics, HasSections, IdentifiesTopics, ReadsBySection
from airflow_samza.systems.system import Envelope, OffsetRange, System, SystemConsumer, SystemStreamPartition
from airflow_samza.task.loop.reading import TaskInput
from airflow_samza.task.loop.side_tables import SideTables
from airflow_samza.task.loop.task_tables import side_partitions
from airflow_samza.task.program.stage_program import StageProgram

Slice = Mapping[str, Any]


class SideInputs:
    """The side inputs of a task in one epoch; a topic is opened when it is first read.

    ``is_marked`` asks for a mark: of what a version was compacted of it says that it may no longer be read.
    """

    def __init__(
        self,
        program: StageProgram,
        systems: Mapping[str, System],
        streams: Mapping[str, BoundStream],
        intent: Intent,
        is_marked: Callable[[str], bool],
    ) -> None:
        self._program = program
        self._systems = systems
        self._streams = streams
        self._intent = intent
        self._is_marked = cache(is_marked)  # asked twice, it has to give the same answer
        self._consumers: dict[str, SystemConsumer] = {}

    def of(self, tables: SideTables, task: int) -> list[TaskInput]:
        """Return what the tables of a section of the task have not read yet."""
        slices = {stream_id: self._intent.side_inputs[stream_id].slice for stream_id in tables.streams}
        age = time.monotonic() - tables.filled_at
        for stream_id, slice_ in slices.items():
            former = tables.sources.get(stream_id)
            if former is not None and not self._goes_on(former, slice_, self._reached(tables, stream_id, task), age):
                tables.forget(stream_id)
        inputs: list[TaskInput] = []
        for stream_id, slice_ in slices.items():
            inputs += self._inputs(tables, stream_id, slice_, task)
            tables.sources[stream_id] = slice_
        return inputs

    def close(self) -> None:
        """Close what was opened; what is read later is opened again."""
        while self._consumers:
            self._consumers.popitem()[1].close()

    def read(self, stream_id: str, partition: int, slice_: Slice, offsets: OffsetRange | None) -> Iterator[Envelope]:
        """Read the envelopes of one partition as they are asked for; None: all of a stream that counts no offsets."""
        if offsets is not None and offsets.start >= offsets.end:
            return
        bound = self._streams[stream_id]
        if stream_id not in self._consumers:
            self._consumers[stream_id] = self._opened(stream_id, slice_)
        place = SystemStreamPartition(bound.system, self._intent.side_inputs[stream_id].stream, partition)
        yield from self._consumers[stream_id].read(place, offsets)

    def by_section(
        self, stream_id: str, slice_: Slice, partitions: Iterable[int]
    ) -> Iterator[tuple[tuple[str, str], int, Envelope]]:
        """Read all of another slice of a stream, in its order: each envelope with its section and partition."""
        bound, consumer = self._streams[stream_id], self._opened(stream_id, slice_)
        assert isinstance(consumer, ReadsBySection)  # pushes lie in systems that keep versions
        try:
            for partition in partitions:
                place = SystemStreamPartition(bound.system, self._intent.side_inputs[stream_id].stream, partition)
                for section, envelope in consumer.read_by_section(place):
                    yield section, partition, envelope
        finally:
            consumer.close()

    def behind(self, stream_id: str, partition: int, slice_: Slice) -> Iterator[Envelope]:
        """Read what has come to a partition since its range was fixed."""
        bound = self._streams[stream_id]
        head = self._systems[bound.system].metadata([bound.spec])[bound.spec.name].head[partition]
        return self.read(stream_id, partition, slice_, OffsetRange(int(slice_["offsets"][partition][1]), head))

    def _inputs(self, tables: SideTables, stream_id: str, slice_: Slice, task: int) -> Iterator[TaskInput]:
        former, system = tables.sources.get(stream_id), self._streams[stream_id].system
        ranges = slice_.get("offsets")
        if ranges is None:
            if former is None:
                for partition in side_partitions(self._program, stream_id, task):
                    yield TaskInput(stream_id, partition, self.read(stream_id, partition, slice_, None), system=system)
            return
        if former is not None and "sections" in slice_:
            newer = sections_since(former["sections"], slice_, self._is_marked)
            assert newer is not None
            added, ranges = newer
            if not added:
                self._pass_by(tables, stream_id, slice_, task)
                return
            for table in tables.tables:
                table.forget_offsets(stream_id)
            slice_ = {**slice_, "sections": added, "offsets": ranges}
        for partition in side_partitions(self._program, stream_id, task):
            first, end = map(int, ranges[partition])
            start = tables.start(stream_id, partition, first)
            if start < end or former is None or "sections" in slice_:
                envelopes = self.read(stream_id, partition, slice_, OffsetRange(start, max(start, end)))
                yield TaskInput(stream_id, partition, envelopes, start, end, system)

    def _goes_on(self, former: Slice, slice_: Slice, reached: Mapping[Place, int], age: float) -> bool:
        """Return whether what a former slice gave, ``age`` seconds ago, is a beginning of what is read now."""
        if former.get(TOPIC_IDENTITY) != slice_.get(TOPIC_IDENTITY):
            return False
        ranges = slice_.get("offsets")
        if ranges is None or former.get("offsets") is None:
            return former == slice_
        if "sections" in former and "sections" in slice_:
            return sections_since(former["sections"], slice_, self._is_marked) is not None
        if "sections" in former or "sections" in slice_:
            return False
        head = {place: int(ranges[place[1]][1]) for place in reached}
        if COMPACTION in slice_ and age > tombstone_seconds(slice_) and head != reached:
            return False
        # Deletes before the oldest offset would be missed (rule S4); a topic that ends earlier was made anew (rule S5).
        return all(int(ranges[place[1]][0]) <= offset <= head[place] for place, offset in reached.items())

    def _pass_by(self, tables: SideTables, stream_id: str, slice_: Slice, task: int) -> None:
        """Note the latest offsets where nothing is read: the same rows may stand at other offsets now."""
        for partition in side_partitions(self._program, stream_id, task):
            for table in tables.tables:
                if stream_id in table.table.side_inputs:
                    table.pass_by((stream_id, partition), int(slice_["offsets"][partition][1]))

    def _reached(self, tables: SideTables, stream_id: str, task: int) -> dict[Place, int]:
        places = [(stream_id, partition) for partition in side_partitions(self._program, stream_id, task)]
        offsets = {place: tables.start(*place, oldest=-1) for place in places}
        return {place: offset for place, offset in offsets.items() if offset >= 0}

    def _opened(self, stream_id: str, slice_: Slice) -> SystemConsumer:
        bound = self._streams[stream_id]
        system = self._systems[bound.system]
        try:
            reject_recreated(system, bound, slice_)
            range_ = {name: value for name, value in slice_.items() if name not in (TOPIC_IDENTITY, COMPACTION)}
            return system.consumer(bound.spec, range_)
        except TopicError as error:
            raise TopicError(
                f"The side input {stream_id!r} cannot be read as it was planned: {error.sentence}",
                hint="Its topic was deleted or created again: clear the plan task with its downstream tasks, which "
                "build the tables again.",
                stream=stream_id,
            ) from error


TOPIC_IDENTITY = "made"
"""Beside the offsets of a side input's slice: what tells its topic from others of its name (:func:`topic_identity`)."""

COMPACTION = "compaction"
"""Beside them, where the topic is compacted: since when it may have been (``planned``, ms), and how."""


def topic_identity(system: System, bound: BoundStream) -> int | str | None:
    """Return when the topic of a stream was made, or its identity and how it is read; None where nobody knows."""
    if isinstance(system, HasSections):
        return system.creation_time(bound.spec.name)
    if not isinstance(system, IdentifiesTopics):
        return None
    identity, spec = system.identity(bound.spec), bound.spec
    read_as = json.dumps(
        [spec.serde, spec.schema, spec.key, spec.options, spec.tolerant]
    )  # of the same bytes, other rows
    return None if identity is None else f"{identity}/{hashlib.sha256(read_as.encode()).hexdigest()[:16]}"


def whole_range(system: System, bound: BoundStream) -> dict[str, Any]:
    """Return the slice of all that a side input holds now."""
    since, planned = topic_identity(system, bound), int(time.time() * 1000)
    slice_ = {**system.slice(bound.spec), TOPIC_IDENTITY: since}
    compaction = system.compaction(bound.spec) if isinstance(system, CompactsTopics) else None
    return slice_ if compaction is None else {**slice_, COMPACTION: {"planned": planned, **asdict(compaction)}}


def tombstone_seconds(slice_: Slice) -> float:
    """Return for how long the topic of a side input tells that a key was deleted; who reads later may miss it."""
    compaction = slice_.get(COMPACTION)
    return STALE_SECONDS if compaction is None else min(STALE_SECONDS, compaction["deletes_ms"] / 1000)


def reject_recreated(system: System, bound: BoundStream, slice_: Slice) -> None:
    """Reject a topic that is not the one in the range."""
    planned, present = slice_.get(TOPIC_IDENTITY), topic_identity(system, bound)
    if planned is not None and present is not None and present != planned:
        raise TopicError(
            f"The topic {bound.spec.name!r} was created again since the run was planned.",
            hint="Clear the plan task.",
            stream=bound.stream_id,
        )

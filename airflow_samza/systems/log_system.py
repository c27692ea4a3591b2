"""The log: topics as folders of immutable segment files and commit records, the embedded default.

A producing task writes one segment per epoch, and nobody sees it until the epoch is published as one commit record.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow_samza.control.messages import EndOfStreamMessage
from airflow_samza.errors import ConfigError, TopicError
from airflow_samza.schema import Schema
from airflow_samza.systems import log_commits
from airflow_samza.systems.dictionaries import decoded
from airflow_samza.systems.filesystem import Filesystem, open_filesystem
from airflow_samza.systems.log_index import Control, LogIndex, Run
from airflow_samza.systems.log_records import Commit, Segment, control_message
from airflow_samza.systems.log_segments import SegmentReaders, SegmentWriter
from airflow_samza.systems.log_topic import Topic, create_topic, find_topic, list_topics, made_at, open_topic
from airflow_samza.systems.sections import Section, SectionFilter, is_section, says_all
from airflow_samza.systems.system import (
    ColumnBound,
    ControlEnvelope,
    Envelope,
    MessageRun,
    OffsetRange,
    Publication,
    StreamMetadata,
    StreamSpec,
    SystemBinding,
    SystemStreamPartition,
)
from airflow_samza.systems.topic_rows import arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa


class LogSystem:
    """A log under one root. ``filesystem`` is given by tests; else the binding's option ``root`` names it.

    The option ``durable`` (default false) lets the segments of producers survive a power failure at the cost of waiting for the
    disk; commit records and ``append`` always do. ``user`` and ``token`` say who asks an HDFS.
    """

    kind = "log"

    def __init__(self, name: str, binding: SystemBinding, root: str | None = None, filesystem: Filesystem | None = None) -> None:
        self.name = name
        self.binding = binding
        if filesystem is None:
            where = binding.options.get("root") or root
            if not where:
                raise ConfigError(
                    f"The system {name!r} of kind log has no root.",
                    hint="Set the option root of the system, or the root of the samza connection.",
                    key=f"systems.{name}.root",
                    value="",
                )
            filesystem = open_filesystem(str(where), binding.options)
        self.filesystem = filesystem
        # What a run stages can be made again from its input: by default only commit records wait for the disk.
        self.durable = str(binding.options.get("durable", "false")).lower() == "true"
        self.admin = LogAdmin(self)

    def topic(self, name: str) -> Topic:
        """The topic of this name; one that is missing is a TopicError."""
        return open_topic(self.filesystem, self.name, name)

    def topics(self) -> list[str]:
        """The names of all topics."""
        return list(list_topics(self.filesystem))

    def made(self, name: str) -> int | None:
        """When the topic was made (ms since 1970): a topic that was deleted and made anew has another time; None: there is none."""
        return made_at(self.filesystem, name)

    def slice(self, stream: StreamSpec) -> dict[str, Any]:
        """What a run reads: ``offsets`` [from, to) per partition as of ``commit``, the number of commits taken into account."""
        index = LogIndex(self.topic(stream.name))
        partitions = index.topic.partitions
        offsets = [[index.oldest(partition), index.head[partition]] for partition in range(partitions)]
        return {"kind": self.kind, "partitions": partitions, "offsets": offsets, "commit": index.number}

    def has_news(self, stream: StreamSpec, slice: Mapping[str, Any]) -> bool:
        """Whether anything was committed after what a slice covers; asks for one file."""
        return self.filesystem.exists(self.topic(stream.name).commit_path(int(slice["commit"])))

    def sections(self, stream: StreamSpec) -> list[Section]:
        """What each run has written of a topic that applications share, oldest first."""
        index = LogIndex(self.topic(stream.name))
        found: dict[tuple[str, str], Section] = {}
        for partition in range(index.topic.partitions):
            for owner, entries in index.owned(partition):
                if owner is None or not is_section(owner[0]) or not entries:
                    continue
                control = [
                    control_message(entry.kind, entry.body, index.topic, partition, entry.offset)
                    for entry in entries
                    if isinstance(entry, Control)
                ]
                found.setdefault(owner, Section(*owner)).take(partition, entries[0].offset, entries[-1].end, control)
        return list(found.values())

    def consumer(self, stream: StreamSpec, slice: Mapping[str, Any] | None = None) -> LogConsumer:
        """A consumer that reads the topic as of the slice, or as it is now."""
        return LogConsumer(self.topic(stream.name), slice)

    def producer(self, stream: StreamSpec, attempt: str) -> LogProducer:
        """A producer that stages the output of one task attempt in one segment."""
        return LogProducer(self.topic(stream.name), attempt, stream.schema, durable=self.durable)

    def check_writable(self, stream: StreamSpec) -> None:
        """Writes a small file beside the topic and deletes it again."""
        topic = self.topic(stream.name)
        probe = f"{topic.directory}/segments/.probe-{uuid.uuid4().hex}"
        self.filesystem.put(probe, b"")
        self.filesystem.delete(probe)

    def publish(self, stream: StreamSpec, publication: Publication) -> dict[str, Any]:
        """Adds the staged segments as one commit; publishing the same again changes nothing and returns the same facts."""
        topic = self.topic(stream.name)
        return publish_segments(
            topic,
            publication.producer,
            publication.generation,
            publication.epoch,
            [publication.staged[task] for task in sorted(publication.staged)],
            publication.control,
        )

    def append(
        self,
        name: str,
        rows: pa.Table | pa.RecordBatch | Iterable[pa.RecordBatch],
        *,
        key: Sequence[str] = (),
        partitions: int | None = None,
        schema: str | None = None,
    ) -> dict[str, Any]:
        """Appends rows to a topic, all or nothing, and makes the topic when it is missing and ``partitions`` says how many.

        With ``key`` each row goes to its key's partition; without, all go to partition 0 of a topic that has just one. For
        notebooks, the command line and ``write.format("samza")``: a run's own output goes through a producer and ``publish``.
        """
        topic = find_topic(self.filesystem, self.name, name)
        if topic is None and partitions is not None:
            topic = create_topic(self.filesystem, self.name, name, partitions, schema)
        topic = topic or self.topic(name)
        if not key and topic.partitions > 1:
            raise TopicError(
                f"Rows for {name!r}, which has {topic.partitions} partitions, need a key.",
                hint="Give the key columns (key=), by which the rows find their partition.",
                stream=name,
            )
        unique = f"append-{uuid.uuid4().hex}"
        producer = LogProducer(topic, unique, schema, durable=True)
        try:
            for batch in _batches(rows):
                if key:
                    producer.write_keyed(batch, key)
                else:
                    producer.write(0, batch)
            staged = producer.finish()
        except BaseException:
            producer.abort()
            raise
        return publish_segments(topic, unique, "1", 0, [staged], (), once=True)


def _batches(rows: pa.Table | pa.RecordBatch | Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    import pyarrow as pa

    if isinstance(rows, pa.Table):
        return list(rows.to_batches()) or [pa.RecordBatch.from_pylist([], schema=rows.schema)]
    return [rows] if isinstance(rows, pa.RecordBatch) else rows


def publish_segments(
    topic: Topic,
    producer: str,
    generation: str,
    epoch: int,
    staged: Sequence[Mapping[str, Any]],
    control: Sequence[Any] = (),
    *,
    once: bool = False,
) -> dict[str, Any]:
    """Commits what producers staged.

    Facts: ``commit`` (its number), ``rows``, ``bytes``, ``control``, ``offsets`` ([from, to) per partition), ``duplicate``.
    """
    segments = [Segment.from_json(description) for description in staged if description.get("segment")]
    schema = next((str(description["schema"]) for description in staged if description.get("schema")), None)
    for description in staged:
        if description.get("schema") and not log_commits.same_columns(str(description["schema"]), str(schema)):
            raise TopicError(
                f"Tasks wrote different columns to {topic.name!r}: ({schema}) and ({description['schema']}).",
                hint="Declare the stream's schema, so that every task writes the same.",
                stream=topic.name,
            )
    commit = log_commits.append_commit(
        topic, producer, generation, epoch, segments, control, once=once, schema=schema, check=lambda: _check_staged(topic, segments)
    )
    duplicate = commit is None
    if commit is None:
        commit = _published(topic, producer, generation, epoch)
    added = commit.rows_by_partition
    return {
        "topic": topic.name,
        "commit": commit.number,
        "rows": commit.rows,
        "bytes": commit.bytes,
        "control": len(commit.control),
        "offsets": [[end - rows - len(commit.control), end] for end, rows in zip(commit.next, added, strict=True)],
        "duplicate": duplicate,
    }


def _check_staged(topic: Topic, segments: Sequence[Segment]) -> None:
    # A commit must never name what is not there: readers would find out only later.
    for segment in segments:
        path = topic.segment_path(segment.name)
        try:
            size = topic.filesystem.size(path)
        except FileNotFoundError:
            size = -1
        if size != segment.bytes:
            raise TopicError(
                f"The staged segment {topic.filesystem.location(path)} "
                + ("is missing." if size < 0 else f"has {size} bytes, not the {segment.bytes} that were written."),
                hint="Clear the stage that wrote it: nothing of this epoch has been published.",
                stream=topic.name,
                path=topic.filesystem.location(path),
            )


def _published(topic: Topic, producer: str, generation: str, epoch: int) -> Commit:
    for commit in reversed(list(log_commits.read_commits(topic, 0))):
        if (commit.producer, commit.generation, commit.epoch) == (producer, generation, epoch):
            return commit
    raise topic.damaged(topic.commit_path(0), f"and its followers do not hold epoch {epoch} of {producer}, which is published")


class LogAdmin:
    """Asks about and makes topics."""

    def __init__(self, system: LogSystem) -> None:
        self._system = system

    def metadata(self, streams: Sequence[StreamSpec]) -> dict[str, StreamMetadata]:
        """Partition count, oldest offset and head per partition, and the schema; missing topics are left out."""
        found = {}
        for stream in streams:
            topic = find_topic(self._system.filesystem, self._system.name, stream.name)
            if topic is not None:
                index = LogIndex(topic)
                oldest = tuple(index.oldest(partition) for partition in range(topic.partitions))
                found[stream.name] = StreamMetadata(topic.partitions, oldest, index.head, index.schema)
        return found

    def create(self, streams: Sequence[StreamSpec]) -> None:
        """Makes the topics that are missing; one with another partition count or schema is refused."""
        for stream in streams:
            if stream.partitions is None:
                raise TopicError(
                    f"The topic {stream.name!r} cannot be made without a partition count.",
                    hint="Declare partitions= on the stream.",
                    stream=stream.name,
                )
            create_topic(self._system.filesystem, self._system.name, stream.name, stream.partitions, stream.schema)


class LogProducer:
    """Stages the output of one task attempt to one topic in one segment file; dictionary-encoded columns stay so."""

    takes_dictionaries = True

    def __init__(self, topic: Topic, attempt: str, schema: str | None = None, *, durable: bool = False) -> None:
        self._topic = topic
        # An attempt that starts anew under its old name must not write into a file that may be committed.
        name = f"{quote(attempt, safe='-_.~+=@,:')[:180]}-{uuid.uuid4().hex[:8]}"
        declared = arrow_schema(topic.schema or schema)
        self._writer = SegmentWriter(topic, name, declared, durable=durable)

    def write(self, partition: int, batch: pa.RecordBatch) -> None:
        """Appends user messages to a partition."""
        self._writer.write(partition, batch)

    def write_keyed(self, batch: pa.RecordBatch, key_columns: Sequence[str]) -> None:
        """Appends user messages, each to the partition of its key."""
        self._writer.write_keyed(batch, key_columns)

    def finish(self) -> dict[str, Any]:
        """Closes the segment; its description names the file, its batches with partition and rows, and the totals."""
        try:
            segment = self._writer.finish()
        except BaseException:
            self.abort()
            raise
        schema = None if self._writer.schema is None else Schema.of(self._writer.schema).ddl()
        if segment is None:
            return {"segment": None, "total_rows": 0, "bytes": 0, "schema": schema}
        return {**segment.to_json(), "total_rows": sum(segment.rows), "schema": schema}

    def abort(self) -> None:
        """Deletes what was staged."""
        self._writer.abort()


class LogConsumer:
    """Reads a topic as it was when the consumer was opened, or as of a slice."""

    def __init__(self, topic: Topic, slice: Mapping[str, Any] | None = None) -> None:
        self.topic = topic
        self._slice = slice
        self._readers = SegmentReaders(topic)
        self._index: LogIndex = self._load()

    def _load(self) -> LogIndex:
        if self._slice is None:
            return LogIndex(self.topic)
        if self._slice.get("partitions") != self.topic.partitions:
            raise TopicError(
                f"The slice speaks of {self._slice.get('partitions')} partitions, and {self.topic.name!r} has {self.topic.partitions}.",
                hint="The topic was made anew since the run was planned: clear the plan task.",
                stream=self.topic.name,
            )
        commits = self._slice.get("commit")
        index = LogIndex(self.topic, None if commits is None else int(commits) - 1)
        if commits is not None and index.number < int(commits):
            raise self._beyond(f"commit {int(commits) - 1}", f"{index.number} commits")
        return index

    @property
    def head(self) -> tuple[int, ...]:
        """The next offset per partition, as of the opening."""
        return self._index.head

    @property
    def schema(self) -> pa.Schema | None:
        """The columns of the topic, also of an empty one; None when nobody has said or written any."""
        return arrow_schema(self._index.schema)

    def refresh(self) -> None:
        """Opens the topic anew, so that what was committed since is seen (not with a slice, which stays what it is)."""
        self._index = self._load()

    def read(
        self,
        ssp: SystemStreamPartition,
        offsets: OffsetRange | None = None,
        columns: Sequence[str] | None = None,
        bounds: Sequence[ColumnBound] = (),
        *,
        dictionaries: bool = False,
    ) -> Iterator[Envelope]:
        """The envelopes of a slice in offset order, one record batch in memory at a time.

        ``offsets`` None reads the consumer's slice, or all up to the head as taken when it was opened; where no producer has put
        a control message in band (a topic that was appended to), it ends with an end-of-stream of the source (SEMANTICS C2); a topic
        that nobody has written to ends only where a slice says that this is all.
        """
        partition = ssp.partition
        if not 0 <= partition < self.topic.partitions:
            raise TopicError(
                f"The topic {self.topic.name!r} has no partition {partition}; it has {self.topic.partitions}.",
                hint="Partitions count from 0.",
                stream=self.topic.name,
                partition=partition,
            )
        whole = offsets is None
        start, end = offsets or self._all(partition)
        if end > self._index.head[partition]:
            if self._slice is None:
                self.refresh()
            if end > self._index.head[partition]:
                raise self._beyond(f"offset {end} of partition {partition}", f"{self._index.head[partition]} offsets")
        floor = self._index.floor.offset(partition)
        if not whole and start < min(floor, end):
            raise TopicError(
                f"The offsets from {start} of {self.topic.name!r}/{partition} are expired; the oldest left is {floor}.",
                hint="Start at the oldest offset, or rebuild what is missing from its source.",
                stream=self.topic.name,
                partition=partition,
                offset=start,
                oldest=floor,
            )
        controlled = False
        for envelope in self._read(ssp, start, end, columns):
            if not dictionaries and isinstance(envelope, MessageRun):
                envelope = MessageRun(ssp, envelope.offset, decoded(envelope.batch))
            controlled = controlled or isinstance(envelope, ControlEnvelope)
            yield envelope
        if whole and not controlled and (self._index.number > 0 or says_all(self._slice)):
            yield ControlEnvelope(ssp, end, EndOfStreamMessage(None, 1, None, self.topic.name))

    def _all(self, partition: int) -> OffsetRange:
        ranges = self._slice.get("offsets") if self._slice is not None else None
        if ranges is None:
            return OffsetRange(0, self._index.head[partition])
        return OffsetRange(*ranges[partition])

    def _read(self, ssp: SystemStreamPartition, start: int, end: int, columns: Sequence[str] | None) -> Iterator[Envelope]:
        sections = self._sections(ssp, start)
        renewed = False
        while True:
            try:
                for owner, entries in self._index.owned_slice(ssp.partition, start, end):
                    for entry in entries if sections is None or sections.takes(owner) else ():
                        envelope = self._envelope(ssp, entry, start, end, columns)
                        if sections is not None and owner is not None and isinstance(envelope, ControlEnvelope):
                            yield from sections.control(owner, envelope.offset, envelope.message)
                        else:
                            yield envelope
                        start = min(entry.end, end)
                return
            except FileNotFoundError as error:
                # A compaction may have put other segments in the place of those that were known here; offsets never change.
                if renewed:
                    raise self.topic.damaged(_relative(error, self.topic), "is missing") from None
                renewed = True
                self._renew()

    def _sections(self, ssp: SystemStreamPartition, start: int) -> SectionFilter | None:
        """The filter of a slice of sections, which knows the control messages that were read before ``start``."""
        if self._slice is None or "sections" not in self._slice:
            return None
        sections = SectionFilter(self._slice, ssp)
        for owner, entries in self._index.owned_slice(ssp.partition, self._slice["offsets"][ssp.partition][0], start):
            for entry in entries if owner is not None and sections.takes(owner) else ():
                if isinstance(entry, Control) and owner is not None:
                    sections.control(owner, entry.offset, control_message(entry.kind, entry.body, self.topic, ssp.partition, entry.offset))
        return sections

    def _renew(self) -> None:
        former, self._index = self._index, LogIndex(self.topic)
        replaced = next((commit for commit in former.live_commits() if not self._index.is_live(commit)), None)
        if self._slice is not None and replaced is not None:
            raise TopicError(
                f"What this slice of {self.topic.name!r} covers is gone: commit {replaced.number} was superseded or expired.",
                hint="Clear the plan task, so that the run fixes a new slice.",
                stream=self.topic.name,
                commit=replaced.number,
            )

    def _envelope(self, ssp: SystemStreamPartition, entry: Run | Control, start: int, end: int, columns: Sequence[str] | None) -> Envelope:
        if isinstance(entry, Control):
            if entry.commit is not None:
                message = entry.commit.control_message(entry.number, self.topic, ssp.partition, entry.offset)
            else:
                message = control_message(entry.kind, entry.body, self.topic, ssp.partition, entry.offset)
            return ControlEnvelope(ssp, entry.offset, message)
        batch = self._readers.read(entry.segment, entry.batch, columns)
        skip = max(start - entry.offset, 0)
        rows = min(end, entry.end) - entry.offset - skip
        if rows != batch.num_rows:
            batch = batch.slice(entry.row + skip, rows)
        return MessageRun(ssp, entry.offset + skip, batch)

    def _beyond(self, wanted: str, there: str) -> TopicError:
        return TopicError(
            f"The topic {self.topic.name!r} does not reach to {wanted}: it has {there}.",
            hint="The topic was made anew since this slice was fixed: clear the stage together with its upstream.",
            stream=self.topic.name,
        )

    def close(self) -> None:
        """Closes the open segments."""
        self._readers.close()


def _relative(error: FileNotFoundError, topic: Topic) -> str:
    name = str(error.filename or error)
    place = name.find(topic.directory)
    return name[place:] if place >= 0 else topic.directory

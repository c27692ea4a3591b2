"""Topics in the memory of one process: what the test driver and tests run on, with the rules of the log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_samza.control.messages import ControlMessage, EndOfStreamMessage
from airflow_samza.errors import TopicError
from airflow_samza.partitioner import partition_array, split_by_partition
from airflow_samza.schema import Schema
from airflow_samza.systems.producers_seen import ProducersSeen
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
    UnreadableRun,
    run_of,
)
from airflow_samza.systems.topic_refusals import check_keyed, check_partition, declared_partitions
from airflow_samza.systems.topic_rows import arrow_schema, plain_schema, to_schema

if TYPE_CHECKING:
    import pyarrow as pa

Staged = dict[int, list["pa.RecordBatch"]]


@dataclass
class _Commit:
    producer: str
    generation: str
    epoch: int
    once: bool
    base: list[int]
    batches: Staged
    control: tuple[ControlMessage, ...]

    def rows(self, partition: int) -> int:
        return sum(batch.num_rows for batch in self.batches.get(partition, ()))

    def end(self, partition: int) -> int:
        return self.base[partition] + self.rows(partition) + len(self.control)

    def envelopes(self, ssp: SystemStreamPartition) -> Iterator[Envelope]:
        offset = self.base[ssp.partition]
        for batch in self.batches.get(ssp.partition, ()):
            yield run_of(ssp, offset, batch)
            offset += batch.num_rows
        for message in self.control:
            yield ControlEnvelope(ssp, offset, message)
            offset += 1


@dataclass
class _Topic:
    name: str
    partitions: int
    schema: pa.Schema | None
    next: list[int]
    commits: list[_Commit] = field(default_factory=list)
    seen: ProducersSeen = field(default_factory=ProducersSeen)
    staged: dict[str, Staged] = field(default_factory=dict)

    def live(self, up_to: int | None = None) -> list[_Commit]:
        commits = self.commits[:up_to]
        seen = ProducersSeen()
        for commit in commits:
            if not commit.once:
                seen.add(commit.producer, commit.generation, commit.epoch)
        return [commit for commit in commits if commit.once or not seen.is_superseded(commit.producer, commit.generation)]

    def check(self, partition: int) -> None:
        check_partition(self.name, self.partitions, partition)


class MemorySystem:
    """Topics that live as long as this object."""

    kind = "memory"

    def __init__(self, name: str = "memory", binding: SystemBinding | None = None) -> None:
        self.name = name
        self.binding = binding or SystemBinding("memory")
        self._topics: dict[str, _Topic] = {}
        self.admin = MemoryAdmin(self)

    def topics(self) -> list[str]:
        """The names of all topics."""
        return sorted(self._topics)

    def find(self, name: str) -> _Topic | None:
        """The topic of this name, or None."""
        return self._topics.get(name)

    def topic(self, name: str) -> _Topic:
        """The topic of this name; one that is missing is a TopicError."""
        if name not in self._topics:
            raise TopicError(
                f"There is no topic {name!r} in system {self.name!r}.",
                hint=f"It has {', '.join(self.topics()) or 'no topics yet'}.",
                stream=name,
                system=self.name,
            )
        return self._topics[name]

    def create(self, name: str, partitions: int, schema: str | None = None) -> None:
        """Makes a topic when it is missing; one with another partition count is an error."""
        if partitions < 1:
            raise TopicError(f"The topic {name!r} cannot have {partitions} partitions.", hint="Declare one or more.", stream=name)
        there = self._topics.get(name)
        if there is None:
            self._topics[name] = _Topic(name, partitions, arrow_schema(schema), [0] * partitions)
        elif there.partitions != partitions:
            raise TopicError(
                f"The topic {name!r} of system {self.name!r} has {there.partitions} partitions, not {partitions}.",
                hint="Use the count it has, or another name.",
                stream=name,
                partitions=there.partitions,
                wanted=partitions,
            )
        elif schema is not None and there.schema is not None and arrow_schema(schema) != there.schema:
            raise TopicError(
                f"The topic {name!r} of system {self.name!r} has the schema ({Schema.of(there.schema).ddl()}), not ({schema}).",
                hint="Declare the schema it has, or use another name.",
                stream=name,
            )

    def slice(self, stream: StreamSpec) -> dict[str, Any]:
        """What a run reads: ``offsets`` [from, to) per partition as of ``commit``, the number of commits taken into account."""
        topic = self.topic(stream.name)
        metadata = self.admin.metadata([stream])[stream.name]
        offsets = [list(pair) for pair in zip(metadata.oldest, metadata.head, strict=True)]
        return {"kind": self.kind, "partitions": topic.partitions, "offsets": offsets, "commit": len(topic.commits)}

    def sections(self, stream: StreamSpec) -> list[Section]:
        """What each run has written of a topic that applications share, oldest first."""
        topic = self.topic(stream.name)
        found: dict[tuple[str, str], Section] = {}
        for commit in topic.live():
            if not commit.once and is_section(commit.producer):
                section = found.setdefault((commit.producer, commit.generation), Section(commit.producer, commit.generation))
                for partition in range(topic.partitions):
                    section.take(partition, commit.base[partition], commit.end(partition), commit.control)
        return list(found.values())

    def consumer(self, stream: StreamSpec, slice: Mapping[str, Any] | None = None) -> MemoryConsumer:
        """A consumer that reads the topic as of the slice, or as it is now."""
        return MemoryConsumer(self.topic(stream.name), slice)

    def producer(self, stream: StreamSpec, attempt: str) -> MemoryProducer:
        """A producer that keeps its rows until they are published."""
        return MemoryProducer(self.topic(stream.name), attempt, stream.schema)

    def check_writable(self, stream: StreamSpec) -> None:
        """Memory can always be written, if the topic is there."""
        self.topic(stream.name)

    def publish(self, stream: StreamSpec, publication: Publication) -> dict[str, Any]:
        """Makes staged rows visible, with the rules of the log."""
        topic = self.topic(stream.name)
        producer, generation, epoch = publication[:3]
        staged = [publication.staged[task] for task in sorted(publication.staged)]
        return self._commit(topic, producer, generation, epoch, staged, publication.control)

    def append(
        self,
        name: str,
        rows: pa.Table | pa.RecordBatch | Iterable[pa.RecordBatch],
        *,
        key: Sequence[str] = (),
        partitions: int | None = None,
        schema: str | None = None,
    ) -> dict[str, Any]:
        """Appends rows, each to its key's partition; makes the topic when ``partitions`` says how many."""
        import pyarrow as pa

        if name not in self._topics and partitions is not None:
            self.create(name, partitions, schema)
        topic = self.topic(name)
        check_keyed(name, topic.partitions, bool(key))
        producer = MemoryProducer(topic, f"append-{len(topic.commits)}-{id(rows)}", schema)
        for batch in rows.to_batches() if isinstance(rows, pa.Table) else [rows] if isinstance(rows, pa.RecordBatch) else rows:
            if key:
                producer.write_keyed(batch, key)
            else:
                producer.write(0, batch)
        return self._commit(topic, "append", "1", len(topic.commits), [producer.finish()], (), once=True)

    @staticmethod
    def _commit(
        topic: _Topic,
        producer: str,
        generation: str,
        epoch: int,
        staged: Sequence[Mapping[str, Any]],
        control: tuple[ControlMessage, ...],
        *,
        once: bool = False,
    ) -> dict[str, Any]:
        duplicate = not once and topic.seen.is_published(topic.name, producer, generation, epoch)
        if duplicate:
            commit = next(c for c in topic.commits if (c.producer, c.generation, c.epoch) == (producer, generation, epoch))
        else:
            batches: Staged = {}
            for description in staged:
                for partition, pieces in topic.staged.get(str(description["attempt"]), {}).items():
                    batches.setdefault(partition, []).extend(pieces)
            commit = _Commit(producer, generation, epoch, once, list(topic.next), batches, tuple(control))
            topic.commits.append(commit)
            topic.next = [commit.end(partition) for partition in range(topic.partitions)]
            if not once:
                topic.seen.add(producer, generation, epoch)
            for description in staged:
                topic.staged.pop(str(description["attempt"]), None)
        return {
            "topic": topic.name,
            "commit": topic.commits.index(commit),
            "rows": sum(commit.rows(partition) for partition in range(topic.partitions)),
            "bytes": sum(batch.nbytes for pieces in commit.batches.values() for batch in pieces),
            "control": len(commit.control),
            "offsets": [[commit.base[partition], commit.end(partition)] for partition in range(topic.partitions)],
            "duplicate": duplicate,
        }


class MemoryAdmin:
    """Asks about and makes topics."""

    def __init__(self, system: MemorySystem) -> None:
        self._system = system

    def metadata(self, streams: Sequence[StreamSpec]) -> dict[str, StreamMetadata]:
        """Partition count, oldest offset and head per partition, and the schema; missing topics are left out."""
        found = {}
        for stream in streams:
            topic = self._system.find(stream.name)
            if topic is None:
                continue
            live = topic.live()
            oldest = [
                next((c.base[partition] for c in live if c.end(partition) > c.base[partition]), topic.next[partition])
                for partition in range(topic.partitions)
            ]
            schema = None if topic.schema is None else Schema.of(topic.schema).ddl()
            found[stream.name] = StreamMetadata(topic.partitions, tuple(oldest), tuple(topic.next), schema)
        return found

    def create(self, streams: Sequence[StreamSpec]) -> None:
        """Makes the topics that are missing; one with another partition count or schema is refused."""
        for stream in streams:
            self._system.create(stream.name, declared_partitions(stream), stream.schema)


class MemoryProducer:
    """Keeps the rows of one task attempt until they are published."""

    def __init__(self, topic: _Topic, attempt: str, schema: str | None = None) -> None:
        self._topic = topic
        self._attempt = attempt
        self._schema = topic.schema or arrow_schema(schema)
        self._batches: Staged = {}

    def write(self, partition: int, batch: pa.RecordBatch) -> None:
        """Appends user messages to a partition."""
        self._topic.check(partition)
        batch = self._fit(batch)
        if batch.num_rows:
            self._batches.setdefault(partition, []).append(batch)

    def write_unreadable(self, partition: int, batch: pa.RecordBatch) -> None:
        """Appends messages that nobody can read (``unreadable_batch``), as a test has them."""
        self._topic.check(partition)
        self._batches.setdefault(partition, []).append(batch)

    def write_keyed(self, batch: pa.RecordBatch, key_columns: Sequence[str]) -> None:
        """Appends user messages, each to the partition of its key."""
        batch = self._fit(batch)
        partitions = partition_array(batch, key_columns, self._topic.partitions)
        for partition, piece in split_by_partition(batch, partitions, self._topic.partitions):
            self._batches.setdefault(partition, []).append(piece)

    def _fit(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self._schema is None:
            self._schema = self._topic.schema = self._topic.schema or plain_schema(batch.schema)
        return to_schema(batch, self._schema, self._topic.name)

    def finish(self) -> dict[str, Any]:
        """Stages the rows; the description names the attempt and the totals."""
        self._topic.staged[self._attempt] = self._batches
        batches = [batch for pieces in self._batches.values() for batch in pieces]
        return {
            "attempt": self._attempt,
            "total_rows": sum(batch.num_rows for batch in batches),
            "bytes": sum(batch.nbytes for batch in batches),
            "schema": None if self._schema is None else Schema.of(self._schema).ddl(),
        }

    def abort(self) -> None:
        """Throws the rows away."""
        self._batches.clear()
        self._topic.staged.pop(self._attempt, None)


class MemoryConsumer:
    """Reads a topic as it was when the consumer was opened, or as of a slice."""

    def __init__(self, topic: _Topic, slice: Mapping[str, Any] | None = None) -> None:
        self._topic = topic
        self._slice = slice
        self._open()

    def _open(self) -> None:
        commits = len(self._topic.commits) if self._slice is None or self._slice.get("commit") is None else int(self._slice["commit"])
        self._commits = self._topic.live(commits)
        self._any = commits > 0
        last = self._topic.commits[commits - 1] if commits else None
        self.head = tuple(0 if last is None else last.end(partition) for partition in range(self._topic.partitions))

    @property
    def schema(self) -> pa.Schema | None:
        """The columns of the topic; None when nobody has said or written any."""
        return self._topic.schema

    def refresh(self) -> None:
        """Opens the topic anew, so that what was published since is seen."""
        self._open()

    def read(
        self,
        ssp: SystemStreamPartition,
        offsets: OffsetRange | None = None,
        columns: Sequence[str] | None = None,
        bounds: Sequence[ColumnBound] = (),
        *,
        dictionaries: bool = False,
    ) -> Iterator[Envelope]:
        """The envelopes of a slice in offset order; None reads the slice, or all, and ends a source's partition as the log does."""
        self._topic.check(ssp.partition)
        whole = offsets is None
        if offsets is None:
            ranges = None if self._slice is None else self._slice.get("offsets")
            offsets = OffsetRange(0, self.head[ssp.partition]) if ranges is None else OffsetRange(*ranges[ssp.partition])
        if offsets.end > self.head[ssp.partition] and self._slice is None:
            self.refresh()
        if offsets.end > self.head[ssp.partition]:
            raise TopicError(
                f"The topic {self._topic.name!r} does not reach to offset {offsets.end} of partition {ssp.partition}: "
                f"it has {self.head[ssp.partition]} offsets.",
                hint="Read up to the head, or refresh the consumer.",
                stream=self._topic.name,
            )
        controlled = False
        for envelope in self._envelopes(ssp, offsets, columns):
            controlled = controlled or isinstance(envelope, ControlEnvelope)
            yield envelope
        if whole and not controlled and (self._any or says_all(self._slice)):
            yield ControlEnvelope(ssp, offsets.end, EndOfStreamMessage(None, 1, None, self._topic.name))

    def _envelopes(self, ssp: SystemStreamPartition, offsets: OffsetRange, columns: Sequence[str] | None) -> Iterator[Envelope]:
        sections = SectionFilter(self._slice, ssp) if self._slice is not None and "sections" in self._slice else None
        for commit in self._commits:
            owner = (commit.producer, commit.generation)
            for envelope in commit.envelopes(ssp) if sections is None or sections.takes(owner) else ():
                if sections is None or not isinstance(envelope, ControlEnvelope):
                    found: Sequence[Envelope] = [envelope]
                else:  # also those before the offsets count for what comes behind them
                    found = sections.control(owner, envelope.offset, envelope.message)
                yield from (cut for one in found if (cut := _cut(one, offsets, columns)) is not None)

    def close(self) -> None:
        """Nothing is held."""


def _cut(envelope: Envelope, offsets: OffsetRange, columns: Sequence[str] | None) -> Envelope | None:
    if isinstance(envelope, ControlEnvelope):
        return envelope if offsets.start <= envelope.offset < offsets.end else None
    skip = max(offsets.start - envelope.offset, 0)
    rows = min(offsets.end, envelope.offset + envelope.batch.num_rows) - envelope.offset - skip
    if rows <= 0:
        return None
    if isinstance(envelope, UnreadableRun):
        return envelope.slice(skip, rows)
    batch = envelope.batch if rows == envelope.batch.num_rows else envelope.batch.slice(skip, rows)
    if columns is not None:
        missing = [name for name in columns if name not in batch.schema.names]
        if missing:
            raise TopicError(
                f"The topic {envelope.ssp.stream!r} has no column {missing[0]!r}.",
                hint=f"Its columns are {', '.join(batch.schema.names)}.",
                stream=envelope.ssp.stream,
                column=missing[0],
            )
        batch = batch.select(list(columns))
    return MessageRun(envelope.ssp, envelope.offset + skip, batch)

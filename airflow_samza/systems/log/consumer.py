"""Reading of a topic of the log: the envelopes of an input range, or of the whole topic, in offset order.

The log reads by it, and so do the systems that keep its bookkeeping; the command ``topics`` prints by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow_samza.control.messages import EndOfStreamMessage
from airflow_samza.errors import TopicError
from airflow_samza.systems.log.index import Control, LogIndex, Run, index_of
from airflow_samza.systems.log.segment_store import store_of
from airflow_samza.systems.log.topic import Topic, reject_other
from airflow_samza.systems.sections import SectionFilter, says_all
from airflow_samza.systems.system import (
    ColumnBound,
    ControlEnvelope,
    Envelope,
    MessageRun,
    OffsetRange,
    SystemStreamPartition,
)
from airflow_samza.systems.topic_rejections import check_partition
from airflow_samza.systems.topic_rows import arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa


class LogConsumer:
    """Consumer of a topic as it was when the consumer was opened, or as of an input range."""

    def __init__(self, topic: Topic, slice: Mapping[str, Any] | None = None) -> None:
        self.topic = topic
        self._slice = slice
        self._readers = store_of(topic).readers(topic)
        self._index: LogIndex = self._load()

    def _load(self) -> LogIndex:
        if self._slice is None:
            return LogIndex(self.topic)
        if self._slice.get("partitions") != self.topic.partitions:
            raise TopicError(
                f"The input range has {self._slice.get('partitions')} partitions, and {self.topic.name!r} has "
                f"{self.topic.partitions}.",
                hint="The topic was made anew since the run was planned: clear the plan task.",
                stream=self.topic.name,
            )
        reject_other(self.topic, self._slice.get("topic"))
        commits = self._slice.get("commit")
        index = index_of(self.topic, None if commits is None else int(commits) - 1)
        if commits is not None and index.number < int(commits):
            raise self._beyond(f"commit {int(commits) - 1}", f"{index.number} commits")
        return index

    @property
    def head(self) -> tuple[int, ...]:
        """The next offset per partition, as of the opening."""
        return self._index.head

    @property
    def schema(self) -> pa.Schema | None:
        """The columns of the topic, also of an empty one; None when none were declared or written."""
        return arrow_schema(self._index.schema)

    def refresh(self) -> None:
        """Open the topic anew, so that what was committed since is seen (not with a slice, which stays what it is)."""
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
        """Yield the envelopes of a slice in offset order, one record batch in memory at a time.

        ``offsets`` None reads the consumer's slice, or all up to the head as taken when it was opened; where no
        producer has put a control message in band (a topic that was appended to), it ends with an end-of-stream of the
        source (rule C2); a topic that nobody has written to ends only where a slice says that this is all.
        """
        partition = ssp.partition
        check_partition(self.topic.name, self.topic.partitions, partition)
        whole = offsets is None
        start, end = offsets or self._all(partition)
        if end > self._index.head[partition]:
            if self._slice is None:
                self.refresh()
            if end > self._index.head[partition]:
                raise self._beyond(f"offset {end} of partition {partition}", f"{self._index.head[partition]} offsets")
        if not whole:
            self.reject_expired(partition, start, end)
        controlled = False
        try:
            for _, envelope in self._read(ssp, start, end, columns, together=dictionaries and not whole):
                if not dictionaries:
                    envelope = _decoded(envelope)
                controlled = controlled or isinstance(envelope, ControlEnvelope)
                yield envelope
        finally:
            self._readers.leave(partition)
        if whole and not controlled and (self._index.number > 0 or says_all(self._slice)):
            yield ControlEnvelope(ssp, end, EndOfStreamMessage(None, 1, None, self.topic.name))

    def reject_expired(
        self,
        partition: int,
        start: int,
        end: int,
        hint: str = "Start at the oldest offset, or rebuild what is missing from its source.",
    ) -> None:
        """Reject a range of a partition whose first messages are not kept any more."""
        floor = self._index.floor.offset(partition)
        if start < min(floor, end):
            raise TopicError(
                f"The offsets from {start} of {self.topic.name!r}/{partition} are expired; the oldest left is {floor}.",
                hint=hint,
                stream=self.topic.name,
                partition=partition,
                offset=start,
                oldest=floor,
            )

    def read_by_section(self, ssp: SystemStreamPartition) -> Iterator[tuple[tuple[str, str], Envelope]]:
        """Yield the envelopes of the consumer's slice of sections, each behind the section that it is of."""
        try:
            for owner, envelope in self._read(ssp, *self._all(ssp.partition), None, together=False):
                assert owner is not None  # of a slice of sections
                yield owner, _decoded(envelope)
        finally:
            self._readers.leave(ssp.partition)

    def _all(self, partition: int) -> OffsetRange:
        ranges = self._slice.get("offsets") if self._slice is not None else None
        if ranges is None:
            return OffsetRange(0, self._index.head[partition])
        return OffsetRange(*ranges[partition])

    def _read(
        self, ssp: SystemStreamPartition, start: int, end: int, columns: Sequence[str] | None, *, together: bool
    ) -> Iterator[tuple[tuple[str, str] | None, Envelope]]:
        """Yield the envelopes behind the producers and generations that have written them; None: only appended."""
        sections = self._sections(ssp, start)
        together = together and sections is None
        renewed = False
        while True:
            try:
                for owner, entries in self._index.owned_slice(ssp.partition, start, end, together=together):
                    for entry in entries if sections is None or sections.takes(owner) else ():
                        if isinstance(entry, Run):
                            envelopes: Iterable[Envelope] = self._runs(ssp, entry, start, end, columns)
                        else:
                            message = entry.message(self.topic, ssp.partition)
                            if sections is not None and owner is not None:
                                envelopes = sections.control(owner, entry.offset, message)
                            else:
                                envelopes = (ControlEnvelope(ssp, entry.offset, message, entry.ends),)
                        for envelope in envelopes:
                            yield owner, envelope
                        start = min(entry.end, end)
                return
            except FileNotFoundError as error:
                # A sweep may have deleted what was superseded or expired since the topic was opened.
                if renewed:
                    raise self.topic.damaged(_relative(error, self.topic), "is missing") from None
                renewed = True
                self._renew()

    def _sections(self, ssp: SystemStreamPartition, start: int) -> SectionFilter | None:
        """Return the filter of a slice of sections; it knows the control messages that were read before ``start``."""
        if self._slice is None or "sections" not in self._slice:
            return None
        sections = SectionFilter(self._slice, ssp)
        for owner, entries in self._index.owned_slice(ssp.partition, self._slice["offsets"][ssp.partition][0], start):
            for entry in entries if owner is not None and sections.takes(owner) else ():
                if isinstance(entry, Control) and owner is not None:
                    sections.control(owner, entry.offset, entry.message(self.topic, ssp.partition))
        return sections

    def _renew(self) -> None:
        former, self._index = self._index, LogIndex(self.topic)
        if self._slice is None:
            return
        named = self._slice.get("sections")
        read = {(section["producer"], section["generation"]) for section in named} if named is not None else None
        for commit in former.live_commits():
            if (read is None or (commit.producer, commit.generation) in read) and not self._index.is_live(commit):
                raise TopicError(
                    f"Messages in the input range of {self.topic.name!r} are gone: commit {commit.number} was "
                    "superseded or expired.",
                    hint="Clear the plan task, so that the run gets a new input range.",
                    stream=self.topic.name,
                )

    def _runs(
        self, ssp: SystemStreamPartition, entry: Run, start: int, end: int, columns: Sequence[str] | None
    ) -> Iterable[Envelope]:
        return (MessageRun(ssp, *self._rows(entry, start, end, columns)),)

    def _rows(self, entry: Run, start: int, end: int, columns: Sequence[str] | None) -> tuple[int, pa.RecordBatch]:
        """Return the rows of a run that lie in ``[start, end)``, behind the offset of the first one."""
        batch = self._readers.read(entry.segment, entry.batch, columns)
        skip = max(start - entry.offset, 0)
        rows = min(end, entry.end) - entry.offset - skip
        if rows != batch.num_rows:
            batch = batch.slice(skip, rows)
        return entry.offset + skip, batch

    def _beyond(self, place: str, available: str) -> TopicError:
        return TopicError(
            f"The topic {self.topic.name!r} does not reach to {place}: it has {available}.",
            hint="The topic was made anew since this input range was fixed: "
            "clear the stage together with its upstream.",
            stream=self.topic.name,
        )

    def close(self) -> None:
        """Close the open segments."""
        self._readers.close()


def _relative(error: FileNotFoundError, topic: Topic) -> str:
    name = str(error.filename or error)
    place = name.find(topic.directory)
    return name[place:] if place >= 0 else topic.directory


def _decoded(envelope: Envelope) -> Envelope:
    """Return an envelope whose columns are plain."""
    from airflow_samza.systems.dictionaries import decoded

    return replace(envelope, batch=decoded(envelope.batch)) if isinstance(envelope, MessageRun) else envelope

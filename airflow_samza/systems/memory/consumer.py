"""Reading of a topic in memory: the envelopes of an input range, or of the whole topic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_samza.control.messages import EndOfStreamMessage
from airflow_samza.errors import TopicError
from airflow_samza.systems.memory.topic import MemoryTopic
from airflow_samza.systems.sections import SectionFilter, says_all
from airflow_samza.systems.system import (
    ColumnBound,
    ControlEnvelope,
    Envelope,
    MessageRun,
    OffsetRange,
    SystemStreamPartition,
    UnreadableRun,
)
from airflow_samza.systems.topic_rejections import no_column

if TYPE_CHECKING:
    import pyarrow as pa


class MemoryConsumer:
    """Consumer of a topic as it was when the consumer was opened, or as of an input range."""

    def __init__(self, topic: MemoryTopic, slice: Mapping[str, Any] | None = None) -> None:
        self._topic = topic
        self._slice = slice
        self._open()

    def _open(self) -> None:
        commits = (
            len(self._topic.commits)
            if self._slice is None or self._slice.get("commit") is None
            else int(self._slice["commit"])
        )
        self._commits = self._topic.live(commits)
        self._any = commits > 0
        last = self._topic.commits[commits - 1] if commits else None
        self.head = tuple(0 if last is None else last.end(partition) for partition in range(self._topic.partitions))

    @property
    def schema(self) -> pa.Schema | None:
        """The columns of the topic; None when none were declared or written."""
        return self._topic.schema

    def refresh(self) -> None:
        """Open the topic anew, so that what was published since is seen."""
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
        """Yield the envelopes of a slice in offset order.

        None reads the slice, or all, and ends a source's partition as the log does.
        """
        self._topic.check(ssp.partition)
        whole = offsets is None
        if offsets is None:
            ranges = None if self._slice is None else self._slice.get("offsets")
            offsets = (
                OffsetRange(0, self.head[ssp.partition]) if ranges is None else OffsetRange(*ranges[ssp.partition])
            )
        if offsets.end > self.head[ssp.partition] and self._slice is None:
            self.refresh()
        if offsets.end > self.head[ssp.partition]:
            raise TopicError(
                f"The topic {self._topic.name!r} does not reach to offset {offsets.end} of partition {ssp.partition}: "
                f"it has {self.head[ssp.partition]} offsets.",
                hint="Read up to the latest offset, or refresh the consumer.",
                stream=self._topic.name,
            )
        controlled = False
        for envelope in self._envelopes(ssp, offsets, columns):
            controlled = controlled or isinstance(envelope, ControlEnvelope)
            yield envelope
        if whole and not controlled and (self._any or says_all(self._slice)):
            yield ControlEnvelope(ssp, offsets.end, EndOfStreamMessage(None, 1, None, self._topic.name))

    def _envelopes(
        self, ssp: SystemStreamPartition, offsets: OffsetRange, columns: Sequence[str] | None
    ) -> Iterator[Envelope]:
        sections = SectionFilter(self._slice, ssp) if self._slice is not None and "sections" in self._slice else None
        wire = self._topic.wire
        for commit in self._commits:
            owner = (commit.producer, commit.generation)
            for envelope in commit.envelopes(ssp, wire) if sections is None or sections.takes(owner) else ():
                if sections is None or not isinstance(envelope, ControlEnvelope):
                    found: Sequence[Envelope] = [envelope]
                else:  # also those before the offsets count for what comes behind them
                    found = sections.control(owner, envelope.offset, envelope.message)
                yield from (cut for one in found if (cut := _cut(one, offsets, columns)) is not None)

    def close(self) -> None:
        """Do nothing: nothing is open."""


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
            raise no_column(envelope.ssp.stream, missing[0], batch.schema.names)
        batch = batch.select(list(columns))
    return MessageRun(envelope.ssp, envelope.offset + skip, batch)

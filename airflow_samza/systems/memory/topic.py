"""A topic in memory: its commits in order, and what attempts have staged for the next ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_samza.control.messages import ControlMessage
from airflow_samza.systems.memory.wire import Wire, WireForm
from airflow_samza.systems.output_slots import OutputSlot
from airflow_samza.systems.producers_seen import ProducersSeen
from airflow_samza.systems.system import (
    ControlEnvelope,
    Envelope,
    SystemStreamPartition,
    run_of,
)
from airflow_samza.systems.topic_rejections import check_partition

if TYPE_CHECKING:
    import pyarrow as pa

Staged = dict[int, list["pa.RecordBatch"]]


@dataclass
class Commit:
    """Commit of a topic: ``base`` is the offset of its first message in each partition; ``slot`` what it replaces."""

    producer: str
    generation: str
    epoch: int
    once: bool
    base: list[int]
    batches: Staged
    control: tuple[ControlMessage, ...]
    slot: OutputSlot | None = None

    def rows(self, partition: int) -> int:
        """Return how many user messages it has in a partition."""
        return sum(batch.num_rows for batch in self.batches.get(partition, ()))

    def end(self, partition: int) -> int:
        """Return the offset behind it."""
        return self.base[partition] + self.rows(partition) + len(self.control)

    def envelopes(self, ssp: SystemStreamPartition, wire: Wire | None = None) -> Iterator[Envelope]:
        """Yield its messages in one partition, the control messages last; ``wire`` reads what is kept as bytes."""
        offset = self.base[ssp.partition]
        if wire is not None:
            yield from wire.envelopes(ssp, offset, self.batches.get(ssp.partition, ()), self.control)
            return
        for batch in self.batches.get(ssp.partition, ()):
            yield run_of(ssp, offset, batch)
            offset += batch.num_rows
        for message in self.control:
            yield ControlEnvelope(ssp, offset, message)
            offset += 1


@dataclass
class MemoryTopic:
    """Topic: its commits, what attempts have staged, and the offset that each partition goes on from (``next``)."""

    name: str
    partitions: int
    schema: pa.Schema | None
    next: list[int]
    commits: list[Commit] = field(default_factory=list)
    seen: ProducersSeen = field(default_factory=ProducersSeen)
    staged: dict[str, Staged] = field(default_factory=dict)
    serde: WireForm | None = None
    owner: tuple[str, ...] = ()

    @property
    def wire(self) -> Wire | None:
        """The form of messages as bytes; None when the topic keeps columns."""
        if self.serde is None or self.schema is None:
            return None
        return Wire(self.serde, self.schema, self.name)

    def all_bytes(self) -> list[bytes]:
        """Return all that it keeps, in the wire form, partition by partition."""
        wire = self.wire
        assert wire is not None
        return [
            value
            for partition in range(self.partitions)
            for commit in self.live()
            for value in wire.values(commit.batches.get(partition, ()), commit.control)
        ]

    def live(self, up_to: int | None = None) -> list[Commit]:
        """Return the commits (the first ``up_to`` of them) that no newer generation and no other run supersedes."""
        commits = self.commits[:up_to]
        seen = ProducersSeen()
        for commit in commits:
            if not commit.once:
                seen.add(commit.producer, commit.generation, commit.epoch, commit.slot)
        return [
            commit for commit in commits if commit.once or not seen.is_superseded(commit.producer, commit.generation)
        ]

    def check(self, partition: int) -> None:
        """Reject a partition that it does not have."""
        check_partition(self.name, self.partitions, partition)

    def commit(
        self,
        producer: str,
        generation: str,
        epoch: int,
        staged: Sequence[Mapping[str, Any]],
        control: tuple[ControlMessage, ...],
        *,
        once: bool = False,
        slot: OutputSlot | None = None,
    ) -> dict[str, Any]:
        """Make staged rows visible; ``once``: they are never committed again, by whatever producer."""
        duplicate = not once and self.seen.is_published(self.name, producer, generation, epoch, slot)
        if slot is not None and not duplicate:
            self.seen.reject_meeting(self.name, producer, generation, slot)
        if duplicate:
            commit = next(
                c for c in self.commits if (c.producer, c.generation, c.epoch) == (producer, generation, epoch)
            )
        else:
            batches: Staged = {}
            for description in staged:
                for partition, pieces in self.staged.get(str(description["attempt"]), {}).items():
                    batches.setdefault(partition, []).extend(pieces)
            commit = Commit(producer, generation, epoch, once, list(self.next), batches, tuple(control), slot)
            self.commits.append(commit)
            self.next = [commit.end(partition) for partition in range(self.partitions)]
            if not once:
                self.seen.add(producer, generation, epoch, slot)
            for description in staged:
                self.staged.pop(str(description["attempt"]), None)
        return {
            "topic": self.name,
            "commit": self.commits.index(commit),
            "rows": sum(commit.rows(partition) for partition in range(self.partitions)),
            "bytes": sum(batch.nbytes for pieces in commit.batches.values() for batch in pieces),
            "control": len(commit.control),
            "offsets": [[commit.base[partition], commit.end(partition)] for partition in range(self.partitions)],
            "duplicate": duplicate,
        }

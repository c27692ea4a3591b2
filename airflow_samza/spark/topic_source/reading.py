"""Ranges of a topic as Arrow batches: one Spark partition per topic partition, with the metadata where it is asked for.

All of a topic is read, or the section of it that one run has written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import InputPartition

from airflow_samza.prepare.shared_sections import named_sections, section_offsets
from airflow_samza.spark.topic_source.options import named_topic, option
from airflow_samza.systems.sections import Section, described
from airflow_samza.systems.system import MessageRun, OffsetRange, SystemStreamPartition

if TYPE_CHECKING:
    import pyarrow as pa

METADATA_COLUMNS = ("_partition", "_offset")


@dataclass
class TopicPartition(InputPartition):
    """One topic partition, the offsets to read of it, and the slice of the topic as of which they are read."""

    partition: int
    start: int
    end: int
    slice: Mapping[str, Any]


@dataclass(frozen=True)
class TopicView:
    """View of a topic as of now: its slice, and of one run that the options name the ``sections`` that it has written.

    ``sections`` None: the topic is read whole.
    """

    slice: Mapping[str, Any]
    sections: tuple[Section, ...] | None = None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> TopicView:
        """Return the view as of now."""
        system, stream = named_topic(options)
        whole = system.slice(stream)
        named = option(options, "section")
        if named is None:
            return cls(whole)
        chosen = named_sections(stream.name, system.sections(stream, whole), named)
        names = [described(section) for section in chosen]
        slice_ = {**whole, "offsets": section_offsets(whole, chosen), "sections": names}
        return cls(slice_, tuple(chosen))

    @property
    def offsets(self) -> list[tuple[int, int]]:
        """The offsets of each partition, [first, end); before a run has written anything, none."""
        return [(int(first), int(end)) for first, end in self.slice["offsets"]]

    def reached(self, before: Sequence[int]) -> list[int]:
        """Return the end of each partition, never before what was read; where a run has written nothing, that."""
        written = [self.sections is None or any(p in one.offsets for one in self.sections) for p in range(len(before))]
        return [
            max(end, former) if known else former
            for (_, end), former, known in zip(self.offsets, before, written, strict=True)
        ]

    @property
    def is_complete(self) -> bool:
        """Return whether the run that is read has written its section to the end; of a whole topic nobody knows."""
        return bool(self.sections) and all(section.is_complete for section in self.sections or ())

    @property
    def writers(self) -> dict[str, str] | None:
        """The generation of each writer of the section, by its name."""
        return None if self.sections is None else {one.producer: one.generation for one in self.sections}


def rows_of(options: Mapping[str, str], columns: Sequence[str], piece: TopicPartition) -> Iterator[pa.RecordBatch]:
    """Yield the user messages of a range of a partition; control messages are left out."""
    import pyarrow as pa

    system, stream = named_topic(options)
    place = SystemStreamPartition(system.name, stream.name, piece.partition)
    wanted = [name for name in columns if name not in METADATA_COLUMNS]
    with closing(system.consumer(stream, piece.slice)) as consumer:
        for envelope in consumer.read(place, OffsetRange(piece.start, piece.end), wanted or None):
            if not isinstance(envelope, MessageRun):
                continue
            rows = envelope.batch.num_rows
            arrays: list[Any] = []
            for name in columns:
                if name == "_partition":
                    arrays.append(pa.repeat(pa.scalar(piece.partition, pa.int32()), rows))
                elif name == "_offset":
                    arrays.append(pa.array(range(envelope.offset, envelope.offset + rows), pa.int64()))
                else:
                    arrays.append(envelope.batch.column(name))
            yield pa.RecordBatch.from_arrays(arrays, list(columns))

"""Reading of a partition chunk by chunk, split by split: the base of the consumers of files and tables."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import pyarrow as pa

from airflow_samza.control.messages import EndOfStreamMessage
from airflow_samza.errors import SchemaError, TopicError
from airflow_samza.systems.files.formats.file_format import Unreadable
from airflow_samza.systems.files.packing import Split
from airflow_samza.systems.files.slicing import CHUNK_OFFSETS
from airflow_samza.systems.system import (
    ColumnBound,
    ControlEnvelope,
    Envelope,
    MessageRun,
    OffsetRange,
    StreamSpec,
    SystemStreamPartition,
    UnreadableRun,
)


class SplitConsumer(ABC):
    """Consumer of one input range of splits. Offsets count the rows of a partition in the order of its splits."""

    def __init__(self, stream: StreamSpec, slice: Mapping[str, Any]) -> None:
        self.stream = stream
        self.partitions = int(slice["partitions"])
        self._chunks = _chunks_of(slice)

    def read(
        self,
        ssp: SystemStreamPartition,
        offsets: OffsetRange | None,
        columns: Sequence[str] | None = None,
        bounds: Sequence[ColumnBound] = (),
        *,
        dictionaries: bool = False,
    ) -> Iterator[Envelope]:
        """Yield the rows of a partition chunk by chunk, then end-of-stream; with ``offsets`` only those, and no end.

        Bounds, and the slice of the stream, skip row groups.
        """
        if not 0 <= ssp.partition < self.partitions:
            raise TopicError(
                f"Stream {self.stream.name!r} has no partition {ssp.partition}: its input range has {self.partitions}.",
                hint="The plan and the input range must come from one run; clear the plan task.",
                stream=self.stream.name,
                partition=ssp.partition,
            )
        skipping = tuple(bounds) if offsets is None else ()  # offsets count all rows
        asked = OffsetRange(0, sys.maxsize) if offsets is None else offsets
        end = 0
        for chunk in self._chunks:
            if chunk.end is not None and chunk.end <= asked.start:
                continue
            end = chunk.first
            for split in chunk.splits[ssp.partition]:
                if end >= asked.end:
                    return
                with self.opened(split, columns, skipping, dictionaries) as batches:
                    end = yield from _numbered(ssp, end, batches, asked)
        if offsets is None:
            yield ControlEnvelope(ssp, end, EndOfStreamMessage(None, 1, stream_id=self.stream.name))

    def close(self) -> None:  # noqa: B027  # no kind of consumer has something to close
        """Do nothing: files are open only while they are read."""

    @abstractmethod
    def opened(
        self, split: Split, columns: Sequence[str] | None, bounds: tuple[ColumnBound, ...], dictionaries: bool
    ) -> AbstractContextManager[Iterator[pa.RecordBatch | Unreadable]]:
        """Return the batches of a split, which are read within the ``with``."""


class _Chunk(NamedTuple):
    """Chunk of the range: the first offset of each partition, the end (None: not known), and splits by partition."""

    first: int
    end: int | None
    splits: list[list[Split]]


def _chunks_of(slice: Mapping[str, Any]) -> list[_Chunk]:
    """Return the chunks of a range of new files; any other range is one, whose offsets begin at 0."""
    if "chunks" not in slice:
        return [_Chunk(0, None, [[Split(*split) for split in splits] for splits in slice["splits"]])]
    numbered = enumerate(slice["chunks"], int(slice["first_chunk"]))
    return [
        _Chunk(
            number * CHUNK_OFFSETS,
            (number + 1) * CHUNK_OFFSETS,
            [[Split(*split) for split in splits] for splits in chunk],
        )
        for number, chunk in numbered
    ]


def _numbered(
    ssp: SystemStreamPartition, first: int, pieces: Iterable[pa.RecordBatch | Unreadable], offsets: OffsetRange
) -> Generator[Envelope, None, int]:
    """Yield what is read of a partition with its offsets from ``first`` on, cut to ``offsets``; return the next one."""
    end = first
    for piece in pieces:
        run = (
            UnreadableRun.of(ssp, end, [piece.text], [piece.error])
            if isinstance(piece, Unreadable)
            else MessageRun(ssp, end, piece)
        )
        start, end = end, end + run.messages
        if start >= offsets.end:
            break
        low, high = max(start, offsets.start), min(end, offsets.end)
        if low < high:
            yield run.slice(low - start, high - low)
    return end


def projected_schema(schema: pa.Schema, columns: Sequence[str] | None, stream: str) -> pa.Schema:
    """Return those of a stream's columns that a reader asks for; None: all."""
    if columns is None or not schema.names:
        return schema
    for name in columns:
        if name not in schema.names:
            raise SchemaError(
                f"Stream {stream!r} has no column {name!r}.",
                hint=f"Its columns are {', '.join(schema.names)}.",
                stream=stream,
                column=name,
            )
    return pa.schema([schema.field(name) for name in columns])

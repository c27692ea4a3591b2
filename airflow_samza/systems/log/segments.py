"""Segment files: Arrow IPC files of compressed record batches, each of one partition, written as they fill.

The writer holds a bounded amount of rows in memory; the readers keep a few files open and check every batch they read.
Segments in files and in memory are read and written by it, and Kafka's outputs stage in it. See decision 9.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Sequence
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
from cachetools import LRUCache

from airflow_samza.errors import TopicError
from airflow_samza.partitioner import partition_array, split_by_partition
from airflow_samza.schema import Schema
from airflow_samza.systems.dictionaries import GrowingDictionary, is_encoded_as
from airflow_samza.systems.filesystems.contents import NewFile
from airflow_samza.systems.log.records import Segment
from airflow_samza.systems.log.segment_checks import check_unpacked
from airflow_samza.systems.log.topic import Topic
from airflow_samza.systems.topic_rejections import check_partition, places_of
from airflow_samza.systems.topic_rows import plain_schema, to_schema

BATCH_ROWS = 65_536
"""The most rows of one record batch: what a reader holds at a time."""
PARTITION_BYTES = 1 << 20
"""Bytes gathered per partition before it is written, as long as the next bound allows."""
BUFFER_BYTES = 64 << 20
"""Bytes that a writer gathers in all, however many partitions there are."""
_REPEATS = 4
"""Average number of times that a value has to come up in a batch for a dictionary to stay."""
BLOCK_ROWS_PER_PARTITION = 128
"""Keyed batches are put together before they are split, until each partition gets about so many rows at a time."""


class SegmentWriter:
    """Producer of one segment: rows are gathered per partition, and written together when there are enough.

    ``durable`` makes ``finish`` wait until the file is on the disk. Without it a power failure (not the death of a
    process) can cost the file, which readers then reject by its checksums.

    A store elsewhere writes batches in its own way: ``_write_batch``, ``_closed`` and ``_discard``.
    """

    takes_dictionaries = True  # they stay so

    def __init__(self, topic: Topic, name: str, schema: pa.Schema | None, *, durable: bool = False) -> None:
        self._filesystem = topic.filesystem
        self._path = topic.segment_path(name)
        self._name = name
        self._stream = topic.name
        self._count = partitions = topic.partitions
        self._durable = durable
        self.schema = schema
        self._held: pa.Schema | None = None
        self._dictionaries: dict[str, GrowingDictionary] = {}
        self._bound = max(4 * PARTITION_BYTES, min(partitions * PARTITION_BYTES, BUFFER_BYTES))
        self._pieces: dict[int, list[pa.RecordBatch]] = {}
        self._block: list[tuple[pa.RecordBatch, Any]] = []
        self._block_rows = 0
        self._buffered = 0
        self._sink: _CheckedSink | None = None
        self._writer: Any = None
        self._partitions: list[int] = []
        self._rows: list[int] = []
        self._sums: list[tuple[int, int]] = []

    def write(self, partition: int, batch: pa.RecordBatch) -> None:
        """Append rows to a partition."""
        check_partition(
            self._stream,
            self._count,
            partition,
            "Partitions count from 0; use the partitioner with the topic's own count.",
        )
        if batch.num_rows:
            batch = self._fit(batch)
            self._split_block()  # what came before stays before
            self._gather(partition, batch)
            self._buffered += batch.nbytes
            self._flush_when_full()

    def write_keyed(self, batch: pa.RecordBatch, key_columns: Sequence[str]) -> None:
        """Append each row to the partition of its key."""
        batch = self._fit(batch)
        if batch.num_rows == 0:
            return
        keyed = self._encoded(batch) if self._dictionaries else batch
        self._block.append((batch, partition_array(keyed, key_columns, self._count)))
        self._block_rows += batch.num_rows
        self._buffered += batch.nbytes
        if self._block_rows >= self._count * BLOCK_ROWS_PER_PARTITION or self._buffered >= self._bound:
            self._split_block()
            self._flush_when_full()

    def _fit(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch in the topic's schema; columns with a dictionary in the file as places in it."""
        if self.schema is None:
            self.schema = plain_schema(batch.schema)
        if self._held is None:
            self._held = self._choose_dictionaries(batch, self.schema)
        for name, dictionary in self._dictionaries.items():
            place = batch.schema.get_field_index(name)
            if place >= 0:
                batch = batch.set_column(place, name, dictionary.places(batch.column(place)))
        return to_schema(batch, self._held, self._stream)

    def _choose_dictionaries(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.Schema:
        """Keep the dictionaries of the first batch that pay; the schema with places (int32) in their stead."""
        for field in schema:
            place = batch.schema.get_field_index(field.name)
            if place < 0 or not is_encoded_as(batch.column(place), field.type):
                continue
            if _REPEATS * len(batch.column(place).dictionary) <= batch.num_rows:
                self._dictionaries[field.name] = GrowingDictionary(field.type)
        return pa.schema(
            [field.with_type(pa.int32()) if field.name in self._dictionaries else field for field in schema]
        )

    def _encoded(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch with its places as dictionary-encoded columns."""
        for name, dictionary in self._dictionaries.items():
            place = batch.schema.get_field_index(name)
            if place >= 0:
                field = batch.schema.field(place).with_type(pa.dictionary(pa.int32(), dictionary.values.type))
                batch = batch.set_column(place, field, dictionary.encoded(batch.column(place)))
        return batch

    def _split_block(self) -> None:
        if not self._block:
            return
        batch, partitions = self._block[0]
        if len(self._block) > 1:
            batch = pa.concat_batches([batch for batch, _ in self._block])
            partitions = np.concatenate([partitions for _, partitions in self._block])
        self._block.clear()
        self._block_rows = 0
        for partition, piece in split_by_partition(batch, partitions, self._count):
            self._gather(partition, piece)

    def _gather(self, partition: int, piece: pa.RecordBatch) -> None:
        self._pieces.setdefault(partition, []).append(piece)

    def _flush_when_full(self) -> None:
        if self._buffered >= self._bound:
            self._flush()

    def _flush(self) -> None:
        # All partitions at once: the pieces of a keyed batch share its memory, which is free only when the last one is
        # written.
        for partition in sorted(self._pieces):
            pieces = self._pieces.pop(partition)
            batch = pieces[0] if len(pieces) == 1 else pa.concat_batches(pieces)
            rows = BATCH_ROWS
            if batch.num_rows > 1024 and batch.nbytes > 4 * PARTITION_BYTES:  # wide rows: fewer to a batch
                rows = max(1024, min(rows, 4 * PARTITION_BYTES * batch.num_rows // batch.nbytes))
            for start in range(0, batch.num_rows, rows):
                self._write_batch(partition, batch.slice(start, rows))
        self._buffered = 0

    def _write_batch(self, partition: int, batch: pa.RecordBatch) -> None:
        batch = self._encoded(batch)
        if self._writer is None:
            self._sink = _CheckedSink(self._filesystem.open_output(self._path, durable=self._durable))
            # One thread: Spark runs a task per core already, and on small batches the threads cost more than they give.
            options = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False, emit_dictionary_deltas=True)
            self._writer = pa.ipc.new_file(pa.PythonFile(self._sink, mode="w"), batch.schema, options=options)
        assert self._sink is not None
        self._writer.write_batch(batch)
        self._sums.append(self._sink.mark())
        self._partitions.append(partition)
        self._rows.append(batch.num_rows)

    def finish(self) -> dict[str, Any]:
        """Write what is left and close the segment; without a row there is none.

        Its description names the file, its batches with partition and rows, and the totals.
        """
        try:
            self._split_block()
            self._flush()
            segment = self._closed()
        except BaseException:
            self.abort()
            raise
        schema = None if self.schema is None else Schema.of(self.schema).ddl()
        if segment is None:
            return {"segment": None, "total_rows": 0, "bytes": 0, "schema": schema}
        return {**segment.to_json(), "total_rows": sum(segment.rows), "schema": schema}

    def _closed(self) -> Segment | None:
        if self._writer is None or self._sink is None:
            return None
        self._writer.close()
        self._sums.append(self._sink.mark())
        self._sink.close()
        ends, checksums = zip(*self._sums, strict=True)
        return Segment(self._name, ends[-1], tuple(self._partitions), tuple(self._rows), ends, checksums)

    def abort(self) -> None:
        """Throw the file away."""
        self._pieces.clear()
        self._block.clear()
        self._discard()

    def _discard(self) -> None:
        if self._sink is not None:
            self._sink.discard()
            self._writer = self._sink = None
            self._filesystem.delete(self._path)


class _CheckedSink(NewFile):
    """A file that counts what is written to it and sums it up, so that a reader can check each batch by itself."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._position = 0
        self._sum = 0
        self.closed = False

    def write(self, data: Any) -> int:
        self._file.write(data)
        size = memoryview(data).nbytes
        self._sum = zlib.crc32(data, self._sum)
        self._position += size
        return size

    def mark(self) -> tuple[int, int]:
        """Return the position in the file, and the checksum of what was written since the last mark."""
        result = (self._position, self._sum)
        self._sum = 0
        return result

    def tell(self) -> int:
        return self._position

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._file.close()

    def discard(self) -> None:
        self.closed = True
        discard = getattr(self._file, "discard", self._file.close)
        with contextlib.suppress(OSError, TopicError):
            discard()


class SegmentReader:
    """Reader of the segments of a topic; each store has one of its own."""

    def read(self, segment: Segment, batch: int, columns: Sequence[str] | None = None) -> pa.RecordBatch:
        """Return one record batch, checked."""
        raise NotImplementedError

    def verify(self, segment: Segment) -> None:
        """Read a whole segment and check every batch."""
        for batch in range(len(segment.rows)):
            self.read(segment, batch)

    def leave(self, partition: int) -> None:
        """Give back what reading a partition holds; it may be read again."""

    def close(self) -> None:
        """Give back all that it holds."""


class SegmentReaders(SegmentReader):
    """The segments that a consumer has open; the longest unused is closed when there are more than ``limit``."""

    def __init__(self, topic: Topic, limit: int = 64) -> None:
        self._topic = topic
        # Batches that were handed out keep their mapping alive; only the handle goes.
        self._open: LRUCache[tuple[str, tuple[str, ...] | None], tuple[Any, Any]] = LRUCache(limit)

    def read(self, segment: Segment, batch: int, columns: Sequence[str] | None = None) -> pa.RecordBatch:
        """Return one record batch, checked. A missing segment is FileNotFoundError, a damaged one a TopicError."""
        source, reader = self._reader(segment, None if columns is None else tuple(columns))
        try:
            message = self._check(source, segment, batch)
            if not self._topic.is_runs_own:  # decision 16
                check_unpacked(message)
            rows = reader.get_batch(batch)
            if not self._topic.is_runs_own:
                rows.validate(full=True)
        except (
            pa.ArrowInvalid,
            pa.ArrowKeyError,
            OSError,
            IndexError,
            ValueError,
            OverflowError,
            MemoryError,
        ) as error:
            raise self._damaged(segment, f"cannot be read at batch {batch} ({_first_line(error)})") from None
        if rows.num_rows != segment.rows[batch]:
            raise self._damaged(
                segment, f"has {rows.num_rows} rows in batch {batch}, and the commit says {segment.rows[batch]}"
            )
        return rows if columns is None else rows.select(list(columns))

    def _reader(self, segment: Segment, columns: tuple[str, ...] | None) -> tuple[Any, Any]:
        key = (segment.name, columns)
        if key in self._open:
            return self._open[key]
        source = self._topic.filesystem.open_input(self._topic.segment_path(segment.name))
        try:
            if source.size() != segment.bytes:
                raise self._damaged(segment, f"has {source.size()} bytes, and the commit says {segment.bytes}")
            self._check(source, segment, len(segment.rows))
            options = pa.ipc.IpcReadOptions(use_threads=False)  # as of the writer
            if columns is not None:
                schema = pa.ipc.open_file(source, options=options).schema
                options.included_fields = places_of(schema, columns, self._topic.name)
            reader = pa.ipc.open_file(source, options=options)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError, ValueError, OverflowError) as error:
            source.close()
            raise self._damaged(segment, f"is not an Arrow file ({_first_line(error)})") from None
        if reader.num_record_batches != len(segment.rows):
            raise self._damaged(
                segment, f"has {reader.num_record_batches} batches, and the commit says {len(segment.rows)}"
            )
        self._open[key] = (source, reader)
        return source, reader

    def _check(self, source: Any, segment: Segment, batch: int) -> Any:
        """Return the bytes of a batch, or of the footer, checked against the commit."""
        begin = segment.ends[batch - 1] if batch else 0
        source.seek(begin)
        content = source.read_buffer(segment.ends[batch] - begin)
        if zlib.crc32(content) != segment.checksums[batch]:
            what = "its footer" if batch == len(segment.rows) else f"batch {batch}"
            raise self._damaged(segment, f"is not what was written: the checksum of {what} is wrong")
        return content

    def _damaged(self, segment: Segment, what: str) -> TopicError:
        return self._topic.damaged(self._topic.segment_path(segment.name), what)

    def close(self) -> None:
        """Close all of them."""
        self._open.clear()


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__

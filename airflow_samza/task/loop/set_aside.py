"""Streams that wait while another passes Catalyst: on the disk of the task's host, in the order of all messages.

A task section sets batches aside, and a later one of the same Spark task, which is another process, takes them up. Both
run at the same time. Each batch has the number of the event from which it came, so the later section merges streams in
the order in which the first one made them (rule M6). A batch is on disk before a message of a higher number is handed
to Catalyst, so whoever has such a message finds all batches of lower numbers. Task sections on Spark write and take
them.
"""

from __future__ import annotations

import heapq
import itertools
import os
import shutil
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO

import numpy as np
import pyarrow as pa

ORDER = "__airflow_samza_order"
"""The column that has the number of the event while rows are in Catalyst."""

LAST = (1 << 63) - 1
"""The number of rows that have lost theirs in a transform: they come behind those of the other streams."""

_HEAD = struct.Struct(">qq")


class SetAside:
    """The folder of one try at a task, with a file for each operator whose messages wait."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._files: dict[str, BinaryIO] = {}

    def add(self, op_id: str, order: int, batch: pa.RecordBatch) -> None:
        """Set a batch aside; others see it when this returns."""
        if op_id not in self._files:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            self._files[op_id] = open(os.path.join(self._folder, op_id), "wb")  # noqa: SIM115 - closed with the section
        stream = pa.BufferOutputStream()
        with pa.ipc.new_stream(stream, batch.schema) as writer:
            writer.write_batch(batch)
        content = stream.getvalue()
        file = self._files[op_id]
        file.write(_HEAD.pack(order, content.size))
        file.write(content)
        file.flush()

    def reader(self, op_id: str) -> _Reader:
        """Return a reader of the batches of an operator."""
        return _Reader(self._folder, op_id)

    def close(self, *, delete: bool = False) -> None:
        """Close the files of this section; with ``delete`` all are deleted."""
        for file in self._files.values():
            file.close()
        if delete:
            shutil.rmtree(self._folder, ignore_errors=True)


class _Reader:
    """A reader of a file that grows."""

    def __init__(self, folder: str, op_id: str) -> None:
        self._path = os.path.join(folder, op_id)
        self._op_id = op_id
        self._file: BinaryIO | None = None

    def before(self, order: int) -> Iterator[tuple[str, int, pa.RecordBatch]]:
        """Yield (operator, number, batch) of what was not read yet and has a number below ``order``: all is there."""
        if self._file is None:
            if not os.path.exists(self._path):
                return
            self._file = open(self._path, "rb")  # noqa: SIM115 - closed with the reader
        while True:
            place = self._file.tell()
            head = self._file.read(_HEAD.size)
            number, size = _HEAD.unpack(head) if len(head) == _HEAD.size else (LAST, 0)
            if number >= order:
                self._file.seek(place)
                return
            with pa.ipc.open_stream(self._file.read(size)) as stream:
                yield self._op_id, number, stream.read_next_batch()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


def with_order(batch: pa.RecordBatch, order: int) -> pa.RecordBatch:
    """Return a batch with the number of its event in a column."""
    return batch.append_column(pa.field(ORDER, pa.int64()), pa.array([order] * batch.num_rows, pa.int64()))


def in_order(
    entry: str, batches: Iterable[pa.RecordBatch], waiting: Sequence[_Reader]
) -> Iterator[tuple[str, int, pa.RecordBatch]]:
    """Yield (operator, number, batch) of a section's entry and of the streams that wait, merged by their numbers."""
    for batch in batches:
        for order, part in _parts(batch):
            yield from _earlier(waiting, order)
            yield entry, order, part
    yield from _earlier(waiting, LAST)


def _earlier(waiting: Sequence[_Reader], order: int) -> Iterator[tuple[str, int, pa.RecordBatch]]:
    streams = (reader.before(order) for reader in waiting)
    yield from heapq.merge(*streams, key=lambda arrival: arrival[1])


def _parts(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Cut a batch behind Catalyst where its rows come from another event."""
    place = batch.schema.get_field_index(ORDER)
    if place < 0 or not batch.num_rows:
        yield LAST - 1, batch
        return
    numbers = batch.column(place).to_numpy()
    rows = batch.remove_column(place)
    starts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), batch.num_rows]
    for start, end in itertools.pairwise(starts):
        yield int(numbers[start]), rows.slice(start, end - start)

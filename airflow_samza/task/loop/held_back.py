"""Batches that wait for a later phase of their task: in memory while they are few, else in a temporary file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import IO, Any

import pyarrow as pa

_IN_MEMORY = 64 << 20
"""Bytes kept in memory.

They are far less than a task's share of an executor, and so many that small inputs never touch the disk.
"""


class HeldBack:
    """A queue of batches of one schema, in order."""

    def __init__(self, limit: int = _IN_MEMORY) -> None:
        self._limit = limit
        self._batches: list[pa.RecordBatch] = []
        self._bytes = 0
        self._file: IO[bytes] | None = None
        self._writer: Any = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Append a batch."""
        if self._writer is not None:
            self._writer.write_batch(batch)
            return
        self._batches.append(batch)
        self._bytes += batch.nbytes
        if self._bytes > self._limit:
            self._spill()

    def _spill(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="airflow-samza-held-")  # noqa: SIM115 (closed by drain and close)
        self._writer = pa.ipc.new_stream(self._file, self._batches[0].schema)
        for batch in self._batches:
            self._writer.write_batch(batch)
        self._batches = []

    def drain(self) -> Iterator[pa.RecordBatch]:
        """All batches in order; the queue is empty afterwards."""
        if self._writer is None:
            batches, self._batches, self._bytes = self._batches, [], 0
            yield from batches
            return
        assert self._file is not None
        self._writer.close()
        self._file.seek(0)
        yield from pa.ipc.open_stream(self._file)
        self.close()

    def batches(self) -> list[pa.RecordBatch]:
        """All batches in order; they stay in the queue."""
        if self._writer is None:
            return list(self._batches)
        batches = list(self.drain())
        for batch in batches:
            self.add(batch)
        return batches

    def close(self) -> None:
        """Give the file back."""
        if self._file is not None:
            self._file.close()
        self._file, self._writer, self._batches, self._bytes = None, None, [], 0

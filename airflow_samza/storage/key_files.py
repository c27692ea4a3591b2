"""Keys of rows in files, by which repeated ones are found: exactly, and with little memory.

A task writes the keys of its rows to an Arrow IPC file, in groups of batches: batch i has keys of bucket i modulo
:data:`BUCKETS`. A key is always of the same bucket, so whoever looks for repeated keys in the files of all tasks reads
them bucket by bucket.

Tasks that write and the judgement of an epoch compare keys by them.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_samza.partitioner import partition_array
from airflow_samza.storage.columnar import with_keys
from airflow_samza.storage.key_index import as_rows
from airflow_samza.storage.snapshots import Files

BUCKETS = 64

GROUP_ROWS = 1 << 20
"""Keys that a task holds before it sorts them by bucket into the file: some MB."""

AT_ONCE = 1 << 22
"""Keys that are compared at once: fewer are not read bucket by bucket."""

_IN_MEMORY = 1 << 24
"""Bytes of the file that a task keeps in memory."""


class KeyGatherer:
    """The keys of a task's rows; rows with a null in the key are left out."""

    def __init__(self, key: Sequence[str]) -> None:
        self.rows = 0
        self._key = list(key)
        self._batches: list[pa.RecordBatch] = []
        self._waiting = 0
        self._sink: Any = None
        self._writer: pa.ipc.RecordBatchFileWriter | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Take the keys of a batch, whose columns are plain."""
        keys, _ = with_keys(batch.select(self._key), self._key)
        schema = pa.schema([pa.field(f"k{place}", column.type) for place, column in enumerate(keys.columns)])
        self._batches.append(pa.RecordBatch.from_arrays(keys.columns, schema=schema))
        self._waiting += keys.num_rows
        self.rows += keys.num_rows
        if self._waiting >= GROUP_ROWS:
            self._write_group()

    def _write_group(self) -> None:
        together = pa.Table.from_batches(self._batches).combine_chunks().to_batches()[0]
        self._batches, self._waiting = [], 0
        if self._writer is None:
            self._sink = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115  (closed by write and close)
            self._writer = pa.ipc.new_file(pa.PythonFile(self._sink, "w"), together.schema)
        buckets = partition_array(together, together.schema.names, BUCKETS)
        order = np.argsort(buckets, kind="stable")
        ordered = together.take(as_rows(order))
        ends = np.cumsum(np.bincount(buckets, minlength=BUCKETS)).tolist()
        for begin, end in zip([0, *ends], ends, strict=False):
            self._writer.write_batch(ordered.slice(begin, end - begin))

    def write(self, files: Files, path: str) -> bool:
        """Write the file; return False, and write none, where there are no keys."""
        if self._waiting:
            self._write_group()
        if self._writer is None:
            return False
        self._writer.close()
        self._sink.seek(0)
        with files.open_output(path) as target:
            shutil.copyfileobj(self._sink, target)
        self.close()
        return True

    def close(self) -> None:
        """Forget what was gathered."""
        if self._sink is not None:
            self._sink.close()
        self._batches, self._writer, self._sink = [], None, None


def repeated(files: Files, paths: Sequence[str], rows: int, most: int = 3) -> tuple[int, list[tuple[Any, ...]]]:
    """Return how many of the ``rows`` of files have a key that another one has before them, and some such keys."""
    count, examples = 0, list[tuple[Any, ...]]()
    groups = [None] if rows <= AT_ONCE else list(range(BUCKETS))
    for bucket in groups:
        batches: list[pa.RecordBatch] = []
        for path in paths:
            with files.open_input(path) as source, pa.ipc.open_file(source) as reader:
                places = (
                    range(reader.num_record_batches)
                    if bucket is None
                    else range(bucket, reader.num_record_batches, BUCKETS)
                )
                batches += [reader.get_batch(place) for place in places]
        table = pa.Table.from_batches(batches) if batches else None
        if table is None or not table.num_rows:
            continue
        names = table.schema.names
        counted = table.group_by(names, use_threads=False).aggregate([([], "count_all")])
        count += table.num_rows - counted.num_rows
        if counted.num_rows < table.num_rows and len(examples) < most:
            some = counted.filter(pc.greater(counted.column("count_all"), 1)).slice(0, most - len(examples))
            examples += [tuple(row[name] for name in names) for row in some.to_pylist()]
    return count, examples

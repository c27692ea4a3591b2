"""A table that does not change: Arrow rows with an index by key, in memory or mapped from files of a host.

Any process of the host may open these. Rows are looked up a column at a time (:meth:`ColumnarTable.find`). Of
rows with one key the last one counts; a row with a null in its key is not kept (rule S2). Tasks hold side inputs in it,
and hosts keep it for all their processes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from airflow_samza.errors import StoreError
from airflow_samza.storage.key_hashes import Numbers
from airflow_samza.storage.key_index import KeyIndex, as_rows, index_from, make_index

ROWS_FILE, INDEX_FILE = "rows.arrow", "index.arrow"
FORMAT = 1
"""Of the files: raised whenever a former version of this package could not read them, or would find other rows."""


@dataclass(frozen=True, eq=False)
class ColumnarTable:
    """Rows by key: ``rows`` are one per key, in one batch.

    ``key`` the key columns; ``ignored`` says how many rows had a null in theirs.
    """

    kind: ClassVar[str] = "columnar"

    rows: pa.RecordBatch
    key: tuple[str, ...]
    index: KeyIndex
    ignored: int = 0

    @staticmethod
    def of(rows: pa.RecordBatch | pa.Table, key: Sequence[str]) -> ColumnarTable:
        """Return the table that these rows make, written one after the other."""
        batch, ignored = with_keys(one_batch(rows), key)
        index, counting = make_index([batch.column(name) for name in key])
        return ColumnarTable(batch if counting is None else batch.take(as_rows(counting)), tuple(key), index, ignored)

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    def find(self, columns: Sequence[pa.Array]) -> Numbers:
        """Return the row number (int64) of each key, -1 where there is none; a null in a key finds nothing."""
        return self.index.find(self._keys, columns)

    @property
    def _keys(self) -> list[pa.Array]:
        return [self.rows.column(name) for name in self.key]

    # -- files ---------------------------------------------------------------------------------------------------------

    def write(self, folder: str) -> None:
        """Write rows and index into a folder that is there, as Arrow IPC files."""
        schema = self.rows.schema.with_metadata(
            {b"key": "\n".join(self.key).encode(), b"ignored": str(self.ignored).encode()}
        )
        write_batch(os.path.join(folder, ROWS_FILE), pa.RecordBatch.from_arrays(self.rows.columns, schema=schema))
        name, values, least = self.index.parts()
        column = pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, pa.py_buffer(values)])
        kept = {b"least": str(least).encode()} if least is not None else {}
        write_batch(
            os.path.join(folder, INDEX_FILE),
            pa.RecordBatch.from_arrays([column], schema=pa.schema([(name, column.type)], kept)),
        )

    @staticmethod
    def open(folder: str) -> ColumnarTable:
        """Return what :meth:`write` left, mapped into memory: pages are read when they are used."""
        rows, index = mapped_batch(os.path.join(folder, ROWS_FILE)), mapped_batch(os.path.join(folder, INDEX_FILE))
        metadata, least = rows.schema.metadata, (index.schema.metadata or {}).get(b"least")
        key = tuple(metadata[b"key"].decode().split("\n"))
        plain = pa.RecordBatch.from_arrays(rows.columns, schema=rows.schema.remove_metadata())
        found = index_from(index.column(0).to_numpy(), None if least is None else int(least))
        return ColumnarTable(plain, key, found, int(metadata[b"ignored"]))


def with_keys(batch: pa.RecordBatch, key: Sequence[str]) -> tuple[pa.RecordBatch, int]:
    """Return the rows without a null in their key, and how many others there were."""
    valid = None
    for name in key:
        if batch.column(name).null_count:
            own = batch.column(name).is_valid()
            valid = own if valid is None else pc.and_(valid, own)
    if valid is None:
        return batch, 0
    kept = batch.filter(valid)
    return kept, batch.num_rows - kept.num_rows


def one_batch(rows: pa.RecordBatch | pa.Table) -> pa.RecordBatch:
    """Return rows as one batch, in which a row is found by its number; no column has more than 2 GiB of text."""
    if isinstance(rows, pa.RecordBatch):
        return rows
    if not rows.num_rows:
        return pa.RecordBatch.from_pylist([], schema=rows.schema)
    batches = rows.to_batches()
    try:
        return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
    except pa.ArrowInvalid as error:
        raise StoreError(
            f"A table has {rows.nbytes} bytes in one task, with more than 2 GiB of text in one column.",
            hint="Give the table more partitions, so that each task holds less.",
            bytes=rows.nbytes,
        ) from error


def write_batch(path: str, batch: pa.RecordBatch) -> None:
    """Write one batch as an Arrow IPC file."""
    with (
        pa.OSFile(path, "wb") as sink,
        pa.ipc.new_file(sink, batch.schema, options=pa.ipc.IpcWriteOptions(allow_64bit=True)) as writer,
    ):
        writer.write_batch(batch)


def mapped_batch(path: str) -> pa.RecordBatch:
    """Return the batch of such a file, mapped into memory."""
    with pa.memory_map(path) as source, pa.ipc.open_file(source) as reader:
        return reader.get_batch(0)

"""The messages of a side input as a processor gets them, with keys and times; one that deletes its key is None."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from airflow_samza.application.descriptors import StreamDescriptor
from airflow_samza.runs.tables.table_version import DELETED
from airflow_samza.schema import Schema
from airflow_samza.storage.side_inputs import Place
from airflow_samza.systems.system import MessageRun
from airflow_samza.task.messages.messages import MessageReader, chunks

if TYPE_CHECKING:
    import pyarrow as pa

Fitting = Callable[["Place", "pa.RecordBatch", "int | None"], "list[tuple[int, pa.RecordBatch]]"]
"""Returns the rows of a batch of a place, from an offset on, that fit the stream's columns, in pieces."""

Messages = tuple[int, list[Any], list[Any], list[Any]]
"""The first offset of consecutive messages, their keys, the messages, and their times."""


class SideMessages:
    """The messages of one side input; ``schema`` are its columns."""

    def __init__(self, stream: StreamDescriptor, schema: Schema, fitting: Fitting) -> None:
        self._stream = stream
        self._schema = schema
        self._fitting = fitting
        self._reader = MessageReader(schema)

    def read(self, place: Place, run: MessageRun) -> Iterator[Messages]:
        """Yield the messages of a run, in pieces."""
        batch, gone = run.batch, None
        if DELETED in batch.schema.names and DELETED not in self._schema:
            gone = batch.column(DELETED).fill_null(False).to_numpy(zero_copy_only=False)
            batch = batch.drop_columns([DELETED])
        for first, end, deletes in _stretches(gone, batch.num_rows):
            rows, offset = batch.slice(first, end - first), run.offset + first
            if deletes:
                keys = self._keys(rows)
                yield offset, keys, [None] * len(keys), [None] * len(keys)
                continue
            for behind, fitting in self._fitting(place, rows, offset):
                yield from self._of(fitting, offset + behind)

    def _of(self, batch: pa.RecordBatch, offset: int) -> Iterator[Messages]:
        for part in chunks(batch):
            messages = self._reader.read(part)
            timed = self._stream.timestamp in part.schema.names
            times = part.column(self._stream.timestamp).to_pylist() if timed else [None] * len(messages)
            yield offset, self._keys(part), messages, times
            offset += len(messages)

    def _keys(self, batch: pa.RecordBatch) -> list[Any]:
        names = self._stream.key
        if not set(names) <= set(batch.schema.names) or not names:  # of a stream that is only named, it is the table's
            return [None] * int(batch.num_rows)
        columns: list[list[Any]] = [batch.column(name).to_pylist() for name in names]
        if len(columns) == 1:
            return columns[0]
        return [None if None in key else key for key in zip(*columns, strict=True)]


def _stretches(flags: Any, rows: int) -> list[tuple[int, int, bool]]:
    """Return the stretches [first, end) of rows whose flags are equal, with the flag; None: no row is flagged."""
    if flags is None or not rows:
        return [(0, rows, False)] if rows else []
    ends = [*(np.flatnonzero(np.diff(flags)) + 1).tolist(), rows]
    return [(first, end, bool(flags[first])) for first, end in zip([0, *ends], ends, strict=False)]

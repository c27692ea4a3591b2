"""The messages of side inputs: as a processor gets them, with keys and times, and those that tables leave out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from airflow_samza.application.descriptors import StreamDescriptor
from airflow_samza.errors import SchemaError
from airflow_samza.quoting import are_shown, one_line
from airflow_samza.runs.tables.table_version import DELETED
from airflow_samza.schema import Schema
from airflow_samza.storage.offsets_file import Place
from airflow_samza.systems.system import MessageRun, UnreadableRun
from airflow_samza.task.loop.task_tables import Filled
from airflow_samza.task.messages.bad_records import SAMPLES, fitting_rows, lines_of
from airflow_samza.task.messages.conform import SchemaConformer
from airflow_samza.task.messages.messages import MessageReader, chunks
from airflow_samza.task.messages.values import key_values, values_or_none
from airflow_samza.task.operators.low_level.context import Metrics

Fitting = Callable[["Place", "pa.RecordBatch", "int | None"], "Iterable[tuple[int, pa.RecordBatch]]"]
"""Returns the rows of a batch of a place, from an offset on, that fit the stream's columns, in pieces."""

Messages = tuple[int, list[Any], list[Any], list[Any]]
"""The first offset of consecutive messages, their keys, the messages, and their times."""


def without_marks(batch: pa.RecordBatch, schema: Schema) -> tuple[pa.RecordBatch, pa.BooleanArray | None]:
    """Return a batch without the marks of rows that delete their key, and the marks; None where there are none."""
    if DELETED not in batch.schema.names or DELETED in schema:
        return batch, None
    return batch.drop_columns([DELETED]), batch.column(DELETED).fill_null(False)


class SideMessages:
    """The messages of one side input; ``schema`` are its columns."""

    def __init__(self, stream: StreamDescriptor, schema: Schema, fitting: Fitting) -> None:
        self._stream = stream
        self._schema = schema
        self._fitting = fitting
        self._reader = MessageReader(schema)

    def read(self, place: Place, run: MessageRun) -> Iterator[Messages]:
        """Yield the messages of a run, in pieces."""
        batch, is_deleted = without_marks(run.batch, self._schema)
        for first, end, deletes in _stretches(is_deleted, batch.num_rows):
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
            yield offset, self._keys(part), messages, values_or_none(part, self._stream.timestamp)
            offset += len(messages)

    def _keys(self, batch: pa.RecordBatch) -> list[Any]:
        keys = key_values(batch, self._stream.key)
        return [None if isinstance(key, tuple) and None in key else key for key in keys]


def _stretches(marks: pa.BooleanArray | None, rows: int) -> list[tuple[int, int, bool]]:
    """Return the stretches [first, end) of rows whose marks are equal, with the mark; None: no row is marked."""
    if marks is None or not rows:
        return [(0, rows, False)] if rows else []
    flags = marks.to_numpy(zero_copy_only=False)
    ends = [*(np.flatnonzero(np.diff(flags)) + 1).tolist(), rows]
    return [(first, end, bool(flags[first])) for first, end in zip([0, *ends], ends, strict=False)]


class DroppedMessages:
    """The messages that one table leaves out: how many of each side input, and some of them for people."""

    def __init__(self, table: str, metrics: Metrics) -> None:
        self._table = table
        self._metrics = metrics
        self._samples: list[str] = []

    def unreadable(self, place: Place, run: UnreadableRun) -> None:
        """Leave out messages that their serde cannot read."""
        for number, (text, error) in enumerate(zip(run.texts, run.errors, strict=True)):
            self._leave(place, run.offset + number, error, text)

    def fitting(
        self, place: Place, batch: pa.RecordBatch, conformer: SchemaConformer, offset: int | None
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the rows that fit, in pieces with the place of each in the batch; leave the others out.

        ``offset`` is that of the first row; None: they do not follow each other.
        """

        def leave(row: pa.RecordBatch, first: int, error: SchemaError) -> None:
            at = None if offset is None else offset + first
            self._leave(place, at, error.sentence, *lines_of(row))

        return fitting_rows(batch, conformer, leave)

    def report(self, filled: Filled) -> None:
        """Add samples of what was left out since the last report."""
        filled.bad_samples += self._samples
        self._samples = []

    def _leave(self, place: Place, offset: int | None, error: str, text: str) -> None:
        stream_id, partition = place
        self._metrics.count(f"dropped_messages.{stream_id}")
        if len(self._samples) < SAMPLES and are_shown():
            at = "" if offset is None else f", offset {offset}"
            self._samples.append(
                f"side input {stream_id!r} of table {self._table!r} (partition {partition}{at}): {one_line(error)}: "
                f"{one_line(text)}"
            )

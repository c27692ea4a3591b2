"""Messages made of change events: rows in the columns of the stream, with the mark of those that are gone.

Readers of inputs and side inputs make them so, and the test driver.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_samza.application.descriptors import ROW_DELETED, ChangeEvents, StreamDescriptor
from airflow_samza.errors import SchemaError
from airflow_samza.quoting import quoted
from airflow_samza.systems.dictionaries import decoded
from airflow_samza.systems.system import Envelope, MessageRun, UnreadableRun
from airflow_samza.task.messages.bad_records import lines_of

_MICROS = {"ts_ms": 1000, "ts_us": 1}

Flags = np.ndarray[Any, np.dtype[np.bool_]]


class Changed(NamedTuple):
    """Rows that events are about, one for each event; ``errors`` are those of events that are none, by place.

    The mark is null in a row that is to be left out.
    """

    rows: pa.RecordBatch
    errors: dict[int, str]


class ChangeReader:
    """Reader of the change events of one stream. ``what`` names it in errors."""

    def __init__(self, stream: StreamDescriptor, what: str) -> None:
        assert stream.events is not None
        assert stream.schema is not None
        self.what = what
        self._events: ChangeEvents = stream.events
        self._fields = [field for field in stream.schema.fields if field.name != ROW_DELETED]
        self._tolerant = stream.on_error is not None
        self._arrow = pa.schema(
            [*(pa.field(f.name, f.type.to_arrow()) for f in self._fields), pa.field(ROW_DELETED, pa.bool_())]
        )
        events = self._events
        self._kinds = {
            **dict.fromkeys(events.writes, 0),
            **dict.fromkeys(events.deletes, 1),
            **dict.fromkeys(events.ignores, 2),
        }

    def envelopes(self, envelopes: Iterator[Envelope]) -> Iterator[Envelope]:
        """Yield what was read, with messages in place of events."""
        for envelope in envelopes:
            if isinstance(envelope, UnreadableRun) or not isinstance(envelope, MessageRun):
                yield envelope
            else:
                yield from self.runs(envelope)

    def runs(self, run: MessageRun) -> Iterator[MessageRun]:
        """Yield the messages of a run of events, at their offsets, and those that cannot be read."""
        changed = self.changed(run.batch)
        if changed.errors and not self._tolerant:
            place = min(changed.errors)
            raise SchemaError(
                f"The message at offset {run.offset + place} of {self.what} is no change event: "
                f"{changed.errors[place]}.",
                hint="Name the words in change_events(…), have the connector leave such events out, "
                'or declare on_error="drop".',
                offset=run.offset + place,
            )
        first = 0
        for place in sorted(changed.errors):
            if place > first:
                yield MessageRun(run.ssp, run.offset + first, changed.rows.slice(first, place - first))
            lines = lines_of(run.batch.slice(place, 1))
            yield UnreadableRun.of(run.ssp, run.offset + place, lines, [changed.errors[place]])
            first = place + 1
        if first < run.messages or not run.messages:
            yield MessageRun(run.ssp, run.offset + first, changed.rows.slice(first))

    def changed(self, batch: pa.RecordBatch) -> Changed:
        """Return the rows of events."""
        events = decoded(batch)
        whole = _Columns(events.to_struct_array() if events.num_columns else None).within(self._events.inside)
        words = whole.get(self._events.operation, pa.string(), batch.num_rows)
        kinds = self._kinds_of(words)
        tombstones = np.zeros(batch.num_rows, bool)
        if ROW_DELETED in events.schema.names:  # messages of Kafka without a value
            tombstones = events.column(ROW_DELETED).fill_null(False).to_numpy(zero_copy_only=False)
            kinds = np.where(tombstones, 2 if self._events.images is not None else 1, kinds)
        errors = {
            int(place): "it has no operation"
            if (word := words[int(place)].as_py()) is None
            else f"its operation ({self._events.operation}) is {quoted(word, 60)}"
            for place in np.flatnonzero(kinds < 0)
        }
        is_deleted = kinds == 1
        taken = dict(self._events.columns)
        columns = []
        sides = None
        if self._events.images is not None:
            sides = [whole.within(name) for name in self._events.images]
        for field, column in zip(self._fields, self._arrow, strict=False):
            if field.name in taken:
                columns.append(self._beside(whole, taken[field.name], column.type, batch.num_rows))
            elif sides is None:
                columns.append(whole.get(field.name, column.type, batch.num_rows))
            else:
                before, after = (side.get(field.name, column.type, batch.num_rows) for side in sides)
                columns.append(pc.if_else(pa.array(is_deleted), before, after) if is_deleted.any() else after)
        columns.append(pa.array(is_deleted, mask=kinds == 2))
        return Changed(pa.RecordBatch.from_arrays(columns, schema=self._arrow), errors)

    def _kinds_of(self, words: pa.Array) -> np.ndarray[Any, np.dtype[np.int64]]:
        encoded = words.dictionary_encode()
        known = [self._kinds.get(str(word).strip().lower(), -1) for word in encoded.dictionary.to_pylist()]
        places = encoded.indices.fill_null(len(known)).to_numpy(zero_copy_only=False).astype(np.int64)
        kinds = np.array([*known, -1], np.int64)[places]
        return np.asarray(kinds, np.int64)

    def _beside(self, whole: _Columns, path: str, kind: pa.DataType, rows: int) -> pa.Array:
        first, _, last = path.rpartition(".")
        columns = whole.within(first)
        if not pa.types.is_timestamp(kind):
            return columns.get(last, kind, rows)
        numbers = columns.get(last, pa.int64(), rows)
        if last in _MICROS:
            return pc.multiply(numbers, _MICROS[last]).view(kind)
        below = pc.if_else(pc.less(numbers, 0), 999, 0)  # whole numbers divide towards zero
        return pc.divide(pc.subtract(numbers, below), 1000).view(kind)


class _Columns:
    """The fields of a column (None: it is none with fields)."""

    def __init__(self, of: pa.StructArray | None) -> None:
        self._of = of

    def within(self, name: str) -> _Columns:
        """Return the fields of a field; all of these for no name."""
        if not name:
            return self
        column = self._found(name)
        return _Columns(column if column is not None and pa.types.is_struct(column.type) else None)

    def get(self, name: str, kind: pa.DataType, rows: int) -> pa.Array:
        """Return a column; nulls where there is none."""
        column = self._found(name)
        if column is None:
            return pa.nulls(rows, kind)
        if column.type.equals(kind):
            return column
        try:
            return column.cast(kind)
        except pa.ArrowException as error:
            raise SchemaError(
                f"Column {name!r} of a change event is {column.type}, declared {kind} ({error}).",
                hint="Declare the type that the events have.",
                column=name,
            ) from error

    def _found(self, name: str) -> pa.Array | None:
        if self._of is None or self._of.type.get_field_index(name) < 0:
            return None
        return pc.struct_field(self._of, name)

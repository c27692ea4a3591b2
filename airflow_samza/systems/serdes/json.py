"""The serde ``json``: each message is a JSON object.

A batch of few objects of plain columns is read by msgspec, in half the time of Arrow's reader of lines or less, and as
strictly; what it rejects is left to other parsers, which read it or say what is wrong (decision 91). The binding of
serdes makes it, and the serde of a registry reads bodies by it.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_samza.systems.files.formats.json_blocks import count_objects
from airflow_samza.systems.files.formats.json_lines import arrow_first, is_for_arrow, parsed_by_arrow
from airflow_samza.systems.files.formats.json_values import LineReader, from_lines, readable_lines, to_objects
from airflow_samza.systems.files.formats.lines import Block
from airflow_samza.systems.serdes.decoding import ValueSerde, merged
from airflow_samza.systems.serdes.serde import BadMessage, Decoded

_OBJECT = r"(?s)^\s*\{.*\}\s*$"

_MOST_BYTES = 2**30
"""Bytes of values that are joined; the offsets of a binary array end at twice as many."""

_MOST_VALUES = 2**17
"""Values of columns that msgspec reads at once: of more, all of which are Python's for a moment, Arrow is faster."""

_PYTHON: dict[pa.DataType, Any] = {
    **dict.fromkeys((pa.int8(), pa.int16(), pa.int32(), pa.int64()), int),
    pa.float64(): float,
    pa.string(): str,
    pa.bool_(): bool,
}


class JsonSerde(ValueSerde):
    """Serde of JSON objects in UTF-8, with values as in JSON files.

    A missing key is null, an undeclared one is left out.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._by_arrow = is_for_arrow(schema)
        self._plain = PlainObjects.of(schema)
        self._empty = from_lines(Block(0, b""), schema)

    def encode(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the objects."""
        return to_objects(batch).cast(pa.large_binary()).cast(pa.binary())

    def decode_present(self, values: pa.Array) -> Decoded:
        """Return what Arrow reads at once, or else in parts, without those values that are no objects at a glance."""
        if not self._by_arrow:
            return self._by_lines(values, from_lines)
        batch = self._together(values)
        if batch is not None:
            return Decoded(batch)
        objects = pc.match_substring_regex(values, _OBJECT).to_numpy(zero_copy_only=False)
        parts = []
        for alike, read in ((objects, arrow_first), (~objects, from_lines)):
            if alike.any():
                parts.append((np.flatnonzero(alike), self._by_lines(values.filter(pa.array(alike)), read)))
        return merged(parts)

    def _together(self, values: pa.Array) -> pa.RecordBatch | None:
        """Return the messages as a parser of all at once reads them, a line each; None when it cannot."""
        if not len(values):
            return self._empty
        if values.nbytes > _MOST_BYTES:
            return None
        whole = pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), _on_one_line(values))
        lines: bytes = pc.binary_join(whole, b"\n")[0].as_py()
        batch = None
        if self._plain is not None and len(values) * len(self._schema) <= _MOST_VALUES:
            batch = self._plain.read(lines, len(values))
        if batch is None:
            batch = parsed_by_arrow(lines, self._schema)
        return batch if batch is not None and batch.num_rows == len(values) else None

    def _by_lines(self, values: pa.Array, read: LineReader) -> Decoded:
        """Return the messages as they are read line by line where some are bad, and which."""
        messages = _on_one_line(values).to_pylist()
        places = [place for place, message in enumerate(messages) if message.strip()]
        batches = [self._empty]
        bad = [BadMessage(place, "it is empty") for place, message in enumerate(messages) if not message.strip()]
        for piece in readable_lines([messages[place] for place in places], self._schema, read):
            if isinstance(piece, pa.RecordBatch):
                batches.append(piece)
            else:
                number, error = piece
                why = str(error) if error.column is None else f"{error.column!r} has {error}"
                bad.append(BadMessage(places[number], why))
        return Decoded(pa.concat_batches(batches), sorted(bad, key=lambda one: one.place))


def _on_one_line(values: pa.Array) -> pa.Array:
    """Return values without line ends; they stand between tokens, and within a text neither they nor tabs may."""
    held = np.frombuffer(values.buffers()[2] or b"", np.uint8)  # of a part also what stands beside it
    if not (held == ord("\n")).any():
        return values
    return pc.replace_substring(values, pattern="\n", replacement="\t")


class PlainObjects:
    """Reader of objects whose columns are whole numbers, doubles, texts and booleans; others are of no interest."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = pa.schema([field.with_nullable(True) for field in schema])
        fields = [(f"f{place}", _PYTHON[field.type] | None, None) for place, field in enumerate(schema)]
        names = {f"f{place}": name for place, name in enumerate(schema.names)}
        self._decoder = msgspec.json.Decoder(msgspec.defstruct("Row", fields, rename=names, gc=False))
        self._getters = [attrgetter(name) for name in names]

    @classmethod
    def of(cls, schema: pa.Schema) -> PlainObjects | None:
        """Return the reader for a schema; None where a column is of another type."""
        plain = len(schema) and all(field.type in _PYTHON for field in schema)
        return cls(schema) if plain else None

    def read(self, data: bytes, count: int) -> pa.RecordBatch | None:
        """Return lines of one object each; None when there are not as many, or one is rejected."""
        if count_objects(data) != count:  # also where it is no UTF-8, or objects lie too deep in one another
            return None
        try:
            rows = self._decoder.decode_lines(data)
            columns = [
                pa.array(list(map(getter, rows)), field.type)
                for getter, field in zip(self._getters, self._schema, strict=True)
            ]
        except (msgspec.MsgspecError, RecursionError, OverflowError, pa.ArrowInvalid):
            return None
        if len(rows) != count:
            return None
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

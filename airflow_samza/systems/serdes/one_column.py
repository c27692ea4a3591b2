"""Serdes of messages that are the value of one column: texts, bytes, and numbers as Kafka's own serializers write them.

Numbers are ``short``, ``integer``, ``long``, ``float`` and ``double``.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_samza.systems.serdes.pieces import decoded_by_halves, reject_nulls, without_nulls
from airflow_samza.systems.serdes.serde import BadMessage, Decoded


class StringSerde:
    """Serde of texts in UTF-8: the value of the one column."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def encode(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the texts."""
        reject_nulls(batch.column(0))
        return batch.column(0).cast(pa.binary())

    def decode(self, values: pa.Array) -> pa.RecordBatch:
        """Return the messages."""
        return self.decode_each(values).whole()

    def decode_each(self, values: pa.Array) -> Decoded:
        """Return the messages that can be read."""
        binary = values.cast(pa.binary())
        return without_nulls(binary, lambda there: decoded_by_halves(there, self._together, self._one_by_one))

    def _together(self, values: pa.Array) -> pa.RecordBatch | None:
        try:
            return pa.RecordBatch.from_arrays([values.cast(pa.string())], schema=self._schema)
        except pa.ArrowInvalid:
            return None

    def _one_by_one(self, values: pa.Array) -> Decoded:
        texts, bad = [], []
        for place, value in enumerate(values.to_pylist()):
            try:
                texts.append(value.decode())
            except UnicodeDecodeError as error:
                bad.append(BadMessage(place, f"it is no UTF-8 ({error.reason} at byte {error.start})"))
        return Decoded(pa.RecordBatch.from_arrays([pa.array(texts, pa.string())], schema=self._schema), bad)


class BytesSerde:
    """Serde of bytes: the value of the one column, unchanged."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def encode(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the values."""
        reject_nulls(batch.column(0))
        return batch.column(0)

    def decode(self, values: pa.Array) -> pa.RecordBatch:
        """Return the messages."""
        return self.decode_each(values).whole()

    def decode_each(self, values: pa.Array) -> Decoded:
        """Return the messages that have a value."""
        return without_nulls(
            values.cast(pa.binary()), lambda there: Decoded(pa.RecordBatch.from_arrays([there], schema=self._schema))
        )


class NumberSerde:
    """Serde of numbers of a fixed size, the first byte the highest: the value of the one column."""

    def __init__(self, schema: pa.Schema, name: str) -> None:
        self._schema = schema
        self._name = name
        self._type = np.dtype(schema.types[0].to_pandas_dtype()).newbyteorder(">")

    def encode(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the numbers."""
        column = batch.column(0)
        reject_nulls(column)
        size = self._type.itemsize
        ends = np.arange(len(column) + 1, dtype=np.int32) * size
        data = column.to_numpy(zero_copy_only=False).astype(self._type)
        return pa.Array.from_buffers(pa.binary(), len(column), [None, pa.py_buffer(ends), pa.py_buffer(data.tobytes())])

    def decode(self, values: pa.Array) -> pa.RecordBatch:
        """Return the messages."""
        return self.decode_each(values).whole()

    def decode_each(self, values: pa.Array) -> Decoded:
        """Return the messages that are of the size."""
        return without_nulls(values.cast(pa.binary()), self._each)

    def _each(self, values: pa.Array) -> Decoded:
        size = self._type.itemsize
        fits = pc.equal(pc.binary_length(values), size)
        bad = []
        if not pc.all(fits).as_py():
            places = np.flatnonzero(~fits.to_numpy(zero_copy_only=False)).tolist()
            bad = [
                BadMessage(place, f"it has {len(values[place].as_py())} bytes, and serde={self._name!r} has {size}")
                for place in places
            ]
            values = values.filter(fits)
        found = np.empty(0, self._type)
        if len(values):
            first = np.frombuffer(values.buffers()[1], np.int32)[values.offset]
            found = np.frombuffer(values.buffers()[2], self._type, len(values), int(first))
        column = pa.array(found.astype(self._type.newbyteorder("=")), self._schema.types[0])
        return Decoded(pa.RecordBatch.from_arrays([column], schema=self._schema), bad)

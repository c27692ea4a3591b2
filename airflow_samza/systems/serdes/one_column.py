"""Serdes of messages that are the value of one column: texts, bytes, and numbers as Kafka's own serializers write them.

Numbers are ``short``, ``integer``, ``long``, ``float`` and ``double``.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_samza.systems.serdes.decoding import ValueSerde, reject_nulls
from airflow_samza.systems.serdes.serde import BadMessage, Decoded


class BytesSerde(ValueSerde):
    """Serde of bytes: the value of the one column, unchanged."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def encode(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the values."""
        reject_nulls(batch.column(0))
        return batch.column(0).cast(pa.binary())

    def decode_present(self, values: pa.Array) -> Decoded:
        """Return the values."""
        return Decoded(self._batch(values))

    def _batch(self, column: pa.Array) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([column], schema=self._schema)


class StringSerde(BytesSerde):
    """Serde of texts in UTF-8: the value of the one column."""

    def decode_present(self, values: pa.Array) -> Decoded:
        """Return the texts; bytes that are none are bad."""
        try:
            return Decoded(self._batch(values.cast(pa.string())))
        except pa.ArrowInvalid:
            return self._one_by_one(values)

    def _one_by_one(self, values: pa.Array) -> Decoded:
        texts, bad = [], []
        for place, value in enumerate(values.to_pylist()):
            try:
                texts.append(value.decode())
            except UnicodeDecodeError as error:
                bad.append(BadMessage(place, f"it is no UTF-8 ({error.reason} at byte {error.start})"))
        return Decoded(self._batch(pa.array(texts, pa.string())), bad)


class NumberSerde(BytesSerde):
    """Serde of numbers of a fixed size, the first byte the highest: the value of the one column."""

    def __init__(self, schema: pa.Schema, name: str) -> None:
        super().__init__(schema)
        self._name = name
        self._type = np.dtype(schema.types[0].to_pandas_dtype()).newbyteorder(">")

    def encode(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the numbers."""
        column = batch.column(0)
        reject_nulls(column)
        ends = np.arange(len(column) + 1, dtype=np.int32) * self._type.itemsize
        data = column.to_numpy(zero_copy_only=False).astype(self._type)
        return pa.Array.from_buffers(pa.binary(), len(column), [None, pa.py_buffer(ends), pa.py_buffer(data.tobytes())])

    def decode_present(self, values: pa.Array) -> Decoded:
        """Return the numbers; bytes of another length are bad."""
        size = self._type.itemsize
        fits = pc.equal(pc.binary_length(values), size)
        bad = []
        if not pc.all(fits).as_py():
            bad = [
                BadMessage(place, f"it has {len(values[place].as_py())} bytes, and serde={self._name!r} has {size}")
                for place in np.flatnonzero(~fits.to_numpy(zero_copy_only=False)).tolist()
            ]
            values = values.filter(fits)
        numbers = np.empty(0, self._type)
        if len(values):
            first = np.frombuffer(values.buffers()[1], np.int32)[values.offset]
            numbers = np.frombuffer(values.buffers()[2], self._type, len(values), int(first))
        return Decoded(self._batch(pa.array(numbers.astype(self._type.newbyteorder("=")), self._schema.types[0])), bad)

"""The serdes ``string`` and ``bytes``: a message is the value of one column."""

from __future__ import annotations

import pyarrow as pa

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

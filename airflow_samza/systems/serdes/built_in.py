"""The serdes ``json``, ``string`` and ``bytes``."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from airflow_samza.errors import SchemaError
from airflow_samza.systems.files.formats.json_lines import read_lines
from airflow_samza.systems.files.formats.json_values import BadValue, from_lines, to_lines
from airflow_samza.systems.files.formats.lines import Block
from airflow_samza.systems.serdes.serde import BadMessage


class JsonSerde:
    """Serde of JSON objects in UTF-8, with values as in JSON files.

    A missing key is null, an undeclared one is left out.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def encode(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the objects."""
        return pa.array(to_lines(batch).split(b"\n")[:-1], pa.binary())

    def decode(self, values: pa.Array) -> pa.RecordBatch:
        """Return the messages."""
        reject_nulls(values)
        # A raw line end stands between the tokens of JSON, never within a text.
        lines = [value.replace(b"\n", b" ") for value in values.to_pylist()]
        try:
            batch = read_lines(Block(0, b"\n".join(lines)), self._schema)
            if batch.num_rows == len(lines):
                return batch
        except (ValueError, OverflowError, pa.ArrowException):
            pass
        for place, line in enumerate(lines):
            if not line.strip():
                raise BadMessage(place, "it is empty")
            try:
                from_lines(Block(0, line), self._schema)
            except BadValue as bad:
                raise BadMessage(place, str(bad) if bad.column is None else f"{bad.column!r} has {bad}") from None
        raise AssertionError("one of the messages cannot be read")


class StringSerde:
    """Serde of texts in UTF-8: the value of the one column."""

    def __init__(self, schema: pa.Schema, stream: str) -> None:
        self._schema = _one_column(schema, pa.string(), stream)

    def encode(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the texts."""
        reject_nulls(batch.column(0))
        return batch.column(0).cast(pa.binary())

    def decode(self, values: pa.Array) -> pa.RecordBatch:
        """Return the messages."""
        reject_nulls(values)
        try:
            texts = values.cast(pa.binary()).cast(pa.string())
        except pa.ArrowInvalid:
            for place, value in enumerate(values.to_pylist()):
                try:
                    value.decode()
                except UnicodeDecodeError as error:
                    raise BadMessage(place, f"it is no UTF-8 ({error.reason} at byte {error.start})") from None
            raise
        return pa.RecordBatch.from_arrays([texts], schema=self._schema)


class BytesSerde:
    """Serde of bytes: the value of the one column, unchanged."""

    def __init__(self, schema: pa.Schema, stream: str) -> None:
        self._schema = _one_column(schema, pa.binary(), stream)

    def encode(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the values."""
        reject_nulls(batch.column(0))
        return batch.column(0)

    def decode(self, values: pa.Array) -> pa.RecordBatch:
        """Return the messages."""
        reject_nulls(values)
        return pa.RecordBatch.from_arrays([values.cast(pa.binary())], schema=self._schema)


def _one_column(schema: pa.Schema, kind: pa.DataType, stream: str) -> pa.Schema:
    if schema.types != [kind]:
        word = "string" if pa.types.is_string(kind) else "bytes"
        raise SchemaError(
            f"The stream {stream!r} has serde={word!r} and the columns {', '.join(schema.names)}: it is for one "
            f"column of type {kind}.",
            hint="Select that column alone before it is sent, or take another serde.",
            stream=stream,
        )
    return schema


def reject_nulls(values: pa.Array) -> None:
    """Reject nulls: a message without a value has no bytes, and no columns."""
    if values.null_count:
        raise BadMessage(int(pc.index(pc.is_null(values), True).as_py()), "it has no value")

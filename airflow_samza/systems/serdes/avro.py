"""The serde ``avro:<schema file>``: each message is one record of Avro's binary encoding, without a header."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
from pyarrow import types

from airflow_samza.errors import SchemaError
from airflow_samza.systems.files.formats.avro import fastavro
from airflow_samza.systems.serdes.built_in import reject_nulls
from airflow_samza.systems.serdes.rows import batch_from, rows_of
from airflow_samza.systems.serdes.serde import BadMessage


class AvroSerde:
    """Serde of Avro records of one schema (``record``, as JSON), which writer and readers share.

    Columns are its fields by name.

    A field that is not declared is left out. A declared column that the record does not have is a SchemaError.
    """

    def __init__(self, schema: pa.Schema, record: Any, stream: str) -> None:
        self._library = fastavro()
        try:
            self._record = self._library.parse_schema(record)
        except Exception as error:  # whatever the parser trips over in a file of the user's
            raise SchemaError(
                f"The Avro schema of stream {stream!r} cannot be read: {type(error).__name__}: {error}.",
                hint="Give the file of one record's schema, as JSON.",
                stream=stream,
            ) from error
        fields = record.get("fields") if isinstance(record, dict) and record.get("type") == "record" else None
        if fields is None:
            raise SchemaError(
                f"The Avro schema of stream {stream!r} is no record.",
                hint="Give a record with a field for each column.",
                stream=stream,
            )
        self._schema = schema
        names = [field["name"] for field in fields]
        lacking = [name for name in schema.names if name not in names]
        if lacking:
            raise SchemaError(
                f"The Avro schema of stream {stream!r} has no field {lacking[0]!r}.",
                hint=f"Its fields are {', '.join(names)}: correct the declared columns, or the file.",
                stream=stream,
                column=lacking[0],
            )

    def encode(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the records."""
        found = []
        for place, row in enumerate(rows_of(batch)):
            sink = io.BytesIO()
            try:
                self._library.schemaless_writer(sink, self._record, row, strict_allow_default=True)
            except Exception as error:  # whatever the encoder trips over
                raise BadMessage(place, f"Avro cannot hold it ({type(error).__name__}: {error})") from error
            found.append(sink.getvalue())
        return pa.array(found, pa.binary())

    def decode(self, values: pa.Array) -> pa.RecordBatch:
        """Return the messages."""
        reject_nulls(values)
        rows = []
        for place, value in enumerate(values.to_pylist()):
            source = io.BytesIO(value)
            try:
                record = self._library.schemaless_reader(source, self._record, None)
            except Exception as error:  # whatever the decoder trips over
                raise BadMessage(place, f"it is no record of the schema ({type(error).__name__}: {error})") from error
            if source.tell() != len(value):
                raise BadMessage(place, f"behind the record stand {len(value) - source.tell()} further bytes")
            rows.append({field.name: _declared(record[field.name], field.type) for field in self._schema})
        return batch_from(rows, self._schema)


def _declared(value: Any, kind: pa.DataType) -> Any:
    """Return a value without the fields that are not declared."""
    if value is None:
        return None
    if types.is_struct(kind) and isinstance(value, dict):
        fields = [kind.field(place) for place in range(kind.num_fields)]
        return {field.name: _declared(value.get(field.name), field.type) for field in fields}
    if types.is_map(kind) and isinstance(value, dict):
        return {key: _declared(item, kind.item_type) for key, item in value.items()}
    if types.is_list(kind) and isinstance(value, list):
        return [_declared(item, kind.value_type) for item in value]
    return str(value) if types.is_string(kind) and type(value).__name__ == "UUID" else value

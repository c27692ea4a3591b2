"""The serde ``avro:<schema file>``: each message is one record of Avro's binary encoding, without a header.

Records are read all at once where their schema allows, else one by one. The binding of serdes makes it, and the serde
of a registry reads bodies by it.
"""

from __future__ import annotations

import io
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types

from airflow_samza.errors import SchemaError
from airflow_samza.systems.files.formats.avro import fastavro
from airflow_samza.systems.files.formats.avro_records import end_of
from airflow_samza.systems.files.formats.avro_types import AvroTypes
from airflow_samza.systems.files.formats.nested import rows_of
from airflow_samza.systems.serdes.avro_columns import RecordColumns, Unsupported
from airflow_samza.systems.serdes.decoding import ValueSerde, decoded_each, merged
from airflow_samza.systems.serdes.serde import BadMessage, Decoded

_DEEPEST = 1000
"""Values inside of one another in a record: the library takes some kilobytes of the stack for each."""


class AvroRecords(ValueSerde):
    """Serde of records that ``written``, a parsed schema, wrote; columns are its fields by name.

    ``read`` is the schema to which they are resolved (Avro's rules: its defaults for fields that are not there). A
    field that is not declared is left out, and a declared column that the records do not have is null.
    """

    def __init__(self, schema: pa.Schema, written: Any, read: Any = None) -> None:
        self._library = fastavro()
        self._schema = schema
        self._written = written
        self._read = read
        # Values of these types are what fastavro makes of them; its UUIDs become texts.
        self._fields = [
            (one.name, one.type if one.type.num_fields or types.is_string(one.type) else None) for one in schema
        ]
        types_of_record = AvroTypes(written)
        endless = any(types_of_record.unread(field["type"]) for field in types_of_record.root["fields"])
        self._looked_through = types_of_record if endless else None
        """The types of records of which the data decide the depth, or a length that takes no bytes."""
        self._columns: RecordColumns | None = None
        if read is None:
            with suppress(Unsupported):
                self._columns = RecordColumns(written, schema)

    def encode(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the records."""
        encoded = []
        for place, row in enumerate(rows_of(batch)):
            sink = io.BytesIO()
            try:
                self._library.schemaless_writer(sink, self._written, row, strict_allow_default=True)
            except Exception as error:  # whatever the encoder trips over
                raise BadMessage(place, f"Avro cannot hold it ({type(error).__name__}: {error})") from error
            encoded.append(sink.getvalue())
        return pa.array(encoded, pa.binary())

    def decode_present(self, values: pa.Array) -> Decoded:
        """Return the messages read at once, and between them those that are flagged, read one by one."""
        if self._columns is None or not len(values):
            return self._one_by_one(values)
        batch, flagged = self._columns.read(values)
        if not flagged.any():
            return Decoded(batch)
        good = Decoded(batch.filter(pa.array(~flagged)))
        places = np.flatnonzero(flagged)
        others = self._one_by_one(values.take(pa.array(places)))
        return merged([(np.flatnonzero(~flagged), good), (places, others)])

    def _one_by_one(self, values: pa.Array) -> Decoded:
        return decoded_each(values, self._read_one, self._schema)

    def _read_one(self, value: bytes) -> dict[str, Any]:
        source = io.BytesIO(value)
        try:
            if self._looked_through is not None:  # the library would fill the stack, or the memory
                end_of(self._looked_through, self._looked_through.root, value, 0, deepest=_DEEPEST)
            record = self._library.schemaless_reader(source, self._written, self._read)
        except Exception as error:  # whatever the decoder trips over
            what = "it ends too early" if isinstance(error, EOFError) else f"{type(error).__name__}: {error}"
            raise BadMessage(0, f"it is no record of the schema ({what})") from error
        if source.tell() < len(value):
            raise BadMessage(0, f"{len(value) - source.tell()} further bytes follow the record")
        return {
            name: record.get(name) if kind is None else _declared(record.get(name), kind) for name, kind in self._fields
        }


def _declared(value: Any, kind: pa.DataType) -> Any:
    """Return a value without the fields that are not declared."""
    if value is None:
        return None
    if types.is_struct(kind) and isinstance(value, dict):
        return {field.name: _declared(value.get(field.name), field.type) for field in kind}
    if types.is_map(kind) and isinstance(value, dict):
        return {key: _declared(item, kind.item_type) for key, item in value.items()}
    if types.is_list(kind) and isinstance(value, list):
        return [_declared(item, kind.value_type) for item in value]
    return str(value) if types.is_string(kind) and type(value).__name__ == "UUID" else value


def avro_serde(schema: pa.Schema, record: Any, stream: str) -> AvroRecords:
    """Return the serde of Avro records of one schema (``record``, as JSON), which writer and readers share.

    A declared column that the record does not have is a SchemaError.
    """
    try:
        parsed = fastavro().parse_schema(record)
    except Exception as error:  # whatever the parser trips over in a file of the user's
        raise SchemaError(
            f"The Avro schema of stream {stream!r} cannot be read: {type(error).__name__}: {error}.",
            hint="Give the file of one record's schema, as JSON.",
            stream=stream,
        ) from error
    if not isinstance(record, dict) or record.get("type") != "record":
        raise SchemaError(
            f"The Avro schema of stream {stream!r} is no record.",
            hint="Give a record with a field for each column.",
            stream=stream,
        )
    names = [field["name"] for field in record["fields"]]
    lacking = [name for name in schema.names if name not in names]
    if lacking:
        raise SchemaError(
            f"The Avro schema of stream {stream!r} has no field {lacking[0]!r}.",
            hint=f"Its fields are {', '.join(names)}: correct the declared columns, or the file.",
            stream=stream,
            column=lacking[0],
        )
    return AvroRecords(schema, parsed)

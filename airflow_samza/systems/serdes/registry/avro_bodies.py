"""Messages of Avro schemas."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from airflow_samza.systems.files.formats.avro import fastavro
from airflow_samza.systems.serdes.avro_records import AvroRecords, field_names
from airflow_samza.systems.serdes.registry.client import SchemaText
from airflow_samza.systems.serdes.serde import Serde


class AvroBodies:
    """Form of messages of Avro schemas."""

    kind = "AVRO"
    after_id = b""

    def reader(self, written: SchemaText, own: str | None, schema: pa.Schema) -> Serde:
        """Return what reads records of the schema, resolved to the stream's own, if it has one."""
        return AvroRecords(schema, _parsed(written), None if own is None else fastavro().parse_schema(json.loads(own)))

    def writer(self, written: SchemaText, schema: pa.Schema) -> Serde:
        """Return what writes records of the schema, when the columns are its fields, and others have a default."""
        record = _parsed(written)
        lacking = self.lacking(written, schema)
        if lacking:
            raise ValueError(f"it has no field {lacking[0]!r}")
        without = [
            field["name"] for field in record["fields"] if field["name"] not in schema.names and "default" not in field
        ]
        if without:
            raise ValueError(f"its field {without[0]!r} has no default")
        return AvroRecords(schema, record)

    def lacking(self, written: SchemaText, schema: pa.Schema) -> list[str]:
        """Return the columns that are no fields of the record."""
        names = field_names(_parsed(written))
        return [name for name in schema.names if name not in names]


def _parsed(schema: SchemaText, named: dict[str, Any] | None = None) -> Any:
    """Return a schema as the library has it; those that it refers to come first."""
    known: dict[str, Any] = {} if named is None else named
    for _, reference in schema.references:
        _parsed(reference, known)
    try:
        record = fastavro().parse_schema(json.loads(schema.text), named_schemas=known)
    except Exception as error:  # whatever the parser trips over in a schema of others
        raise ValueError(f"it cannot be parsed: {type(error).__name__}: {error}") from error
    if named is None and (not isinstance(record, dict) or record.get("type") != "record"):
        raise ValueError("it is no record")
    return record

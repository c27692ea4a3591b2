"""Forms of the messages of a registry: of Avro and JSON schemas here, of Protobuf schemas beside."""

from __future__ import annotations

import json
from typing import Any, Protocol

import pyarrow as pa

from airflow_samza.systems.files.formats.avro import fastavro
from airflow_samza.systems.files.formats.avro_types import AvroTypes
from airflow_samza.systems.serdes.avro import AvroRecords
from airflow_samza.systems.serdes.json import JsonSerde
from airflow_samza.systems.serdes.registry.client import SchemaText
from airflow_samza.systems.serdes.serde import Serde


class Bodies(Protocol):
    """Form of messages of one kind of schemas, without what stands before them; ``own`` is the stream's own schema."""

    kind: str
    after_id: bytes = b""
    """The bytes between the id and a message that is written."""

    def reader(self, written: SchemaText, own: str | None, schema: pa.Schema) -> Serde:
        """Return what reads messages that this schema wrote into declared columns; a ValueError if nothing can."""

    def writer(self, written: SchemaText, schema: pa.Schema) -> Serde:
        """Return what writes messages of these columns with this schema; a ValueError if they are not its fields."""

    def lacking(self, written: SchemaText, schema: pa.Schema) -> list[str]:
        """Return the columns that are no fields of the schema."""


class AvroBodies(Bodies):
    """Form of messages of Avro schemas."""

    kind = "AVRO"

    def reader(self, written: SchemaText, own: str | None, schema: pa.Schema) -> Serde:
        """Return what reads records of the schema, resolved to the stream's own, if it has one."""
        return _records(schema, _parsed(written), None if own is None else fastavro().parse_schema(json.loads(own)))

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
        return _records(schema, record)

    def lacking(self, written: SchemaText, schema: pa.Schema) -> list[str]:
        """Return the columns that are no fields of the record."""
        names = {field["name"] for field in _parsed(written)["fields"]}
        return [name for name in schema.names if name not in names]


def _records(schema: pa.Schema, written: Any, read: Any = None) -> AvroRecords:
    """Return the serde of a schema of others, which may describe more than any memory or stack holds."""
    try:
        AvroTypes(written).fields()
        return AvroRecords(schema, written, read)
    except RecursionError:
        raise ValueError("its types are too deep inside of one another") from None


def _parsed(schema: SchemaText, named: dict[str, Any] | None = None) -> Any:
    """Return a schema as the library has it; those that it refers to come first."""
    named_schemas: dict[str, Any] = {} if named is None else named
    for _, reference in schema.references:
        _parsed(reference, named_schemas)
    try:
        record = fastavro().parse_schema(json.loads(schema.text), named_schemas=named_schemas)
    except Exception as error:  # whatever the parser trips over in a schema of others
        raise ValueError(f"it cannot be parsed: {type(error).__name__}: {error}") from error
    if named is None and (not isinstance(record, dict) or record.get("type") != "record"):
        raise ValueError("it is no record")
    return record


class JsonBodies(Bodies):
    """Form of messages of JSON schemas."""

    kind = "JSON"

    def reader(self, written: SchemaText, own: str | None, schema: pa.Schema) -> Serde:
        """Return the serde ``json``."""
        return JsonSerde(schema)

    def writer(self, written: SchemaText, schema: pa.Schema) -> Serde:
        """Return the serde ``json``, when the schema allows the columns, and these have what it requires."""
        declared = _stated(written)
        required = [name for name in declared.get("required", ()) if name not in schema.names]
        if required:
            raise ValueError(f"it requires {required[0]!r}")
        if declared.get("additionalProperties") is False and (lacking := self.lacking(written, schema)):
            raise ValueError(f"it has no {lacking[0]!r}, and allows no others")
        return JsonSerde(schema)

    def lacking(self, written: SchemaText, schema: pa.Schema) -> list[str]:
        """Return the columns that are none of its properties, where it names any."""
        properties = _stated(written).get("properties")
        if not isinstance(properties, dict) or not properties:
            return []
        return [name for name in schema.names if name not in properties]


def _stated(written: SchemaText) -> dict[str, Any]:
    """Return what a JSON schema says; ``true``, which allows all, says nothing."""
    declared = json.loads(written.text)
    return declared if isinstance(declared, dict) else {}

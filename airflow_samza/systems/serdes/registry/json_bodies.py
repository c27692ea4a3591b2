"""Messages of JSON schemas: objects, whose values are held against the declared columns, not against the schema."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from airflow_samza.systems.serdes.json_objects import JsonSerde
from airflow_samza.systems.serdes.registry.client import SchemaText
from airflow_samza.systems.serdes.serde import Serde


class JsonBodies:
    """Form of messages of JSON schemas."""

    kind = "JSON"
    after_id = b""

    def reader(self, written: SchemaText, own: str | None, schema: pa.Schema) -> Serde:
        """Return the serde ``json``."""
        return JsonSerde(schema)

    def writer(self, written: SchemaText, schema: pa.Schema) -> Serde:
        """Return the serde ``json``, when the schema allows the columns, and these have what it requires."""
        known = json.loads(written.text)
        required = [name for name in known.get("required", ()) if name not in schema.names]
        if required:
            raise ValueError(f"it requires {required[0]!r}")
        if known.get("additionalProperties") is False and (lacking := self.lacking(written, schema)):
            raise ValueError(f"it has no {lacking[0]!r}, and allows no others")
        return JsonSerde(schema)

    def lacking(self, written: SchemaText, schema: pa.Schema) -> list[str]:
        """Return the columns that are none of its properties, where it names any."""
        known: Any = json.loads(written.text)
        properties = known.get("properties") if isinstance(known, dict) else None
        if not isinstance(properties, dict) or not properties:
            return []
        return [name for name in schema.names if name not in properties]

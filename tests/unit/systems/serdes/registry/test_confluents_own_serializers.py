"""Messages of the library's own serializers are read, and what is written its own deserializers read."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza.schema import Schema
from airflow_samza.systems.serdes.binding import bind_serde
from airflow_samza.systems.serdes.registry.client import Registry
from tests.support.schema_registry import StubRegistry, stub_registry

AVRO = {
    "type": "record",
    "name": "view",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "word", "type": ["null", "string"]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}
JSON = {
    "title": "view",
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "word": {"type": ["string", "null"]},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
}
ROWS: list[dict[str, Any]] = [{"id": 2**40, "word": "é", "tags": ["a", "b"]}, {"id": -1, "word": None, "tags": []}]


@pytest.fixture
def registry() -> Iterator[StubRegistry]:
    with stub_registry() as found:
        yield found


@pytest.mark.parametrize(
    ("form", "module", "name", "schema"),
    [("avro", "avro", "Avro", AVRO), ("json", "json_schema", "JSON", JSON)],
    ids=["avro", "json"],
)
def test_messages_go_both_ways(registry: StubRegistry, form: str, module: str, name: str, schema: Any) -> None:
    Registry("queue", {"url": registry.url}).schema(1, name.upper())  # imports the library without its warning
    library = importlib.import_module(f"confluent_kafka.schema_registry.{module}")
    client = importlib.import_module("confluent_kafka.schema_registry").SchemaRegistryClient({"url": registry.url})
    serialization = importlib.import_module("confluent_kafka.serialization")
    context = serialization.SerializationContext("views", serialization.MessageField.VALUE)
    with client:
        text = json.dumps(schema)
        write = getattr(library, f"{name}Serializer")
        read = getattr(library, f"{name}Deserializer")
        write = write(client, text) if form == "avro" else write(text, client)
        read = read(client) if form == "avro" else read(text)
        theirs = [write(row, context) for row in ROWS]
        made = bind_serde(
            f"registry:{form}",
            Schema.of("id bigint, word string, tags array<string>").to_arrow(),
            "views",
            options=registry.options,
            system="queue",
        )
        assert made.decode(pa.array(theirs, pa.binary())).to_pylist() == ROWS
        ours = made.encode(pa.RecordBatch.from_pylist(ROWS)).to_pylist()
        assert [read(value, context) for value in ours] == ROWS
        if form == "avro":
            assert ours == theirs

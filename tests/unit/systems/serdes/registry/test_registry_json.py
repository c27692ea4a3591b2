"""JSON with a schema registry: objects behind the id of their schema."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza.errors import SchemaError
from airflow_samza.schema import Schema
from airflow_samza.systems.serdes.binding import bind_serde
from airflow_samza.systems.serdes.registry.serde import RegistrySerde
from tests.support.schema_registry import StubRegistry, stub_registry

VIEW = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "word": {"type": "string"}},
    "required": ["id"],
    "additionalProperties": False,
}


@pytest.fixture
def registry() -> Iterator[StubRegistry]:
    with stub_registry() as found:
        yield found


def serde(registry: StubRegistry, ddl: str = "id bigint, word string") -> RegistrySerde:
    found = bind_serde("registry:json", Schema.of(ddl).to_arrow(), "views", options=registry.options, system="queue")
    assert isinstance(found, RegistrySerde)
    return found


def test_messages_are_objects_behind_the_id_of_their_schema(registry: StubRegistry) -> None:
    id = registry.add("views-value", VIEW, "JSON")
    rows: list[dict[str, Any]] = [{"id": 1, "word": "a"}, {"id": 2, "word": None}]
    made = serde(registry)
    made.check_written()
    written = made.encode(pa.RecordBatch.from_pylist(rows))
    assert [(value[:5], json.loads(value[5:])) for value in written.to_pylist()] == [
        (b"\0" + struct.pack(">I", id), row) for row in rows
    ]
    assert made.decode(written).to_pylist() == rows


def test_bad_objects_are_found_among_those_of_two_schemas(registry: StubRegistry) -> None:
    first, second = registry.add("views-value", VIEW, "JSON"), registry.add("views-value", {"type": "object"}, "JSON")
    values = [
        b"\0" + struct.pack(">I", second if place % 3 else first) + (b"{" if place % 10 == 0 else b'{"id": %d}' % place)
        for place in range(300)
    ]
    found = serde(registry).decode_each(pa.array(values, pa.binary()))
    assert [one.place for one in found.bad] == list(range(0, 300, 10))
    assert found.batch.column(0).to_pylist() == [place for place in range(300) if place % 10]


@pytest.mark.parametrize(
    ("ddl", "why"), [("word string", "it requires 'id'"), ("id bigint, x int", "it has no 'x', and allows no others")]
)
def test_columns_that_the_schema_does_not_allow_cannot_be_written(registry: StubRegistry, ddl: str, why: str) -> None:
    registry.add("views-value", VIEW, "JSON")
    with pytest.raises(SchemaError) as raised:
        serde(registry, ddl).check_written()
    assert why in str(raised.value)


def test_a_schema_that_allows_all_says_nothing_of_columns(registry: StubRegistry) -> None:
    registry.add("views-value", True, "JSON")
    made = serde(registry)
    made.check_written()
    made.check_read()
    assert made.encode(pa.RecordBatch.from_pylist([{"id": 1, "word": "a"}]))[0].as_py()[5:] == b'{"id":1,"word":"a"}'

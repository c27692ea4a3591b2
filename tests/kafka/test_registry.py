"""Messages with a schema registry, over a real broker and a stub of the registry."""

from __future__ import annotations

import io
import struct
from typing import Any

import fastavro
import pytest

from airflow_samza.systems.kafka.system import KafkaSystem
from airflow_samza.systems.system import MessageRun, StreamSpec, SystemBinding, UnreadableRun
from tests.support.kafka_topics import Sent, Topics, offsets, read, rows
from tests.support.schema_registry import stub_registry

pytestmark = pytest.mark.kafka

VIEW = {
    "type": "record",
    "name": "view",
    "fields": [{"name": "id", "type": "long"}, {"name": "word", "type": "string"}],
}
MORE = {**VIEW, "fields": [*VIEW["fields"], {"name": "more", "type": ["null", "int"], "default": None}]}


def message(id: int, schema: Any, row: dict[str, Any]) -> bytes:
    sink = io.BytesIO()
    fastavro.schemaless_writer(sink, fastavro.parse_schema(schema), row)
    return b"\0" + struct.pack(">I", id) + sink.getvalue()


def test_messages_of_several_schemas_are_read_and_bad_ones_keep_place_and_headers(topics: Topics) -> None:
    topic = topics.make()
    with stub_registry(login="reader:right") as registry:
        old, new = registry.add(f"{topic}-value", VIEW), registry.add(f"{topic}-value", MORE)
        sent = [
            Sent(message(old, VIEW, {"id": 0, "word": "a"}), b"k0"),
            Sent(message(new, MORE, {"id": 1, "word": "b", "more": 5}), b"k1"),
            Sent(message(99, VIEW, {"id": 2, "word": "c"}), b"k2", headers=[("trace", b"t")]),
            Sent(b"\xff", b"k3"),
            Sent(message(old, VIEW, {"id": 4, "word": "e"}), b"k4"),
        ]
        topics.send(topic, sent)
        options = {"bootstrap.servers": topics.address, **registry.options}
        system = KafkaSystem("queue", SystemBinding("kafka", options))
        columns = "k string, id bigint, more int"
        stream = StreamSpec(topic, schema=columns, serde="registry:avro", options=(("key_column", "k"),), tolerant=True)
        found = read(system, stream)
        good = [run for run in found if isinstance(run, MessageRun) and not isinstance(run, UnreadableRun)]
        bad = [run for run in found if isinstance(run, UnreadableRun)]
        assert rows(good) == [
            {"k": "k0", "id": 0, "more": None},
            {"k": "k1", "id": 1, "more": 5},
            {"k": "k4", "id": 4, "more": None},
        ]
        assert [(run.offset, run.errors, run.headers) for run in bad] == [
            (2, ["the registry has no schema 99"], ['[["trace", "t"]]']),
            (3, ["it begins with the byte 255, and not with 0 and the id of a schema"], [None]),
        ]
        assert offsets(found) == [0, 1, 2, 3, 4]

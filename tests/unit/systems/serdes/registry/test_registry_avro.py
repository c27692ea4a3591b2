"""Avro with a schema registry: messages of several schemas, what is written, and a registry that does not do as asked."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from airflow_samza.errors import ConfigError, SchemaError, StorageUnavailable
from airflow_samza.schema import Schema
from airflow_samza.systems.kafka.access import access_of
from airflow_samza.systems.serdes.binding import bind_serde, with_schema_file
from airflow_samza.systems.serdes.registry.client import registry_settings
from airflow_samza.systems.serdes.registry.serde import RegistrySerde
from airflow_samza.systems.system import SystemBinding
from demo.certificates import Certificates
from tests.support.schema_registry import StubRegistry, stub_registry

OLD = {"type": "record", "name": "view", "fields": [{"name": "id", "type": "int"}, {"name": "gone", "type": "string"}]}
NEW = {
    "type": "record",
    "name": "view",
    "fields": [{"name": "id", "type": "long"}, {"name": "word", "type": ["null", "string"], "default": None}],
}
OWN = {
    "type": "record",
    "name": "view",
    "fields": [{"name": "id", "type": "long"}, {"name": "word", "type": "string", "default": "none"}],
}


@pytest.fixture
def registry() -> Iterator[StubRegistry]:
    with stub_registry() as found:
        yield found


def serde(
    registry: StubRegistry, name: str = "registry:avro", ddl: str = "id bigint, word string", **more: Any
) -> RegistrySerde:
    options = {**registry.options, **more}
    found = bind_serde(name, Schema.of(ddl).to_arrow(), "views", options=options, system="queue")
    assert isinstance(found, RegistrySerde)
    return found


def message(id: int, record: Any, row: dict[str, Any]) -> bytes:
    sink = io.BytesIO()
    fastavro.schemaless_writer(sink, fastavro.parse_schema(record), row)
    return b"\0" + struct.pack(">I", id) + sink.getvalue()


def test_messages_of_several_schemas_are_read_in_their_order(registry: StubRegistry) -> None:
    old, new = registry.add("views-value", OLD), registry.add("views-value", NEW)
    values = [
        message(new, NEW, {"id": 1, "word": "a"}),
        message(old, OLD, {"id": 2, "gone": "x"}),
        b"\0\0\0\x03\xe7rest",
        message(new, NEW, {"id": 3, "word": None}),
        b"{}",
        message(old, OLD, {"id": 4, "gone": "y"})[:-1],
        b"",
        None,
        b"\0\0",
        message(old, OLD, {"id": 5, "gone": "z"}),
    ]
    found = serde(registry).decode_each(pa.array([None, *values], pa.binary()).slice(1))
    assert found.batch.to_pylist() == [
        {"id": 1, "word": "a"},
        {"id": 2, "word": None},
        {"id": 3, "word": None},
        {"id": 5, "word": None},
    ]
    assert [(one.place, str(one).split(" (")[0]) for one in found.bad] == [
        (2, "the registry has no schema 999"),
        (4, "it begins with the byte 123, and not with 0 and the id of a schema"),
        (5, "it is no record of the schema"),
        (6, "it is empty"),
        (7, "it has no value"),
        (8, "it has 2 bytes, which are too few for the id of a schema"),
    ]


def test_all_bad_messages_leave_no_rows(registry: StubRegistry) -> None:
    found = serde(registry).decode_each(pa.array([b"x", b"\0\0\0\0\x09"], pa.binary()))
    assert (found.batch.num_rows, found.batch.schema.names, len(found.bad)) == (0, ["id", "word"], 2)


def test_a_column_that_the_writer_did_not_have_gets_the_default_of_the_streams_own_schema(
    registry: StubRegistry,
) -> None:
    old = registry.add("views-value", OLD)
    found = serde(registry, f"registry:avro:{json.dumps(OWN)}")
    values = pa.array([message(old, OLD, {"id": 2, "gone": "x"})], pa.binary())
    assert found.decode(values).to_pylist() == [{"id": 2, "word": "none"}]


def test_a_schema_that_cannot_be_resolved_to_the_streams_own_makes_its_messages_bad(registry: StubRegistry) -> None:
    other = {"type": "record", "name": "view", "fields": [{"name": "id", "type": "string"}]}
    id = registry.add("views-value", other)
    found = serde(registry, f"registry:avro:{json.dumps(OWN)}").decode_each(
        pa.array([message(id, other, {"id": "x"})], pa.binary())
    )
    assert (found.batch.num_rows, [one.place for one in found.bad]) == (0, [0])


def test_a_schema_is_asked_for_once_in_a_process(registry: StubRegistry) -> None:
    new = registry.add("views-value", NEW)
    values = pa.array([message(new, NEW, {"id": 1, "word": "a"})] * 3, pa.binary())
    for _ in range(3):
        assert serde(registry).decode(values).num_rows == 3
    assert registry.asked == [f"GET /schemas/ids/{new}"]


def test_a_schema_that_is_registered_later_is_found_then(registry: StubRegistry) -> None:
    made = serde(registry)
    values = pa.array([message(1, NEW, {"id": 1, "word": "a"})], pa.binary())
    assert len(made.decode_each(values).bad) == 1
    registry.add("views-value", NEW)
    assert made.decode_each(values).batch.num_rows == 1


def test_schemas_that_refer_to_others_are_read(registry: StubRegistry) -> None:
    inner = {"type": "record", "name": "place", "namespace": "geo", "fields": [{"name": "town", "type": "string"}]}
    outer = {
        "type": "record",
        "name": "view",
        "fields": [{"name": "id", "type": "long"}, {"name": "at", "type": "geo.place"}],
    }
    registry.add("places", inner)
    id = registry.add("views-value", outer, references=[{"name": "geo.place", "subject": "places", "version": 1}])
    named: dict[str, Any] = {}
    fastavro.parse_schema(inner, named_schemas=named)
    sink = io.BytesIO()
    fastavro.schemaless_writer(
        sink, fastavro.parse_schema(outer, named_schemas=named), {"id": 1, "at": {"town": "Ede"}}
    )
    value = b"\0" + struct.pack(">I", id) + sink.getvalue()
    found = serde(registry, ddl="id bigint, at struct<town:string>").decode(pa.array([value], pa.binary()))
    assert found.to_pylist() == [{"id": 1, "at": {"town": "Ede"}}]


def test_messages_are_written_with_the_latest_schema_and_nothing_is_registered(registry: StubRegistry) -> None:
    registry.add("views-value", OLD)
    new = registry.add("views-value", NEW)
    made = serde(registry, ddl="id bigint")
    made.check_written()
    written = made.encode(pa.RecordBatch.from_pydict({"id": [1, 2]}))
    assert written.to_pylist() == [message(new, NEW, {"id": number, "word": None}) for number in (1, 2)]
    assert not [one for one in registry.asked if one.startswith("POST")]


def test_messages_are_written_with_the_schema_of_the_file_if_it_is_registered(
    registry: StubRegistry, tmp_path: Path
) -> None:
    (tmp_path / "view.avsc").write_text(json.dumps(OWN))
    name = with_schema_file("registry:avro:view.avsc", "views", str(tmp_path / "app.py"))
    with pytest.raises(
        ConfigError, match=r"The subject 'views-value' .* does not have the schema of the stream's file"
    ):
        serde(registry, name).check_written()
    sent = json.dumps(json.loads(name.removeprefix("registry:avro:")))
    own = registry.add("views-value", sent)
    registry.add("views-value", NEW)
    batch = pa.RecordBatch.from_pydict({"id": [7], "word": ["a"]})
    assert serde(registry, name).encode(batch).to_pylist() == [message(own, OWN, {"id": 7, "word": "a"})]


def test_a_file_is_registered_where_the_system_says_so(registry: StubRegistry) -> None:
    made = serde(registry, f"registry:avro:{json.dumps(OWN)}", **{"schema.registry.auto.register.schemas": "true"})
    made.check_written()
    assert registry.subjects == {"views-value": [1]}
    registry.compatible = False
    other = serde(registry, f"registry:avro:{json.dumps(NEW)}", **{"schema.registry.auto.register.schemas": "true"})
    with pytest.raises(ConfigError, match=r"rejects the schema \(HTTP 409\): Schema being registered is incompatible"):
        other.check_written()


@pytest.mark.parametrize(
    ("ddl", "why"),
    [("id bigint, other string", "it has no field 'other'"), ("word string", "its field 'id' has no default")],
)
def test_columns_that_do_not_fit_the_schema_cannot_be_written(registry: StubRegistry, ddl: str, why: str) -> None:
    registry.add("views-value", NEW)
    with pytest.raises(SchemaError, match="cannot be written with schema 1 of the subject 'views-value'") as raised:
        serde(registry, ddl=ddl).check_written()
    assert why in str(raised.value)


def test_the_plan_rejects_columns_that_the_latest_schema_does_not_have(registry: StubRegistry) -> None:
    serde(registry).check_read()  # messages may be of other subjects
    registry.add("views-value", OLD)
    with pytest.raises(
        SchemaError, match="The latest schema of the subject 'views-value', with the id 1, has no field 'word'"
    ):
        serde(registry).check_read()
    serde(registry, f"registry:avro:{json.dumps(OWN)}").check_read()


def test_a_subject_of_another_kind_is_rejected_and_its_messages_are_bad(registry: StubRegistry) -> None:
    id = registry.add("views-value", {"type": "object"}, "JSON")
    with pytest.raises(SchemaError, match=r"has a schema of JSON, and the stream's serde is of AVRO"):
        serde(registry).check_read()
    (bad,) = serde(registry).decode_each(pa.array([b"\0" + struct.pack(">I", id) + b"{}"], pa.binary())).bad
    assert str(bad) == f"its schema {id} is of JSON, and not of AVRO"


def test_a_registry_that_is_away_fails_the_stage_and_makes_no_message_bad() -> None:
    with stub_registry() as registry:
        registry.add("views-value", NEW)
    away = serde(registry, **{"schema.registry.max.retries": "0"})
    with pytest.raises(
        StorageUnavailable,
        match=r"The schema registry of the system 'queue' at http://127\.0\.0\.1:\d+ does not answer",
    ):
        away.decode_each(pa.array([message(1, NEW, {"id": 1, "word": "a"})], pa.binary()))


def test_an_error_of_the_registry_may_pass(registry: StubRegistry) -> None:
    registry.failing = 500
    with pytest.raises(StorageUnavailable, match=r"answers with an error \(HTTP 500\): failing"):
        serde(registry, **{"schema.registry.max.retries": "0"}).check_read()


def test_a_wrong_password_is_named_and_not_shown() -> None:
    with stub_registry(login="reader:right") as registry:
        registry.add("views-value", NEW)
        serde(registry).check_read()
        with pytest.raises(ConfigError, match="rejects the login or its password") as raised:
            serde(registry, **{"schema.registry.basic.auth.user.info": "reader:wr0ng"}).check_read()
        inside = {"schema.registry.url": registry.url.replace("//", "//reader:wr0ng@")}
        found = bind_serde("registry:avro", Schema.of("id bigint").to_arrow(), "views", options=inside, system="queue")
        assert isinstance(found, RegistrySerde)
        with pytest.raises(ConfigError, match="rejects the login or its password") as also:
            found.check_read()
    assert "wr0ng" not in raised.value.sentence + also.value.sentence


def test_settings_that_the_client_does_not_take_are_named(registry: StubRegistry) -> None:
    with pytest.raises(ConfigError, match=r"cannot be made: Unrecognized properties: no\.such"):
        serde(registry, **{"schema.registry.no.such": "1"}).check_read()


def test_an_address_that_is_none_is_named_without_its_password(registry: StubRegistry) -> None:
    with pytest.raises(ConfigError, match="cannot be made: Invalid url") as raised:
        serde(registry, **{"schema.registry.url": "ftp://reader:wr0ng@registry"}).check_read()
    assert "wr0ng" not in str(raised.value)


def test_a_system_without_a_registry_is_named() -> None:
    with pytest.raises(ConfigError, match="the system 'queue' names no schema registry"):
        bind_serde("registry:avro", Schema.of("id bigint").to_arrow(), "views", options={}, system="queue")


def test_settings_of_the_registry_are_kept_from_the_brokers_client() -> None:
    options = {"bootstrap.servers": "b:9092", "schema.registry.url": "http://r", "schema.registry.timeout": "3"}
    assert {name for name, _ in access_of("queue", SystemBinding("kafka", options)).pairs} == {
        "bootstrap.servers",
        "client.id",
    }
    assert registry_settings(options)["timeout"] == 3.0
    assert registry_settings({"bootstrap.servers": "b:9092"}) == {}


def test_a_certificate_is_trusted_by_the_authority_that_the_system_names(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path / "certificates")
    certificates.make()
    broker = str(certificates.broker)
    with stub_registry(certificate=(broker, broker)) as registry:
        registry.add("views-value", NEW)
        with pytest.raises(ConfigError, match=r"The certificate of the schema registry .* is not trusted"):
            serde(registry, **{"schema.registry.max.retries": "0"}).check_read()
        serde(registry, **{"schema.registry.ssl.ca.location": str(certificates.authority)}).check_read()

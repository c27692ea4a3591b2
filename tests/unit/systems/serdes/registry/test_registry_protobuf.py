"""Protobuf with a schema registry, held against protobuf's own classes."""

from __future__ import annotations

import datetime
import struct
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2, wrappers_pb2

from airflow_samza.errors import SchemaError
from airflow_samza.schema import Schema
from airflow_samza.systems.serdes.binding import bind_serde
from airflow_samza.systems.serdes.registry.serde import RegistrySerde
from airflow_samza.systems.serdes.serde import BadMessage
from tests.support.schema_registry import StubRegistry, stub_registry

Field = descriptor_pb2.FieldDescriptorProto
DDL = (
    "id bigint, word string, flag boolean, ratio double, raw binary, kind string, tags array<string>, "
    "counts map<string,bigint>, inner struct<x:int>, at timestamp, maybe bigint, many array<struct<x:int>>"
)
ROW: dict[str, Any] = {
    "id": 2**40, "word": "é", "flag": True, "ratio": 0.5, "raw": b"\xff\0", "kind": "LARGE", "tags": ["a", "b"],
    "counts": {"a": 1}, "inner": {"x": 3}, "at": datetime.datetime(2026, 3, 1, 12, 0, 0, 5, datetime.timezone.utc),
    "maybe": 0, "many": [{"x": 1}, {"x": 2}],
}  # fmt: skip
UNSET = {
    "id": 0, "word": "", "flag": False, "ratio": 0.0, "raw": b"", "kind": "SMALL", "tags": [], "counts": {}, "inner": None,
    "at": None, "maybe": None, "many": [],
}  # fmt: skip


def file_of(name: str = "views.proto", imports: tuple[str, ...] = ()) -> descriptor_pb2.FileDescriptorProto:
    """Return the descriptor of a file whose second message has all kinds of fields."""
    file = descriptor_pb2.FileDescriptorProto(name=name, package="shop", syntax="proto3")
    file.dependency.extend(["google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto", *imports])
    kind = file.enum_type.add(name="Kind")
    kind.value.add(name="SMALL", number=0)
    kind.value.add(name="LARGE", number=1)
    file.message_type.add(name="Inner").field.add(name="x", number=1, type=Field.TYPE_INT32, label=1)
    view = file.message_type.add(name="View")
    plain = {
        "id": Field.TYPE_INT64, "word": Field.TYPE_STRING, "flag": Field.TYPE_BOOL, "ratio": Field.TYPE_DOUBLE,
        "raw": Field.TYPE_BYTES,
    }  # fmt: skip
    for number, (field, type_) in enumerate(plain.items(), 1):
        view.field.add(name=field, number=number, type=type_, label=1)
    view.field.add(name="kind", number=6, type=Field.TYPE_ENUM, type_name=".shop.Kind", label=1)
    view.field.add(name="tags", number=7, type=Field.TYPE_STRING, label=3)
    entry = view.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=Field.TYPE_STRING, label=1)
    entry.field.add(name="value", number=2, type=Field.TYPE_INT64, label=1)
    for number, field, type_name, label in (
        (8, "counts", ".shop.View.CountsEntry", 3),
        (9, "inner", ".shop.Inner", 1),
        (10, "at", ".google.protobuf.Timestamp", 1),
        (11, "maybe", ".google.protobuf.Int64Value", 1),
        (12, "many", ".shop.Inner", 3),
    ):
        view.field.add(name=field, number=number, type=Field.TYPE_MESSAGE, type_name=type_name, label=label)
    return file


def classes_of(file: descriptor_pb2.FileDescriptorProto) -> Any:
    pool = descriptor_pool.DescriptorPool()
    for known in (timestamp_pb2, wrappers_pb2):
        pool.AddSerializedFile(known.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    return lambda name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"shop.{name}"))


@pytest.fixture
def registry() -> Iterator[StubRegistry]:
    with stub_registry() as found:
        yield found


def serde(registry: StubRegistry, ddl: str = DDL) -> RegistrySerde:
    found = bind_serde(
        "registry:protobuf", Schema.of(ddl).to_arrow(), "views", options=registry.options, system="queue"
    )
    assert isinstance(found, RegistrySerde)
    return found


def plain(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "counts": dict(row["counts"])}


def head(id: int) -> bytes:
    return b"\0" + struct.pack(">I", id)


def test_messages_of_every_kind_of_fields_are_read(registry: StubRegistry) -> None:
    file = file_of()
    view = classes_of(file)("View")
    id = registry.add("views-value", "text of the file", "PROTOBUF", file.SerializeToString())
    full = view(
        id=2**40, word="é", flag=True, ratio=0.5, raw=b"\xff\0", kind="LARGE", tags=["a", "b"], counts={"a": 1},
        inner={"x": 3}, many=[{"x": 1}, {"x": 2}],
    )  # fmt: skip
    full.at.FromDatetime(ROW["at"])
    full.maybe.value = 0
    full.maybe.SetInParent()
    second = b"\x02\x02"  # a path of one number, 1: the second message
    values = [head(id) + second + full.SerializeToString(), head(id) + second + view().SerializeToString()]
    found = serde(registry).decode(pa.array(values, pa.binary()))
    assert [plain(row) for row in found.to_pylist()] == [ROW, UNSET]


def test_what_is_written_is_read_by_protobufs_classes(registry: StubRegistry) -> None:
    file = file_of()
    first, second = file.message_type
    del file.message_type[:]
    file.message_type.extend([second, first])
    id = registry.add("views-value", "text of the file", "PROTOBUF", file.SerializeToString())
    made = serde(registry)
    made.check_written()
    schema = Schema.of(DDL).to_arrow()
    batch = pa.RecordBatch.from_pylist(
        [{**ROW, "counts": list(ROW["counts"].items())}, dict.fromkeys(schema.names)], schema
    )
    whole, empty = made.encode(batch).to_pylist()
    assert whole.startswith(head(id) + b"\0")
    assert empty == head(id) + b"\0"
    read = classes_of(file)("View").FromString(whole[6:])
    assert (read.id, read.kind, list(read.tags), dict(read.counts), read.inner.x, [one.x for one in read.many]) == (
        2**40, 1, ["a", "b"], {"a": 1}, 3, [1, 2],
    )  # fmt: skip
    assert read.HasField("maybe")
    assert [plain(row) for row in made.decode(made.encode(batch)).to_pylist()] == [ROW, UNSET]


def test_messages_that_are_none_are_bad(registry: StubRegistry) -> None:
    id = registry.add("views-value", "text", "PROTOBUF", file_of().SerializeToString())
    values = [
        head(id) + b"\x02\x02\x08\x01",
        head(id) + b"\x02\x02\xff",
        head(id) + b"\x02\x08",
        head(id) + b"\x02",
        head(id),
        head(id) + b"\x02\x01",
        head(id) + b"\xfe\xff\xff\xff\x0f",
    ]
    found = serde(registry, "id bigint").decode_each(pa.array(values, pa.binary()))
    assert found.batch.to_pylist() == [{"id": 1}]
    assert [one.place for one in found.bad] == [1, 2, 3, 4, 5, 6]
    assert all(str(one).startswith("it is no message of the schema") for one in found.bad)


def test_files_that_import_others_are_read(registry: StubRegistry) -> None:
    inner = descriptor_pb2.FileDescriptorProto(name="place.proto", package="geo", syntax="proto3")
    inner.message_type.add(name="Place").field.add(name="town", number=1, type=Field.TYPE_STRING, label=1)
    outer = descriptor_pb2.FileDescriptorProto(name="x", package="shop", syntax="proto3", dependency=["place.proto"])
    outer.message_type.add(name="View").field.add(
        name="at", number=1, type=Field.TYPE_MESSAGE, type_name=".geo.Place", label=1
    )
    registry.add("places", "place", "PROTOBUF", inner.SerializeToString())
    reference = {"name": "place.proto", "subject": "places", "version": 1}
    registry.add("views-value", "view", "PROTOBUF", outer.SerializeToString(), [reference])
    made = serde(registry, "at struct<town:string>")
    batch = pa.RecordBatch.from_pylist([{"at": {"town": "Ede"}}], Schema.of("at struct<town:string>").to_arrow())
    assert made.decode(made.encode(batch)).to_pylist() == [{"at": {"town": "Ede"}}]


def test_a_registry_that_gives_no_descriptor_is_named(registry: StubRegistry) -> None:
    registry.add("views-value", 'syntax = "proto3"; message View { int64 id = 1; }', "PROTOBUF")
    with pytest.raises(SchemaError, match="the registry gives no descriptor of it"):
        serde(registry, "id bigint").check_written()
    (bad,) = serde(registry, "id bigint").decode_each(pa.array([head(1) + b"\0\x08\x01"], pa.binary())).bad
    assert "the registry gives no descriptor of it" in str(bad)


def test_columns_that_are_no_fields_cannot_be_written(registry: StubRegistry) -> None:
    registry.add("views-value", "text", "PROTOBUF", file_of().SerializeToString())
    with pytest.raises(SchemaError, match="its first message has no field 'word'"):
        serde(registry, "word string").check_written()
    with pytest.raises(BadMessage, match="Protobuf cannot hold it"):
        serde(registry, "x bigint").encode(pa.RecordBatch.from_pydict({"x": [1, 2**40]}))

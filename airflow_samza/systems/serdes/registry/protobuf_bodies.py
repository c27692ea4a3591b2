"""Messages of Protobuf schemas: which message of the file each is, then its bytes; one by one, through protobuf."""

from __future__ import annotations

import base64
import datetime
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Any

import pyarrow as pa
from pyarrow import types

from airflow_samza.errors import RuntimeMissing, install
from airflow_samza.systems.files.formats.nested import rows_of
from airflow_samza.systems.files.formats.varints import read_zigzag
from airflow_samza.systems.serdes.decoding import ValueSerde, decoded_each
from airflow_samza.systems.serdes.registry.bodies import Bodies
from airflow_samza.systems.serdes.registry.client import SchemaText
from airflow_samza.systems.serdes.serde import BadMessage, Decoded, Serde

_FIRST = b"\0"
"""The path of the first message of a file, written short."""

_TIMESTAMP = "google.protobuf.Timestamp"
_WRAPPERS = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)


class ProtobufBodies(Bodies):
    """Form of messages of Protobuf schemas; what is written is the first message of the file."""

    kind = "PROTOBUF"
    after_id = _FIRST

    def reader(self, written: SchemaText, own: str | None, schema: pa.Schema) -> Serde:
        """Return what reads the messages of the file."""
        return ProtobufMessages(written, schema)

    def writer(self, written: SchemaText, schema: pa.Schema) -> Serde:
        """Return what writes the file's first message, when the columns are its fields."""
        lacking = self.lacking(written, schema)
        if lacking:
            raise ValueError(f"its first message has no field {lacking[0]!r}")
        return ProtobufMessages(written, schema)

    def lacking(self, written: SchemaText, schema: pa.Schema) -> list[str]:
        """Return the columns that are no fields of the file's first message."""
        fields = ProtobufMessages(written, schema).message_at((0,)).DESCRIPTOR.fields_by_name
        return [name for name in schema.names if name not in fields]


class ProtobufMessages(ValueSerde):
    """Serde of the messages of a file; columns are their fields by name, and one that is no field is null."""

    def __init__(self, written: SchemaText, schema: pa.Schema) -> None:
        self._schema = schema
        self._pool, self._file = _pool_of(written)
        self._readers: dict[tuple[int, ...], tuple[Any, list[tuple[str, Callable[[Any], Any]]]]] = {}

    def encode(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the messages, each the first of the file."""
        first = self.message_at((0,))
        encoded = []
        for place, row in enumerate(rows_of(batch)):
            message = first()
            try:
                _fill(message, row)
                encoded.append(message.SerializeToString(deterministic=True))
            except (TypeError, ValueError, KeyError, OverflowError) as error:
                raise BadMessage(place, f"Protobuf cannot hold it ({type(error).__name__}: {error})") from error
        return pa.array(encoded, pa.binary())

    def decode_present(self, values: pa.Array) -> Decoded:
        """Return the messages that can be read."""
        return decoded_each(values, self._read_one, self._schema)

    def _read_one(self, value: bytes) -> dict[str, Any]:
        try:
            path, begin = _path_of(value)
            if path not in self._readers:
                kind = self.message_at(path)
                self._readers[path] = (kind, self._getters_of(kind))
            kind, getters = self._readers[path]
            message = kind.FromString(value[begin:])
            return {name: get(message) for name, get in getters}
        except Exception as error:  # whatever the parser trips over
            raise BadMessage(0, f"it is no message of the schema ({type(error).__name__}: {error})") from error

    def _getters_of(self, message: Any) -> list[tuple[str, Callable[[Any], Any]]]:
        """Return how the value of each column is got: most fields are plain attributes."""
        getters: list[tuple[str, Callable[[Any], Any]]] = []
        for name, kind in zip(self._schema.names, self._schema.types, strict=True):
            field = message.DESCRIPTOR.fields_by_name.get(name)
            plain = (
                field is not None
                and not (field.is_repeated or field.has_presence)
                and field.message_type is None
                and field.enum_type is None
            )
            getters.append((name, attrgetter(name) if plain else partial(_value, name=name, kind=kind)))
        return getters

    def message_at(self, path: tuple[int, ...]) -> Any:
        """Return the class of a message by its place in the file, and in the messages around it."""
        from google.protobuf import message_factory

        inner = list(self._file.message_types_by_name.values())
        for number in path:
            if number >= len(inner):
                raise ValueError(f"the schema has no message {'.'.join(map(str, path))}")
            descriptor = inner[number]
            inner = list(descriptor.nested_types)
        return message_factory.GetMessageClass(descriptor)


def _pool_of(schema: SchemaText) -> tuple[Any, Any]:
    """Return a pool with the schema's file and all that it imports, and the file."""
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, timestamp_pb2, wrappers_pb2
    except ImportError as error:
        raise RuntimeMissing(
            "Messages of Protobuf need the package protobuf, which is not installed.",
            hint=install("registry"),
            package="protobuf",
        ) from error
    pool = descriptor_pool.DescriptorPool()
    for module in (timestamp_pb2, wrappers_pb2):
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    added = {timestamp_pb2.DESCRIPTOR.name, wrappers_pb2.DESCRIPTOR.name}

    def add(one: SchemaText, name: str) -> Any:
        for inner, reference in one.references:
            if inner not in added:
                add(reference, inner)
        try:
            file = descriptor_pb2.FileDescriptorProto.FromString(base64.standard_b64decode(one.text))
            file.name = name
            added.add(name)
            return pool.AddSerializedFile(file.SerializeToString())
        except Exception as error:  # a text, or a file whose imports are missing
            raise ValueError(f"the registry gives no descriptor of it: {type(error).__name__}: {error}") from error

    name = "its schema.proto"
    add(schema, name)
    return pool, pool.FindFileByName(name)


def _path_of(value: bytes) -> tuple[tuple[int, ...], int]:
    """Return which message of the file a value is, and where it begins."""
    if value[:1] == _FIRST:
        return (0,), 1
    count, place = _number(value, 0)
    if not 0 < count <= len(value):
        raise ValueError(f"a path of {count} numbers")
    path = []
    for _ in range(count):
        number, place = _number(value, place)
        if number < 0:
            raise ValueError(f"a path with {number}")
        path.append(number)
    return tuple(path), place


def _number(value: bytes, place: int) -> tuple[int, int]:
    """Return the number that stands at a place, and where it ends."""
    try:
        return read_zigzag(value, place, "its path has")
    except IndexError:
        raise ValueError("it ends within its path") from None


def _value(message: Any, name: str, kind: pa.DataType) -> Any:
    """Return a field as a message of ours has it; None where it is not set, or no field."""
    field = message.DESCRIPTOR.fields_by_name.get(name)
    if field is None:
        return None
    value = getattr(message, name)
    if field.is_repeated:
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            item = field.message_type.fields_by_name["value"]
            inner = kind.item_type if types.is_map(kind) else kind
            return {key: _plain(value[key], item, inner) for key in value}
        inner = kind.value_type if types.is_list(kind) else kind
        return [_plain(one, field, inner) for one in value]
    if field.has_presence and not message.HasField(name):
        return None
    return _plain(value, field, kind)


def _plain(value: Any, field: Any, kind: pa.DataType) -> Any:
    if field.enum_type is not None:
        enum_value = field.enum_type.values_by_number.get(value)
        return str(value) if enum_value is None else enum_value.name
    if field.message_type is None:
        return value
    if field.message_type.full_name == _TIMESTAMP:
        return value.ToDatetime(tzinfo=datetime.timezone.utc)
    if field.message_type.full_name in _WRAPPERS:
        return value.value
    if types.is_struct(kind):
        return {one.name: _value(value, one.name, one.type) for one in kind}
    return {one.name: getattr(value, one.name) for one, _ in value.ListFields()}


def _fill(message: Any, row: dict[str, Any]) -> None:
    """Set the fields of a message that have a value."""
    for name, value in row.items():
        field = message.DESCRIPTOR.fields_by_name[name]
        if value is None:
            continue
        target = getattr(message, name)
        if field.is_repeated and isinstance(value, dict):
            item = field.message_type.fields_by_name["value"]
            for key, one in value.items():
                if item.message_type is not None:
                    _into(target[key], one)
                else:
                    target[key] = _number_of(one, item)
        elif field.is_repeated:
            for one in value:
                if field.message_type is not None:
                    _into(target.add(), one)
                else:
                    target.append(_number_of(one, field))
        elif field.message_type is None:
            setattr(message, name, _number_of(value, field))
        else:
            target.SetInParent()
            _into(target, value)


def _into(target: Any, value: Any) -> None:
    name = target.DESCRIPTOR.full_name
    if name == _TIMESTAMP:
        target.FromDatetime(value)
    elif name in _WRAPPERS:
        target.value = value
    else:
        _fill(target, value)


def _number_of(value: Any, field: Any) -> Any:
    """Return a value as its field takes it: of an enum the number, by its name."""
    return field.enum_type.values_by_name[value].number if field.enum_type is not None else value
